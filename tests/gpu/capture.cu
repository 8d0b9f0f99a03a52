// Stream captures with allocations inside, in all three modes: the graph replays correctly, eager
// allocations never get its memory while it lives, and the memory comes back when it is gone, also
// after a capture that failed half-way (c21). Another thread's GLOBAL capture is never broken.
#include "gpu.cuh"
#include "report.hpp"

#include "../../benches/peers/workloads.hpp"

#include <string>
#include <mutex>
#include <thread>
#include <vector>

using namespace gpu;
using workloads::Rng;

namespace {

constexpr uint64_t WORDS = 2u << 20, BYTES = WORDS * 4;

__global__ void affine(uint32_t *out, const uint32_t *in, uint32_t times, uint32_t plus) {
    for (uint64_t i = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < WORDS;
         i += uint64_t(gridDim.x) * blockDim.x)
        out[i] = in[i] * times + plus;
}

__global__ void check_affine(const uint32_t *out, uint64_t seed, Faults *f) {
    for (uint64_t i = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < WORDS;
         i += uint64_t(gridDim.x) * blockDim.x) {
        uint32_t want = (pattern(seed, i) + 1) * 2 + 3;
        if (out[i] != want) report(f, seed, i * 4, want, out[i], 4);
    }
}

struct Range {
    void *p;
    uint64_t bytes;
};

// The stream under test in the form that cenote gets it, and the buffers outside any graph.
struct Bench {
    cenote_pool_t pool = 0;
    cudaStream_t raw = nullptr;
    cenote_stream_t handle = nullptr;
    bool told = false;
    uint32_t *in = nullptr, *out = nullptr;
    Faults *faults = nullptr;
    int overlaps = 0, failures = 0, not_captured = 0;

    void open(const char *name, bool is_told) {
        told = is_told;
        pool = new_pool(name);
        raw = new_stream();
        handle = raw;
        uint32_t promises = CENOTE_STREAM_PERSISTENT | CENOTE_STREAM_CAPTURE_TOLD;
        if (told) cenote_must(cenote_stream_register(0, raw, promises, &handle), "register");
        cuda_must(cudaMalloc(&in, BYTES), "cudaMalloc");
        cuda_must(cudaMalloc(&out, BYTES), "cudaMalloc");
        faults = new_faults();
    }
    void close() {
        if (told) cenote_must(cenote_stream_retire(handle), "cenote_stream_retire");
        cuda_must(cudaStreamDestroy(raw), "cudaStreamDestroy");
        for (void *p : {static_cast<void *>(in), static_cast<void *>(out),
                        static_cast<void *>(faults)})
            cuda_must(cudaFree(p), "cudaFree");
        cenote_must(cenote_pool_destroy(pool), "cenote_pool_destroy");
    }
    uint32_t *take(uint64_t bytes = BYTES) {
        void *p = nullptr;
        cenote_must(cenote_alloc(pool, bytes, handle, &p), "cenote_alloc");
        return static_cast<uint32_t *>(p);
    }
    void give(void *p) { cenote_must(cenote_free(p, handle), "cenote_free"); }
    void run(uint32_t *to, const uint32_t *from, uint32_t times, uint32_t plus) {
        affine<<<256, 256, 0, raw>>>(to, from, times, plus);
        launched("affine");
    }
};

struct Graph {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    cenote_graph_t id = 0;
    std::vector<Range> ranges;
    void *kept = nullptr;

    bool owns(const void *p, uint64_t bytes) const {
        for (const Range &r : ranges)
            if (overlap(r.p, r.bytes, p, bytes)) return true;
        return false;
    }
    void destroy() {
        cuda_must(cudaGraphExecDestroy(exec), "cudaGraphExecDestroy");
        cuda_must(cudaGraphDestroy(graph), "cudaGraphDestroy");
        if (id) cenote_must(cenote_graph_release(id), "cenote_graph_release");
    }
};

// out = (in + 1) × 2 + 3 over four blocks, of which one is still live when the capture ends.
Graph record(Bench &b, cudaStreamCaptureMode mode) {
    Graph g;
    auto take = [&] {
        uint32_t *p = b.take();
        g.ranges.push_back({p, BYTES});
        return p;
    };
    cuda_must(cudaStreamBeginCapture(b.raw, mode), "cudaStreamBeginCapture");
    if (b.told) cenote_must(cenote_capture_begin(b.handle), "cenote_capture_begin");
    uint32_t *a = take();
    b.run(a, b.in, 1, 1);
    uint32_t *c = take();
    b.run(c, a, 2, 0);
    b.give(a);
    uint32_t *d = take();
    b.run(d, c, 1, 3);
    b.give(c);
    uint32_t *kept = take();
    b.run(kept, d, 1, 0);
    b.give(d);
    b.run(b.out, kept, 1, 0);
    g.kept = kept;
    cudaError_t ended = cudaStreamEndCapture(b.raw, &g.graph);
    if (b.told) cenote_must(cenote_capture_end(b.handle, &g.id), "cenote_capture_end");
    cuda_must(ended, "cudaStreamEndCapture");
    cuda_must(cudaGraphInstantiate(&g.exec, g.graph, 0), "cudaGraphInstantiate");
    cenote_block_info_t info{};
    info.struct_size = sizeof info;
    cenote_must(cenote_block_info(kept, &info), "cenote_block_info");
    b.not_captured += info.captured != 1;
    return g;
}

// Eager blocks on the graph's stream and another: none may be the graph's, and a launch between
// their fill and their check must leave them alone.
void launch_among_eager(Bench &b, const Graph &g, uint64_t seed) {
    Rng rng(seed);
    cudaStream_t side = new_stream();
    std::vector<Range> eager;
    Batch batch;
    for (int i = 0; i < Batch::MAX; ++i) {
        uint64_t bytes = rng.log_size(512, 2.0 * BYTES);
        void *p = nullptr;
        cenote_stream_t s = i % 2 ? b.handle : cenote_stream_t(side);
        cenote_must(cenote_alloc(b.pool, bytes, s, &p), "cenote_alloc");
        b.overlaps += g.owns(p, bytes);
        eager.push_back({p, bytes});
        batch.add(p, bytes, seed * 100 + uint64_t(i));
    }
    order(side, b.raw);
    fill(batch, b.raw);
    fill(b.in, BYTES, seed, b.raw);
    cuda_must(cudaGraphLaunch(g.exec, b.raw), "cudaGraphLaunch");
    check_affine<<<256, 256, 0, b.raw>>>(b.out, seed, b.faults);
    launched("check_affine");
    check(batch, b.faults, b.raw);
    cuda_must(cudaStreamSynchronize(b.raw), "cudaStreamSynchronize");
    for (int i = 0; i < Batch::MAX; ++i)
        cenote_must(cenote_free(eager[size_t(i)].p, i % 2 ? b.handle : cenote_stream_t(side)),
                    "cenote_free");
    cuda_must(cudaStreamSynchronize(side), "cudaStreamSynchronize");
    cuda_must(cudaStreamDestroy(side), "cudaStreamDestroy");
}

void conclude(Report &r, const std::string &name, Bench &b) {
    cuda_must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    Faults f = read_faults(b.faults);
    cenote_must(give_everything_back({b.pool}), "cenote_empty_cache");
    r.at_most(name + " wrong bytes", double(f.wrong_bytes), 0, "B");
    r.at_most(name + " graph memory handed out", b.overlaps, 0, "");
    r.at_most(name + " captures that failed", b.failures, 0, "");
    r.at_most(name + " blocks not marked as captured", b.not_captured, 0, "");
    r.at_most(name + " held when the graph is gone", double(pool_stats(b.pool).held_bytes), 0, "B");
}

void modes(Report &r, cudaStreamCaptureMode mode, const char *name, bool told) {
    Bench b;
    b.open(name, told);
    Graph g = record(b, mode);
    for (uint64_t i = 1; i <= 4; ++i) launch_among_eager(b, g, i);
    // Freed after the capture: the graph still writes it, so it stays the graph's.
    b.give(g.kept);
    for (uint64_t i = 5; i <= 8; ++i) launch_among_eager(b, g, i);
    // A launch may still run while the graph is destroyed.
    cuda_must(cudaGraphLaunch(g.exec, b.raw), "cudaGraphLaunch");
    g.destroy();
    conclude(r, name, b);
    b.close();
}

// A capture that fails half-way, with its block still live or already freed.
void c21(Report &r) {
    for (bool freed_inside : {false, true}) {
        Bench b;
        b.open("c21", false);
        cuda_must(cudaStreamBeginCapture(b.raw, cudaStreamCaptureModeGlobal), "begin capture");
        void *p = b.take(256u << 20);
        affine<<<256, 256, 0, b.raw>>>(static_cast<uint32_t *>(p), b.in, 1, 1);
        if (freed_inside) b.give(p);
        b.failures += cudaStreamSynchronize(b.raw) == cudaSuccess;
        cudaGraph_t graph = nullptr;
        b.failures += cudaStreamEndCapture(b.raw, &graph) == cudaSuccess;
        if (graph) cudaGraphDestroy(graph);
        (void)cudaGetLastError();
        if (!freed_inside) b.give(p);
        conclude(r, freed_inside ? "c21 freed inside" : "c21 live", b);
        b.close();
    }
}

// What a thread does that knows nothing of the capture elsewhere: grow, fill, check, free, trim.
void eager_round(cenote_pool_t pool, cudaStream_t s, Rng &rng, Faults *faults) {
    Batch batch;
    for (int i = 0; i < 16; ++i) {
        uint64_t bytes = rng.log_size(512, 64e6);
        void *p = nullptr;
        cenote_must(cenote_alloc(pool, bytes, s, &p), "eager cenote_alloc");
        batch.add(p, bytes, rng.next());
    }
    fill(batch, s);
    check(batch, faults, s);
    for (int i = 0; i < batch.count; ++i)
        cenote_must(cenote_free(batch.items[i].p, s), "eager cenote_free");
    cenote_trim_result t{};
    t.struct_size = sizeof t;
    if (rng.next() % 4 == 0) cenote_must(cenote_pool_trim(pool, 0, &t), "eager trim");
    if (rng.next() % 4 == 0) cenote_must(cenote_poll(), "eager poll");
    (void)pool_stats(pool);
}

void beside_global_capture(Report &r) {
    Bench b;
    b.open("beside", false);
    std::atomic<bool> stop{false};
    std::atomic<long> eager{0};
    // cenote knows of a capture from its first allocation on; before it, a trim elsewhere would
    // record an event of the whole context, which breaks captures.
    std::mutex unknown;
    std::thread other([&] {
        cuda_must(cudaSetDevice(0), "cudaSetDevice");
        Rng rng(9);
        cenote_pool_t pool = new_pool("eager");
        cudaStream_t s = new_stream();
        for (; !stop; ++eager) {
            std::lock_guard<std::mutex> known(unknown);
            eager_round(pool, s, rng, b.faults);
        }
        cuda_must(cudaStreamSynchronize(s), "cudaStreamSynchronize");
        cenote_must(cenote_pool_destroy(pool), "cenote_pool_destroy");
        cuda_must(cudaStreamDestroy(s), "cudaStreamDestroy");
    });
    while (eager < 3) std::this_thread::yield();
    for (int i = 0; i < 10; ++i) {
        std::unique_lock<std::mutex> alone(unknown);
        cuda_must(cudaStreamBeginCapture(b.raw, cudaStreamCaptureModeGlobal), "begin capture");
        for (int k = 0; k < 20; ++k) {
            uint32_t *p = b.take(BYTES + uint64_t(k) * 4096);
            if (alone) alone.unlock();
            b.run(p, b.in, 1, uint32_t(k));
            b.give(p);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        cudaGraph_t graph = nullptr;
        b.failures += cudaStreamEndCapture(b.raw, &graph) != cudaSuccess;
        (void)cudaGetLastError();
        if (graph) cuda_must(cudaGraphDestroy(graph), "cudaGraphDestroy");
    }
    stop = true;
    other.join();
    r.add("beside a GLOBAL capture: eager rounds", double(eager), "");
    conclude(r, "beside a GLOBAL capture", b);
    b.close();
}

// Loads every kernel before a capture: loading one may call what a capture forbids.
void warm_up() {
    Bench b;
    b.open("warm", false);
    uint32_t *p = b.take();
    fill(p, BYTES, 1, b.raw);
    check(p, BYTES, 1, b.faults, b.raw);
    b.run(b.out, b.in, 1, 1);
    check_affine<<<256, 256, 0, b.raw>>>(b.out, 1, b.faults);
    launched("check_affine");
    b.give(p);
    cuda_must(cudaStreamSynchronize(b.raw), "cudaStreamSynchronize");
    b.close();
}

} // namespace

int main(int argc, char **argv) {
    const char *json = nullptr;
    std::string only = "global,local,relaxed,told,c21,beside";
    for (int i = 1; i < argc; ++i) {
        std::string key = argv[i];
        if (key == "--only" && i + 1 < argc) only = argv[++i];
        else if (key == "--json" && i + 1 < argc) json = argv[++i];
        else {
            std::fprintf(stderr, "usage: capture [--only global,local,…] [--json FILE]\n");
            return 2;
        }
    }
    auto wants = [&](const char *name) { return only.find(name) != std::string::npos; };
    cuda_must(cudaSetDevice(0), "cudaSetDevice");
    warm_up();
    Report r("capture");
    if (wants("global")) modes(r, cudaStreamCaptureModeGlobal, "global", false);
    r.flush();
    if (wants("local")) modes(r, cudaStreamCaptureModeThreadLocal, "thread local", false);
    if (wants("relaxed")) modes(r, cudaStreamCaptureModeRelaxed, "relaxed", false);
    r.flush();
    if (wants("told")) modes(r, cudaStreamCaptureModeRelaxed, "told", true);
    r.flush();
    if (wants("c21")) c21(r);
    r.flush();
    if (wants("beside")) beside_global_capture(r);
    r.flush();
    if (json && !r.write_json(json)) return 2;
    return r.missed() ? 1 : 0;
}
