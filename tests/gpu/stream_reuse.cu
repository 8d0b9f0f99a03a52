// When may freed memory be handed out again? Proved with kernels that are held at a gate while
// other streams ask for memory: a block that overlaps one still in use is a violation.
//   c17  a stream destroyed while its kernel runs, its handle recycled (raw, registered)
//   ptds per-thread default streams, of threads that live and of threads that end
//   c16  frees on the legacy stream that nobody ever waits for
//   c18  a block valid everywhere, freed on a non-blocking stream
//   c20  a copy on a side stream whose use is recorded, and whose use has ended
//   c29  a kernel that faults: every later call says so, nothing aborts
#include "gpu.cuh"
#include "report.hpp"

#include <string>
#include <thread>
#include <vector>

#include <sys/stat.h>
#include <sys/wait.h>

using namespace gpu;

namespace {

constexpr uint64_t BLOCK = 16ull << 20;
constexpr int AHEAD = 8;

// What all rounds of a case found.
struct Tally {
    int rounds = 0, overlaps = 0, recycled = 0, ran_ahead = 0, refused = 0;
};

struct Stream {
    cudaStream_t raw = nullptr;
    cenote_stream_t handle = nullptr;
    bool registered = false;

    static Stream open(bool registered, cudaStream_t raw) {
        Stream s{raw, raw, registered};
        if (registered)
            cenote_must(cenote_stream_register(0, raw, CENOTE_STREAM_PERSISTENT, &s.handle),
                        "cenote_stream_register");
        return s;
    }
    void destroy() {
        if (registered) cenote_must(cenote_stream_retire(handle), "cenote_stream_retire");
        cuda_must(cudaStreamDestroy(raw), "cudaStreamDestroy");
    }
};

void *must_alloc(cenote_pool_t pool, uint64_t bytes, cenote_stream_t s) {
    void *p = nullptr;
    cenote_must(cenote_alloc(pool, bytes, s, &p), "cenote_alloc");
    return p;
}

// True once the stream has nothing to do; gives up after a tenth of a second.
bool finishes(cudaStream_t s) {
    for (int i = 0; i < 100; ++i) {
        if (cudaStreamQuery(s) == cudaSuccess) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
}

// While `x` is in use behind a gate: takes blocks of its size on another stream, writes them, and
// counts those that overlap it.
void reach_for(cenote_pool_t pool, const void *x, uint64_t bytes, cudaStream_t raw,
               cenote_stream_t handle, Tally &t) {
    std::vector<void *> ys;
    for (int i = 0; i < AHEAD; ++i) {
        ys.push_back(must_alloc(pool, bytes, handle));
        t.overlaps += overlap(x, bytes, ys.back(), bytes);
        fill(ys.back(), bytes, 0xBAD0000 + uint64_t(i), raw);
    }
    t.ran_ahead += finishes(raw);
    for (void *y : ys) cenote_must(cenote_free(y, handle), "cenote_free");
}

// The next stream that gets the handle of one just destroyed, else any new stream.
cudaStream_t recycled(cudaStream_t old, Tally &t) {
    std::vector<cudaStream_t> tries;
    for (int i = 0; i < 16 && (tries.empty() || tries.back() != old); ++i)
        tries.push_back(new_stream());
    cudaStream_t found = tries.back();
    tries.pop_back();
    for (cudaStream_t s : tries) cuda_must(cudaStreamDestroy(s), "cudaStreamDestroy");
    t.recycled += found == old;
    return found;
}

void c17_round(cenote_pool_t pool, bool registered, Faults *faults, Tally &t) {
    ++t.rounds;
    Gate gate;
    Stream s1 = Stream::open(registered, new_stream());
    void *x = must_alloc(pool, BLOCK, s1.handle);
    fill(x, BLOCK, uint64_t(t.rounds), s1.raw);
    gate.hold(s1.raw);
    check(x, BLOCK, uint64_t(t.rounds), faults, s1.raw);
    cenote_must(cenote_free(x, s1.handle), "cenote_free");
    s1.destroy();
    Stream s2 = Stream::open(registered, recycled(s1.raw, t));
    reach_for(pool, x, BLOCK, s2.raw, s2.handle, t);
    gate.open();
    cuda_must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    s2.destroy();
}

void conclude(Report &r, const std::string &name, cenote_pool_t pool, Faults *faults,
              const Tally &t) {
    r.at_most(name + " blocks handed out too early", t.overlaps, 0, "");
    r.at_most(name + " wrong bytes", double(read_faults(faults).wrong_bytes), 0, "B");
    cuda_must(cudaMemset(faults, 0, sizeof *faults), "cudaMemset");
    cuda_must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    cenote_must(give_everything_back({pool}), "cenote_empty_cache");
    r.at_most(name + " held in the end", double(pool_stats(pool).held_bytes), 0, "B");
    cenote_must(cenote_pool_destroy(pool), "cenote_pool_destroy");
}

void c17(Report &r, bool registered, Faults *faults) {
    cenote_pool_t pool = new_pool("c17");
    Tally t;
    for (int i = 0; i < 20; ++i) c17_round(pool, registered, faults, t);
    std::string name = registered ? "c17 registered" : "c17 raw";
    r.add(name + " rounds", t.rounds, "");
    r.at_least(name + " rounds with the same handle", t.recycled, registered ? 0 : 1, "");
    r.add(name + " rounds where the new stream ran ahead", t.ran_ahead, "");
    conclude(r, name, pool, faults, t);
}

// Two threads, each with its own per-thread default stream behind the same value 2.
void ptds_round(cenote_pool_t pool, bool first_ends, Faults *faults, Tally &t) {
    ++t.rounds;
    Gate gate;
    const cenote_stream_t handle = cudaStreamPerThread;
    std::atomic<void *> freed{nullptr};
    std::atomic<bool> leave{first_ends};
    std::thread first([&] {
        cuda_must(cudaSetDevice(0), "cudaSetDevice");
        void *x = must_alloc(pool, BLOCK, handle);
        fill(x, BLOCK, uint64_t(t.rounds), cudaStreamPerThread);
        gate.hold(cudaStreamPerThread);
        check(x, BLOCK, uint64_t(t.rounds), faults, cudaStreamPerThread);
        cenote_must(cenote_free(x, handle), "cenote_free");
        freed = x;
        while (!leave) std::this_thread::yield();
    });
    while (!freed) std::this_thread::yield();
    std::thread second([&] {
        cuda_must(cudaSetDevice(0), "cudaSetDevice");
        reach_for(pool, freed, BLOCK, cudaStreamPerThread, handle, t);
    });
    second.join();
    gate.open();
    leave = true;
    first.join();
    cuda_must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

void ptds(Report &r, Faults *faults) {
    cenote_pool_t pool = new_pool("ptds");
    Tally t;
    for (int i = 0; i < 20; ++i) ptds_round(pool, i % 2 == 1, faults, t);
    r.add("ptds rounds", t.rounds, "");
    r.add("ptds rounds where the second thread ran ahead", t.ran_ahead, "");
    conclude(r, "ptds", pool, faults, t);
}

// 1,000 blocks freed on the legacy stream, with a limit and without.
void c16(Report &r, Faults *faults) {
    const uint64_t bytes = 64ull << 20;
    for (uint64_t limit : {uint64_t(0), uint64_t(256) << 20}) {
        cenote_pool_t pool = new_pool("c16", limit);
        cudaStream_t s = new_stream(cudaStreamDefault);
        uint64_t early = 0;
        Tally t;
        for (int i = 0; i < 100; ++i) {
            void *x = nullptr;
            cenote_status status = cenote_alloc(pool, bytes, s, &x);
            t.refused += status != CENOTE_OK;
            if (status != CENOTE_OK) continue;
            fill(x, 65536, uint64_t(i), s);
            check(x, 65536, uint64_t(i), faults, s);
            cenote_must(cenote_free(x, nullptr), "cenote_free");
            if (i == 200) early = pool_stats(pool).peak_held_bytes;
        }
        double peak = double(pool_stats(pool).peak_held_bytes);
        std::string name = limit ? "c16 limit 256 MiB" : "c16";
        r.at_most(name + " refused", t.refused, 0, "");
        r.at_most(name + " peak held growth after 200 frees", peak - double(early), 256e6, "B");
        r.add(name + " peak held", peak / 1048576, "MiB");
        cuda_must(cudaStreamSynchronize(s), "cudaStreamSynchronize");
        conclude(r, name, pool, faults, t);
        cuda_must(cudaStreamDestroy(s), "cudaStreamDestroy");
    }
}

void c18(Report &r, Faults *faults) {
    cenote_pool_t pool = new_pool("c18");
    Tally t;
    for (uint64_t bytes : {uint64_t(256), BLOCK}) {
        Gate gate;
        cudaStream_t s = new_stream();
        void *x = must_alloc(pool, bytes, nullptr);
        cuda_must(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
        fill(x, bytes, bytes, s);
        gate.hold(s);
        check(x, bytes, bytes, faults, s);
        cenote_must(cenote_free(x, s), "cenote_free");
        reach_for(pool, x, bytes, nullptr, nullptr, t);
        gate.open();
        cuda_must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
        cuda_must(cudaStreamDestroy(s), "cudaStreamDestroy");
    }
    conclude(r, "c18", pool, faults, t);
}

// A copy to the host on a side stream, held at a gate, while the block is freed and its size is
// asked for again on its own stream.
void c20_recorded(Report &r, Faults *faults, cenote_pool_t pool, void *host) {
    Tally t;
    Gate gate;
    cudaStream_t s1 = new_stream(), s2 = new_stream();
    void *x = must_alloc(pool, BLOCK, s1);
    fill(x, BLOCK, 20, s1);
    order(s1, s2);
    gate.hold(s2);
    cuda_must(cudaMemcpyAsync(host, x, BLOCK, cudaMemcpyDeviceToHost, s2), "cudaMemcpyAsync");
    cenote_must(cenote_block_record_stream(x, s2), "cenote_block_record_stream");
    cenote_must(cenote_free(x, s1), "cenote_free");
    reach_for(pool, x, BLOCK, s1, s1, t);
    gate.open();
    cuda_must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    double wrong = 0;
    const uint32_t *words = static_cast<const uint32_t *>(host);
    for (uint64_t i = 0; i < BLOCK / 4; ++i) wrong += words[i] != pattern(20, i);
    r.at_most("c20 wrong words in the host's copy", wrong, 0, "");
    cuda_must(cudaStreamDestroy(s1), "cudaStreamDestroy");
    cuda_must(cudaStreamDestroy(s2), "cudaStreamDestroy");
    conclude(r, "c20 recorded", pool, faults, t);
}

// Once the use has ended, work queued later on the side stream does not hold the block back.
void c20_ended(Report &r, Faults *faults) {
    cenote_pool_t pool = new_pool("c20 ended");
    Tally t;
    Gate gate;
    cudaStream_t s1 = new_stream(), s2 = new_stream();
    void *x = must_alloc(pool, BLOCK, s1);
    fill(x, BLOCK, 21, s1);
    order(s1, s2);
    check(x, BLOCK, 21, faults, s2);
    cenote_must(cenote_block_record_stream(x, s2), "cenote_block_record_stream");
    cenote_must(cenote_block_use_end(x, s2), "cenote_block_use_end");
    cuda_must(cudaStreamSynchronize(s2), "cudaStreamSynchronize");
    gate.hold(s2);
    cenote_must(cenote_free(x, s1), "cenote_free");
    cenote_alloc_desc d{};
    d.struct_size = sizeof d;
    d.flags = CENOTE_ALLOC_NOWAIT | CENOTE_ALLOC_NO_GROW;
    d.size_bytes = BLOCK;
    void *y = nullptr;
    cenote_status status = cenote_alloc_ex(pool, &d, s1, &y);
    r.at_most("c20 ended use still held the block back", status != CENOTE_OK, 0, "");
    if (status == CENOTE_OK) cenote_must(cenote_free(y, s1), "cenote_free");
    gate.open();
    cuda_must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    cuda_must(cudaStreamDestroy(s1), "cudaStreamDestroy");
    cuda_must(cudaStreamDestroy(s2), "cudaStreamDestroy");
    conclude(r, "c20 ended", pool, faults, t);
}

void c20(Report &r, Faults *faults) {
    void *host = nullptr;
    cuda_must(cudaHostAlloc(&host, BLOCK, cudaHostAllocDefault), "cudaHostAlloc");
    c20_recorded(r, faults, new_pool("c20"), host);
    cuda_must(cudaFreeHost(host), "cudaFreeHost");
    c20_ended(r, faults);
}

__global__ void fault_kernel(int *p) { *p = 1; }

struct Answer {
    const char *call;
    cenote_status status;
};

// Runs in a process of its own: nothing on this device works afterwards.
int fault_child() {
    cuda_must(cudaSetDevice(0), "cudaSetDevice");
    cenote_pool_t pool = new_pool("c29");
    cudaStream_t s = new_stream();
    void *x = must_alloc(pool, BLOCK, s), *y = nullptr;
    cenote_trim_result t{};
    t.struct_size = sizeof t;
    fault_kernel<<<1, 1, 0, s>>>(reinterpret_cast<int *>(64));
    cudaError_t first = cudaStreamSynchronize(s);
    const Answer answers[] = {{"free", cenote_free(x, s)},
                              {"trim", cenote_pool_trim(pool, 0, &t)},
                              {"alloc", cenote_alloc(pool, 4 * BLOCK, s, &y)},
                              {"alloc default", cenote_alloc(0, BLOCK, s, &y)},
                              {"empty_cache", cenote_empty_cache(0, &t)},
                              {"poll", cenote_poll()},
                              {"pool_destroy", cenote_pool_destroy(pool)}};
    cenote_error e{};
    e.struct_size = sizeof e;
    cenote_last_error(&e);
    int bad = first == cudaSuccess || e.backend_code == 0 || y != nullptr;
    std::printf("c29 the runtime says %s, cenote keeps code %d: %s\n", cudaGetErrorName(first),
                e.backend_code, e.message);
    for (const Answer &a : answers) {
        // The free may be the one call that asks the driver nothing; all others must know.
        bool is_free = std::string(a.call) == "free";
        bool fine = a.status == CENOTE_E_CONTEXT_LOST || (is_free && a.status == CENOTE_OK);
        std::printf("c29   %-14s %s\n", a.call, cenote_status_name(a.status));
        bad += !fine;
    }
    return bad;
}

void c29(Report &r, const std::string &self) {
    const std::string err = "c29.stderr";
    int code = std::system((self + " --fault-child 2>" + err).c_str());
    struct stat st {};
    r.at_most("c29 exit code of the faulting process", WIFEXITED(code) ? WEXITSTATUS(code) : 255,
              0, "");
    r.at_most("c29 bytes it wrote to stderr", stat(err.c_str(), &st) ? 0 : double(st.st_size), 0,
              "B");
}

} // namespace

int main(int argc, char **argv) {
    const char *json = nullptr;
    std::string only = "c17,ptds,c16,c18,c20,c29";
    for (int i = 1; i < argc; ++i) {
        std::string key = argv[i];
        if (key == "--fault-child") return fault_child();
        if (key == "--only" && i + 1 < argc) only = argv[++i];
        else if (key == "--json" && i + 1 < argc) json = argv[++i];
        else {
            std::fprintf(stderr, "usage: stream_reuse [--only c17,ptds,…] [--json FILE]\n");
            return 2;
        }
    }
    auto wants = [&](const char *name) { return only.find(name) != std::string::npos; };
    Report r("stream_reuse");
    cuda_must(cudaSetDevice(0), "cudaSetDevice");
    Faults *faults = new_faults();
    if (wants("c17")) c17(r, false, faults), c17(r, true, faults);
    r.flush();
    if (wants("ptds")) ptds(r, faults);
    r.flush();
    if (wants("c16")) c16(r, faults);
    r.flush();
    if (wants("c18")) c18(r, faults);
    if (wants("c20")) c20(r, faults);
    r.flush();
    if (wants("c29")) c29(r, argv[0]);
    r.flush();
    if (json && !r.write_json(json)) return 2;
    return r.missed() ? 1 : 0;
}
