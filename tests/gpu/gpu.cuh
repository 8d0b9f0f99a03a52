// Kernels and small tools that the GPU tests share: patterns written and checked by the device,
// kernels that run for a given time or until the host opens a gate.
#pragma once
#include "cenote_adaptor.hpp"

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <thread>

namespace gpu {

// Many blocks in one launch, handed over by value: 64 × 24 bytes fit the kernel's parameters.
struct Batch {
    static constexpr int MAX = 64;
    struct Item {
        unsigned char *p;
        uint64_t bytes;
        uint64_t seed;
    };
    Item items[MAX];
    int count = 0;

    bool full() const { return count == MAX; }
    void add(void *p, uint64_t bytes, uint64_t seed) {
        items[count++] = {static_cast<unsigned char *>(p), bytes, seed};
    }
};

// What checks found: how many bytes were wrong, and the first of them.
struct Faults {
    unsigned long long wrong_bytes;
    unsigned long long seed;
    unsigned long long offset;
    unsigned int wanted, found;
};

__host__ __device__ inline uint32_t pattern(uint64_t seed, uint64_t word) {
    uint64_t x = (seed ^ (word * 0x9E3779B97F4A7C15ull)) * 0xBF58476D1CE4E5B9ull;
    x ^= x >> 29;
    return uint32_t(x ^ (x >> 32));
}

__device__ inline uint4 pattern4(uint64_t seed, uint64_t quad) {
    return {pattern(seed, quad * 4), pattern(seed, quad * 4 + 1), pattern(seed, quad * 4 + 2),
            pattern(seed, quad * 4 + 3)};
}

__device__ inline unsigned char pattern_byte(uint64_t seed, uint64_t offset) {
    return (unsigned char)(pattern(seed, offset / 4) >> (8 * (offset % 4)));
}

__device__ inline void report(Faults *f, uint64_t seed, uint64_t offset, uint32_t want,
                              uint32_t got, int bytes) {
    if (atomicAdd(&f->wrong_bytes, (unsigned long long)bytes) != 0) return;
    f->seed = seed;
    f->offset = offset;
    f->wanted = want;
    f->found = got;
}

__device__ inline int differing(uint32_t a, uint32_t b) {
    int n = 0;
    for (int i = 0; i < 4; ++i) n += ((a >> (8 * i)) & 255) != ((b >> (8 * i)) & 255);
    return n;
}

// Grid: y picks the block, x strides over it.
static __global__ void fill_kernel(Batch b) {
    Batch::Item it = b.items[blockIdx.y];
    uint64_t quads = it.bytes / 16, step = uint64_t(gridDim.x) * blockDim.x;
    uint64_t me = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    uint4 *p = reinterpret_cast<uint4 *>(it.p);
    for (uint64_t i = me; i < quads; i += step) p[i] = pattern4(it.seed, i);
    uint64_t tail = quads * 16 + me;
    if (tail < it.bytes) it.p[tail] = pattern_byte(it.seed, tail);
}

static __global__ void check_kernel(Batch b, Faults *f) {
    Batch::Item it = b.items[blockIdx.y];
    uint64_t quads = it.bytes / 16, step = uint64_t(gridDim.x) * blockDim.x;
    uint64_t me = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    const uint4 *p = reinterpret_cast<const uint4 *>(it.p);
    for (uint64_t i = me; i < quads; i += step) {
        uint4 want = pattern4(it.seed, i), got = p[i];
        int bad = differing(want.x, got.x) + differing(want.y, got.y) +
                  differing(want.z, got.z) + differing(want.w, got.w);
        if (bad) report(f, it.seed, i * 16, want.x, got.x, bad);
    }
    uint64_t tail = quads * 16 + me;
    if (tail < it.bytes && it.p[tail] != pattern_byte(it.seed, tail))
        report(f, it.seed, tail, pattern_byte(it.seed, tail), it.p[tail], 1);
}

__device__ inline uint64_t device_ns() {
    uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

// Keeps a stream busy.
static __global__ void spin_kernel(uint64_t ns) {
    for (uint64_t start = device_ns(); device_ns() - start < ns;) __nanosleep(1000);
}

// Keeps a stream busy until the host opens the gate, but never longer than the limit.
static __global__ void gate_kernel(volatile int *open, uint64_t limit_ns) {
    for (uint64_t start = device_ns(); !*open && device_ns() - start < limit_ns;)
        __nanosleep(1000);
}

inline void launched(const char *what) { cuda_must(cudaGetLastError(), what); }

inline dim3 grid_of(const Batch &b) {
    uint64_t largest = 0;
    for (int i = 0; i < b.count; ++i) largest = b.items[i].bytes > largest ? b.items[i].bytes
                                                                           : largest;
    uint64_t x = (largest + 65535) / 65536;
    return dim3(unsigned(x < 1 ? 1 : x > 64 ? 64 : x), unsigned(b.count));
}

inline void fill(const Batch &b, cudaStream_t s) {
    if (b.count == 0) return;
    fill_kernel<<<grid_of(b), 256, 0, s>>>(b);
    launched("fill");
}

inline void check(const Batch &b, Faults *f, cudaStream_t s) {
    if (b.count == 0) return;
    check_kernel<<<grid_of(b), 256, 0, s>>>(b, f);
    launched("check");
}

inline void fill(void *p, uint64_t bytes, uint64_t seed, cudaStream_t s) {
    Batch b;
    b.add(p, bytes, seed);
    fill(b, s);
}

inline void check(void *p, uint64_t bytes, uint64_t seed, Faults *f, cudaStream_t s) {
    Batch b;
    b.add(p, bytes, seed);
    check(b, f, s);
}

inline void spin(uint64_t ns, cudaStream_t s) {
    spin_kernel<<<1, 1, 0, s>>>(ns);
    launched("spin");
}

inline Faults *new_faults() {
    Faults *f = nullptr;
    cuda_must(cudaMalloc(&f, sizeof *f), "cudaMalloc");
    cuda_must(cudaMemset(f, 0, sizeof *f), "cudaMemset");
    return f;
}

// Waits for the device.
inline Faults read_faults(const Faults *f) {
    Faults host;
    cuda_must(cudaMemcpy(&host, f, sizeof host, cudaMemcpyDeviceToHost), "read faults");
    return host;
}

inline cudaStream_t new_stream(unsigned flags = cudaStreamNonBlocking) {
    cudaStream_t s = nullptr;
    cuda_must(cudaStreamCreateWithFlags(&s, flags), "cudaStreamCreate");
    return s;
}

// `to` waits for what is queued on `from` now.
inline void order(cudaStream_t from, cudaStream_t to) {
    cudaEvent_t e = nullptr;
    cuda_must(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "cudaEventCreate");
    cuda_must(cudaEventRecord(e, from), "cudaEventRecord");
    cuda_must(cudaStreamWaitEvent(to, e, 0), "cudaStreamWaitEvent");
    cuda_must(cudaEventDestroy(e), "cudaEventDestroy");
}

// A gate in host memory that kernels on one stream wait for.
class Gate {
public:
    Gate() {
        cuda_must(cudaHostAlloc(&host_, sizeof *host_, cudaHostAllocMapped), "cudaHostAlloc");
        *host_ = 0;
        cuda_must(cudaHostGetDevicePointer(&device_, host_, 0), "cudaHostGetDevicePointer");
    }
    ~Gate() {
        open();
        cudaFreeHost(host_);
    }
    Gate(const Gate &) = delete;
    Gate &operator=(const Gate &) = delete;
    void hold(cudaStream_t s, uint64_t limit_ns = 4000000000ull) {
        gate_kernel<<<1, 1, 0, s>>>(device_, limit_ns);
        launched("gate");
    }
    void open() { *static_cast<volatile int *>(host_) = 1; }

private:
    int *host_ = nullptr, *device_ = nullptr;
};

// Empties the cache until the pools hold nothing. All work is done, but the library learns of frees
// on destroyed streams by an event of its own, which may take a moment: half a second at most.
inline cenote_status give_everything_back(std::initializer_list<cenote_pool_t> pools) {
    for (int i = 0; i < 50; ++i) {
        cenote_trim_result t{};
        t.struct_size = sizeof t;
        cenote_status status = cenote_empty_cache(0, &t);
        uint64_t held = 0;
        for (cenote_pool_t p : pools) held += pool_stats(p).held_bytes;
        if (status != CENOTE_OK || held == 0) return status;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return CENOTE_OK;
}

inline bool overlap(const void *a, uint64_t na, const void *b, uint64_t nb) {
    auto x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
    return x < y + nb && y < x + na;
}

} // namespace gpu
