// The workloads of workloads.hpp on other allocators, for a table beside cenote's.
//   default       cudaMallocAsync on a pool that keeps everything
//   -DPEER_TORCH  PyTorch's caching allocator (PYTORCH_CUDA_ALLOC_CONF chooses its mode)
#include "workloads.hpp"

#include <cuda_runtime.h>
#include <string>
#ifdef PEER_TORCH
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#endif

using namespace workloads;

static void must(cudaError_t status, const char *what) {
    if (status == cudaSuccess) return;
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
    std::exit(3);
}

struct Streams {
    using stream = cudaStream_t;
    stream open_stream() {
        stream s = nullptr;
        must(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "cudaStreamCreate");
        return s;
    }
    void enter() { must(cudaSetDevice(0), "cudaSetDevice"); }
    void close_stream(stream s) { must(cudaStreamDestroy(s), "cudaStreamDestroy"); }
    void sync() { must(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }
};

#ifdef PEER_TORCH
namespace caching = c10::cuda::CUDACachingAllocator;
struct Peer : Streams {
    void start() { caching::init(c10::cuda::device_count()); }
    void *alloc(size_t bytes, stream s) { return caching::raw_alloc_with_stream(bytes, s); }
    void free(void *p, size_t, stream) { caching::raw_delete(p); }
    size_t held() { return size_t(caching::getDeviceStats(0).reserved_bytes[0].current); }
};
#else
struct Peer : Streams {
    cudaMemPool_t pool = nullptr;
    void start() {
        must(cudaDeviceGetDefaultMemPool(&pool, 0), "cudaDeviceGetDefaultMemPool");
        uint64_t keep = UINT64_MAX;
        must(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep), "threshold");
    }
    void *alloc(size_t bytes, stream s) {
        void *p = nullptr;
        return cudaMallocAsync(&p, bytes, s) == cudaSuccess ? p : nullptr;
    }
    void free(void *p, size_t, stream s) { must(cudaFreeAsync(p, s), "cudaFreeAsync"); }
    size_t held() {
        uint64_t bytes = 0;
        must(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &bytes), "held");
        return size_t(bytes);
    }
};
#endif

static void speed(Peer &a, cudaStream_t s, const char *name) {
    const long n = 100000;
    std::printf("%-18s pair 512B %.1f 1MiB %.1f ns;", name, pair_ns(a, 512, n, s),
                pair_ns(a, size_t(1) << 20, n, s));
    {
        Churn<Peer> small(a, SMALL, 3, s);
        std::printf(" churn small %.1f ns;", small.timed(n));
    }
    {
        Churn<Peer> mixed(a, MIXED, 4, s);
        std::printf(" mixed %.1f ns;", mixed.timed(n));
    }
    std::printf(" threads churn Mpair/s");
    for (int threads : {1, 4, 16})
        std::printf(" %d:%.2f", threads, threads_mpairs(a, threads, Load::CHURN, 16 * GIB, 0.5));
    std::printf("\n");
}

// One part a process: a phase must start on an allocator that holds nothing.
int main(int argc, char **argv) {
    const std::string name = argc > 1 ? argv[1] : "peer", part = argc > 2 ? argv[2] : "speed";
    must(cudaSetDevice(0), "cudaSetDevice");
    must(cudaFree(nullptr), "cudaFree");
    Peer a;
    a.start();
    auto s = a.open_stream();
    if (part == "train") {
        Shape t = training(a, s);
        std::printf("%-18s training held/live %.3f, first pass %.1f ms\n", name.c_str(), t.ratio(),
                    t.wall_ms);
    } else if (part == "frag") {
        std::printf("%-18s fragmentation held/live %.3f\n", name.c_str(),
                    fragmentation(a, s).ratio());
    } else {
        speed(a, s, name.c_str());
    }
    a.close_stream(s);
    return 0;
}
