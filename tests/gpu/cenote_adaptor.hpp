// cenote as an allocator for benches/peers/workloads.hpp, on CUDA or (NO_CUDA) on any backend.
#pragma once
#include "cenote.h"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#ifndef NO_CUDA
#include <cuda_runtime.h>
#endif

// Ends the program with what the library says about a failed call.
inline void cenote_must(cenote_status status, const char *what) {
    if (status == 0) return;
    cenote_error e{};
    e.struct_size = sizeof e;
    cenote_last_error(&e);
    std::fprintf(stderr, "%s: %s: %s\n", what, cenote_status_name(status), e.message);
    std::exit(3);
}

#ifndef NO_CUDA
inline void cuda_must(cudaError_t status, const char *what) {
    if (status == cudaSuccess) return;
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
    std::exit(3);
}
#endif

inline cenote_pool_stats_t pool_stats(cenote_pool_t pool) {
    cenote_pool_stats_t s{};
    s.struct_size = sizeof s;
    cenote_must(cenote_pool_stats(pool, &s), "cenote_pool_stats");
    return s;
}

inline cenote_pool_t new_pool(const char *name, uint64_t limit_bytes = 0, uint32_t slack_ppm = 0) {
    cenote_pool_desc d{};
    d.struct_size = sizeof d;
    d.kind = CENOTE_KIND_DEVICE;
    d.device = 0;
    d.limit_bytes = limit_bytes;
    d.slack_ppm = slack_ppm;
    std::snprintf(d.name, sizeof d.name, "%s", name);
    cenote_pool_t pool = 0;
    cenote_must(cenote_pool_create(&d, &pool), "cenote_pool_create");
    return pool;
}

struct Cenote {
    using stream = cenote_stream_t;

    cenote_pool_t pool;
    bool registered;

    void *alloc(size_t bytes, stream s) {
        void *p = nullptr;
        cenote_status status = cenote_alloc(pool, bytes, s, &p);
        if (status != 0) complain(status, "cenote_alloc");
        return p;
    }
    void free(void *p, size_t, stream s) {
        cenote_status status = cenote_free(p, s);
        if (status != 0) cenote_must(status, "cenote_free");
    }
    // The pool follows its own peaks exactly: asking at every step would only disturb it.
    size_t held() { return 0; }

    void enter() {
#ifndef NO_CUDA
        cuda_must(cudaSetDevice(0), "cudaSetDevice");
#endif
    }
    stream open_stream() {
        stream raw = open_raw();
        if (!registered) return raw;
        stream s = nullptr;
        uint32_t promises = CENOTE_STREAM_PERSISTENT | CENOTE_STREAM_CAPTURE_TOLD;
        cenote_must(cenote_stream_register(0, raw, promises, &s), "cenote_stream_register");
        return s;
    }
    // The raw stream of a registered one is left open: a bench has few of them.
    void close_stream(stream s) {
        if (registered) cenote_must(cenote_stream_retire(s), "cenote_stream_retire");
#ifndef NO_CUDA
        else cuda_must(cudaStreamDestroy(static_cast<cudaStream_t>(s)), "cudaStreamDestroy");
#endif
    }
    void sync() {
#ifndef NO_CUDA
        cuda_must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
#endif
    }

private:
    static void complain(cenote_status status, const char *what) {
        cenote_error e{};
        e.struct_size = sizeof e;
        cenote_last_error(&e);
        std::fprintf(stderr, "%s: %s: %s\n", what, cenote_status_name(status), e.message);
    }
    static stream open_raw() {
#ifdef NO_CUDA
        static std::atomic<uintptr_t> next{0x100};
        return reinterpret_cast<stream>(next.fetch_add(0x10));
#else
        cudaStream_t s = nullptr;
        cuda_must(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "cudaStreamCreate");
        return s;
#endif
    }
};
