// Data integrity: blocks that the device fills with a pattern of their own, checked byte by byte on
// the device before they are freed, over several threads and streams, with reuse, frees on other
// streams, recorded uses, destroyed streams, trims, and limits that force takeover in between.
//
// A block handed out twice, or too early, shows as a wrong byte: its new owner writes another
// pattern.
#include "gpu.cuh"
#include "report.hpp"

#include "../../benches/peers/workloads.hpp"

#include <array>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

using namespace gpu;
using workloads::Clock;
using workloads::MIB;
using workloads::Rng;

namespace {

struct Options {
    uint64_t ops = 1000000;
    double seconds = 75;
    uint64_t seed = 1;
    int threads = 4;
    double largest = 64 * MIB;
    uint64_t roomy_bytes = 8ull << 30;
    uint64_t tight_bytes = 2ull << 30;
    bool brief = false;
    const char *json = nullptr;
};

struct Live {
    void *p;
    uint64_t bytes, seed;
    int pool;
};

// A block on its way to another thread, with the event after which it may be touched.
struct Parcel {
    Live block;
    cudaEvent_t ready;
};

struct Pool {
    cenote_pool_t handle = 0;
    uint64_t cap = 0;
    std::atomic<uint64_t> live{0};
};

enum LaneKind { RAW, REGISTERED, BLOCKING, PER_THREAD, LANES };

struct Lane {
    LaneKind kind = RAW;
    cudaStream_t raw = nullptr;
    cenote_stream_t handle = nullptr;
    std::vector<Live> live;
};

// How a batch of blocks is checked and freed.
enum Way { SAME, EVENT, RECORD, USE_END, HANDOFF, SYNCED, LEGACY, WAYS };
const char *const WAY_NAMES[WAYS] = {"same stream",  "other stream, event", "recorded use",
                                     "use ended",    "another thread",      "host waited",
                                     "legacy stream"};

struct Shared {
    Options o;
    std::array<Pool, 2> pools;
    Faults *faults = nullptr;
    std::atomic<uint64_t> ops{0}, refused{0}, unexpected{0}, next_seed{1};
    std::array<std::atomic<uint64_t>, WAYS> ways{};
    std::atomic<uint64_t> turnovers{0}, trims{0};
    std::vector<std::mutex> locks;
    std::vector<std::vector<Parcel>> mail;
    Clock::time_point start = Clock::now();

    explicit Shared(const Options &options)
        : o(options), locks(size_t(options.threads)), mail(size_t(options.threads)) {}

    bool done() const {
        return ops >= o.ops || workloads::ns_since(start) * 1e-9 > o.seconds;
    }
    void expect(cenote_status status, const char *what) {
        if (status == CENOTE_OK) return;
        if (unexpected.fetch_add(1) >= 5) return;
        cenote_error e{};
        e.struct_size = sizeof e;
        cenote_last_error(&e);
        std::fprintf(stderr, "%s: %s: %s\n", what, cenote_status_name(status), e.message);
    }
};

class Worker {
public:
    Worker(Shared &shared, int index)
        : sh_(shared), index_(index), rng_(shared.o.seed * 1000 + uint64_t(index)) {}

    void run() {
        cuda_must(cudaSetDevice(0), "cudaSetDevice");
        for (int k = 0; k < LANES; ++k) open(lanes_[size_t(k)], LaneKind(k));
        while (!sh_.done()) {
            read_mail();
            Lane &lane = lanes_[rng_.next() % LANES];
            allocate(lane);
            while (lane.live.size() > 400 || over_cap()) {
                Lane &victim = fullest();
                if (victim.live.empty()) break;
                release(victim, pick_way(victim));
            }
            if (rng_.next() % 150 == 0) maintain();
            if (rng_.next() % 200 == 0) turn_over(lanes_[rng_.next() % 3]);
        }
        for (Lane &lane : lanes_)
            while (!lane.live.empty()) release(lane, SAME);
        cuda_must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
        for (Lane &lane : lanes_) close(lane);
    }

    // Blocks that others sent; also called by the main thread once all workers have stopped.
    void read_mail() {
        std::vector<Parcel> parcels;
        {
            std::lock_guard<std::mutex> hold(sh_.locks[size_t(index_)]);
            parcels.swap(sh_.mail[size_t(index_)]);
        }
        if (parcels.empty()) return;
        Lane &lane = lanes_[rng_.next() % 3];
        for (size_t i = 0; i < parcels.size();) {
            std::vector<Live> blocks;
            Batch batch;
            for (; i < parcels.size() && !batch.full(); ++i) {
                const Parcel &p = parcels[i];
                cuda_must(cudaStreamWaitEvent(lane.raw, p.ready, 0), "cudaStreamWaitEvent");
                cuda_must(cudaEventDestroy(p.ready), "cudaEventDestroy");
                batch.add(p.block.p, p.block.bytes, p.block.seed);
                blocks.push_back(p.block);
            }
            check(batch, sh_.faults, lane.raw);
            free_all(blocks, lane.handle);
        }
    }

private:
    void open(Lane &lane, LaneKind kind) {
        lane.kind = kind;
        if (kind == PER_THREAD) lane.raw = cudaStreamPerThread;
        else lane.raw = new_stream(kind == BLOCKING ? cudaStreamDefault : cudaStreamNonBlocking);
        lane.handle = lane.raw;
        if (kind == REGISTERED)
            cenote_must(cenote_stream_register(0, lane.raw, CENOTE_STREAM_PERSISTENT, &lane.handle),
                        "cenote_stream_register");
    }
    void close(Lane &lane) {
        if (lane.kind == REGISTERED)
            sh_.expect(cenote_stream_retire(lane.handle), "cenote_stream_retire");
        if (lane.kind != PER_THREAD) cuda_must(cudaStreamDestroy(lane.raw), "cudaStreamDestroy");
    }

    // Sizes change in phases, so that what one phase leaves does not fit the next.
    uint64_t pick_bytes() {
        uint64_t phase = sh_.ops * 16 / (sh_.o.ops + 1) % 4;
        const double largest = sh_.o.largest;
        if (phase == 1 && rng_.next() % 4 == 0) return rng_.log_size(65536, largest / 8);
        if (phase == 2 && rng_.next() % 8 == 0) return rng_.log_size(largest / 64, largest);
        if (phase == 3 && rng_.next() % 5 == 0) return rng_.log_size(512, largest);
        return rng_.log_size(512, largest / 256);
    }

    void allocate(Lane &lane) {
        int which = int(rng_.next() % 2), wanted = 8 + int(rng_.next() % 57);
        Pool &pool = sh_.pools[size_t(which)];
        Batch batch;
        for (int i = 0; i < wanted; ++i) {
            Live b{nullptr, pick_bytes(), sh_.next_seed.fetch_add(1), which};
            cenote_status status = cenote_alloc(pool.handle, b.bytes, lane.handle, &b.p);
            if (status == CENOTE_E_LIMIT || status == CENOTE_E_OUT_OF_MEMORY) {
                sh_.refused.fetch_add(1);
                break;
            }
            sh_.expect(status, "cenote_alloc");
            if (status != CENOTE_OK) break;
            sh_.ops.fetch_add(1);
            pool.live.fetch_add(b.bytes);
            batch.add(b.p, b.bytes, b.seed);
            lane.live.push_back(b);
        }
        fill(batch, lane.raw);
    }

    bool over_cap() const {
        for (const Pool &p : sh_.pools)
            if (p.live > p.cap) return true;
        return false;
    }
    Lane &fullest() {
        Lane *best = &lanes_[0];
        for (Lane &lane : lanes_)
            if (lane.live.size() > best->live.size()) best = &lane;
        return *best;
    }
    Way pick_way(const Lane &lane) {
        uint64_t dice = rng_.next() % 100;
        if (dice < 40) return SAME;
        if (dice < 55) return EVENT;
        if (dice < 70) return RECORD;
        if (dice < 80) return USE_END;
        if (dice < 90) return HANDOFF;
        if (dice < 92) return SYNCED;
        return lane.kind == BLOCKING || lane.kind == PER_THREAD ? LEGACY : SAME;
    }

    void free_all(const std::vector<Live> &blocks, cenote_stream_t s) {
        for (const Live &b : blocks) {
            sh_.expect(cenote_free(b.p, s), "cenote_free");
            sh_.pools[size_t(b.pool)].live.fetch_sub(b.bytes);
        }
        sh_.ops.fetch_add(blocks.size());
    }

    // Takes random blocks out of a lane.
    std::vector<Live> draw(Lane &lane, Batch &batch) {
        std::vector<Live> blocks;
        size_t wanted = 1 + rng_.next() % Batch::MAX;
        while (blocks.size() < wanted && !lane.live.empty()) {
            size_t i = rng_.next() % lane.live.size();
            blocks.push_back(lane.live[i]);
            lane.live[i] = lane.live.back();
            lane.live.pop_back();
            batch.add(blocks.back().p, blocks.back().bytes, blocks.back().seed);
        }
        return blocks;
    }

    void release(Lane &lane, Way way) {
        Batch batch;
        std::vector<Live> blocks = draw(lane, batch);
        sh_.ways[way].fetch_add(blocks.size());
        if (way == HANDOFF) return send(lane, blocks);
        bool elsewhere = way != SAME && way != LEGACY;
        Lane &user = elsewhere ? other_than(lane) : lane;
        if (way == SYNCED) cuda_must(cudaStreamSynchronize(lane.raw), "cudaStreamSynchronize");
        else if (elsewhere) order(lane.raw, user.raw);
        // A device behind its host: what is freed too early is overwritten before this check.
        if (rng_.next() % 8 == 0) spin(50000 + rng_.next() % 500000, user.raw);
        check(batch, sh_.faults, user.raw);
        if (way == RECORD || way == USE_END)
            for (const Live &b : blocks)
                sh_.expect(cenote_block_record_stream(b.p, user.handle), "record_stream");
        if (way == USE_END) {
            for (const Live &b : blocks)
                sh_.expect(cenote_block_use_end(b.p, user.handle), "use_end");
            spin(200000, user.raw);
        }
        bool at_home = way == SAME || way == RECORD || way == USE_END;
        free_all(blocks, at_home ? lane.handle : way == LEGACY ? nullptr : user.handle);
    }

    Lane &other_than(const Lane &lane) {
        size_t at = size_t(&lane - lanes_.data());
        return lanes_[(at + 1 + rng_.next() % (LANES - 1)) % LANES];
    }

    void send(Lane &lane, const std::vector<Live> &blocks) {
        size_t to = rng_.next() % size_t(sh_.o.threads);
        std::vector<Parcel> parcels;
        for (const Live &b : blocks) {
            cudaEvent_t e = nullptr;
            cuda_must(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "cudaEventCreate");
            cuda_must(cudaEventRecord(e, lane.raw), "cudaEventRecord");
            parcels.push_back({b, e});
        }
        std::lock_guard<std::mutex> hold(sh_.locks[to]);
        sh_.mail[to].insert(sh_.mail[to].end(), parcels.begin(), parcels.end());
    }

    void maintain() {
        cenote_trim_result t{};
        t.struct_size = sizeof t;
        cenote_pool_t pool = sh_.pools[rng_.next() % 2].handle;
        sh_.trims.fetch_add(1);
        switch (rng_.next() % 4) {
        case 0: return sh_.expect(cenote_pool_trim(pool, 0, &t), "cenote_pool_trim");
        case 1: {
            uint64_t keep = pool_stats(pool).held_bytes / 2;
            return sh_.expect(cenote_pool_trim(pool, keep, &t), "cenote_pool_trim");
        }
        case 2: return sh_.expect(cenote_empty_cache(0, &t), "cenote_empty_cache");
        default: return sh_.expect(cenote_poll(), "cenote_poll");
        }
    }

    // Destroys a stream that still works on blocks it has freed, and takes the next stream, which
    // often has the same handle. That one waits for the fills of the live blocks, not for the rest.
    void turn_over(Lane &lane) {
        cudaStream_t bridge = new_stream();
        order(lane.raw, bridge);
        spin(1000000, lane.raw);
        Batch batch;
        std::vector<Live> blocks = draw(lane, batch);
        check(batch, sh_.faults, lane.raw);
        free_all(blocks, lane.handle);
        close(lane);
        open(lane, lane.kind);
        order(bridge, lane.raw);
        cuda_must(cudaStreamDestroy(bridge), "cudaStreamDestroy");
        sh_.turnovers.fetch_add(1);
    }

    Shared &sh_;
    int index_;
    Rng rng_;
    std::array<Lane, LANES> lanes_;
};

bool parse(int argc, char **argv, Options &o) {
    for (int i = 1; i < argc; ++i) {
        std::string key = argv[i];
        if (key == "--short") {
            o.brief = true;
            o.ops = 4000;
            o.threads = 2;
            o.largest = 4 * MIB;
            o.roomy_bytes = 128ull << 20;
            o.tight_bytes = 64ull << 20;
            continue;
        }
        if (i + 1 >= argc) return false;
        const char *value = argv[++i];
        if (key == "--ops") o.ops = std::strtoull(value, nullptr, 10);
        else if (key == "--seconds") o.seconds = std::atof(value);
        else if (key == "--seed") o.seed = std::strtoull(value, nullptr, 10);
        else if (key == "--threads") o.threads = std::atoi(value);
        else if (key == "--json") o.json = value;
        else return false;
    }
    return o.threads > 0;
}

// Mail that arrived after its reader had stopped: read on the legacy stream, all work being done.
void drain_mail(Shared &sh) {
    for (auto &box : sh.mail)
        for (const Parcel &p : box) {
            check(p.block.p, p.block.bytes, p.block.seed, sh.faults, nullptr);
            sh.expect(cenote_free(p.block.p, nullptr), "cenote_free");
            cuda_must(cudaEventDestroy(p.ready), "cudaEventDestroy");
            sh.ops.fetch_add(1);
        }
}

void conclude(Shared &sh, Report &r) {
    Faults f = read_faults(sh.faults);
    if (f.wrong_bytes)
        std::printf("first wrong word: block %llu offset %llu wanted %08x found %08x\n", f.seed,
                    f.offset, f.wanted, f.found);
    r.at_most("wrong bytes", double(f.wrong_bytes), 0, "B");
    r.at_most("unexpected statuses", double(sh.unexpected), 0, "");
    r.at_least("operations", double(sh.ops), double(sh.o.ops), "");
    r.add("time", workloads::ns_since(sh.start) * 1e-9, "s");
    for (int w = 0; w < WAYS; ++w)
        r.add(std::string("freed: ") + WAY_NAMES[w], double(sh.ways[size_t(w)]), "blocks");
    r.add("streams destroyed while busy", double(sh.turnovers), "");
    r.add("trims, empty caches, polls", double(sh.trims), "");
    r.add("refused at the limit", double(sh.refused), "");
    const char *names[] = {"roomy", "tight"};
    sh.expect(give_everything_back({sh.pools[0].handle, sh.pools[1].handle}), "give back");
    for (size_t i = 0; i < 2; ++i) {
        cenote_pool_stats_t s = pool_stats(sh.pools[i].handle);
        std::string name = names[i];
        r.add(name + " peak held", double(s.peak_held_bytes) / MIB, "MiB");
        r.add(name + " peak live", double(s.peak_live_bytes) / MIB, "MiB");
        if (i == 1 && !sh.o.brief)
            r.at_least(name + " takeovers", double(s.takeover_count), 1, "");
        else r.add(name + " takeovers", double(s.takeover_count), "");
        r.add(name + " rescued by the ladder", double(s.retry_count), "");
        r.at_most(name + " live at the end", double(s.live_bytes), 0, "B");
        r.at_most(name + " held after empty_cache", double(s.held_bytes), 0, "B");
        sh.expect(cenote_pool_destroy(sh.pools[i].handle), "cenote_pool_destroy");
    }
    r.at_most("unexpected statuses at the end", double(sh.unexpected), 0, "");
}

} // namespace

int main(int argc, char **argv) {
    Options o;
    if (!parse(argc, argv, o)) {
        std::fprintf(stderr, "usage: integrity [--ops N] [--seconds S] [--seed N] [--threads N]"
                             " [--short] [--json FILE]\n");
        return 2;
    }
    cuda_must(cudaSetDevice(0), "cudaSetDevice");
    Shared sh(o);
    sh.faults = new_faults();
    sh.pools[0].handle = new_pool("roomy");
    sh.pools[0].cap = o.roomy_bytes;
    sh.pools[1].handle = new_pool("tight", o.tight_bytes, 10000);
    sh.pools[1].cap = o.tight_bytes * 3 / 4;
    std::vector<Worker> workers;
    for (int i = 0; i < o.threads; ++i) workers.emplace_back(sh, i);
    std::vector<std::thread> threads;
    for (Worker &w : workers) threads.emplace_back([&w] { w.run(); });
    for (std::thread &t : threads) t.join();
    drain_mail(sh);
    cuda_must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    Report r("integrity");
    conclude(sh, r);
    r.flush();
    if (o.json && !r.write_json(o.json)) return 2;
    return r.missed() ? 1 : 0;
}
