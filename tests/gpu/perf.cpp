// How fast cenote is and how much it holds: the workloads of benches/peers/workloads.hpp, growth
// and give-back, with glibc's malloc in the same run for scale.
//
// With -DNO_CUDA it needs no GPU and runs on whatever backend the library picks; then targets that
// belong to a 16-core machine are printed but not judged.
#include "../../benches/peers/workloads.hpp"
#include "cenote_adaptor.hpp"
#include "report.hpp"

#include <cstring>
#include <string>

using namespace workloads;

struct Options {
    std::string parts = "pair,churn,threads,frag,train,grow,glibc";
    long n = 200000;
    double seconds = 1.0;
    size_t big_gib = 0; // 0: 48, or half of what is free
    uint64_t seed = 0;
    bool judge = true;
    bool all_streams = true;
    int max_threads = int(std::thread::hardware_concurrency());
    const char *json = nullptr;

    bool wants(const char *part) const {
        return ("," + parts + ",").find("," + std::string(part) + ",") != std::string::npos;
    }
};

static void judge_below(Report &r, const Options &o, const std::string &name, double value,
                        double target, const char *unit) {
    if (o.judge) r.at_most(name, value, target, unit);
    else r.add(name, value, unit);
}

static const char *form(bool registered) { return registered ? "registered" : "raw"; }

static void bench_pairs(Report &r, const Options &o, cenote_pool_t named) {
    const struct { const char *name; size_t bytes; } sizes[] = {
        {"512B", 512}, {"1MiB", size_t(1) << 20}, {"64MiB", size_t(64) << 20}};
    for (bool registered : {true, false}) {
        for (bool is_named : {true, false}) {
            Cenote a{is_named ? named : CENOTE_DEFAULT_POOL, registered};
            auto s = a.open_stream();
            for (auto &size : sizes) {
                std::string name = std::string("pair ") + size.name + " " + form(registered) +
                                   (is_named ? " named" : " default");
                double ns = pair_ns(a, size.bytes, o.n, s);
                bool best = registered && is_named, plain = !registered && !is_named;
                if (best) judge_below(r, o, name, ns, 15, "ns");
                else if (plain) judge_below(r, o, name, ns, 100, "ns");
                else r.add(name, ns, "ns");
            }
            a.close_stream(s);
        }
    }
}

static void bench_churn(Report &r, const Options &o) {
    for (bool registered : {true, false}) {
        cenote_pool_t pool = new_pool("churn");
        Cenote a{pool, registered};
        auto s = a.open_stream();
        {
            Churn<Cenote> small(a, SMALL, 3 + o.seed, s);
            judge_below(r, o, std::string("churn small ") + form(registered), small.timed(o.n), 40,
                        "ns");
        }
        {
            Churn<Cenote> mixed(a, MIXED, 4 + o.seed, s);
            judge_below(r, o, std::string("churn mixed ") + form(registered), mixed.timed(o.n),
                        100, "ns");
        }
        cenote_pool_stats_t st = pool_stats(pool);
        r.add(std::string("churn held/live ") + form(registered),
              double(st.peak_held_bytes) / double(st.peak_live_bytes), "");
        a.sync();
        a.close_stream(s);
        cenote_must(cenote_pool_destroy(pool), "cenote_pool_destroy");
    }
}

static void bench_threads(Report &r, const Options &o) {
    for (bool registered : {true, false}) {
        if (!registered && !o.all_streams) continue;
        for (Load load : {Load::PAIR, Load::CHURN}) {
            for (int threads : {1, 2, 4, 8, 16}) {
                if (threads > o.max_threads) continue;
                cenote_pool_t pool = new_pool("threads");
                Cenote a{pool, registered};
                double rate = threads_mpairs(a, threads, load, 16 * GIB, o.seconds);
                bool pair = load == Load::PAIR;
                std::string name = std::string(pair ? "threads pair " : "threads churn ") +
                                   std::to_string(threads) + " " + form(registered);
                if (o.judge && registered && threads == 16)
                    r.at_least(name, rate, pair ? 600 : 300, "Mpair/s");
                else r.add(name, rate, "Mpair/s");
                cenote_must(cenote_pool_destroy(pool), "cenote_pool_destroy");
            }
        }
        r.flush();
    }
}

static uint64_t driver_calls(const cenote_pool_stats_t &s) {
    return s.driver_create_count + s.driver_map_count + s.driver_access_count +
           s.driver_unmap_count + s.driver_release_count;
}

// One phase on a pool of its own: peaks are the pool's, and its first pass is the cold one.
template <class F> static void bench_phase(Report &r, const char *phase, double target, F run) {
    const std::string name = phase;
    cenote_pool_t pool = new_pool(phase);
    Cenote a{pool, true};
    auto s = a.open_stream();
    Shape first = run(a, s);
    cenote_pool_stats_t cold = pool_stats(pool);
    r.at_most(name + " held/live", double(cold.peak_held_bytes) / first.peak_live, target, "");
    r.add(name + " peak live", first.peak_live / MIB, "MiB");
    r.add(name + " peak held", double(cold.peak_held_bytes) / MIB, "MiB");
    r.at_most(name + " peak live, error of the pool's figure",
              std::fabs(double(cold.peak_live_bytes) - first.peak_live), MIB, "B");
    r.add(name + " first pass driver calls", double(driver_calls(cold)), "");
    r.add(name + " first pass driver time", double(cold.driver_time_ns) * 1e-6, "ms");
    r.add(name + " first pass takeovers", double(cold.takeover_count), "");
    Shape second = run(a, s);
    double again = double(driver_calls(pool_stats(pool)) - driver_calls(cold));
    if (second.wall_ms > 0) {
        r.add(name + " first pass", first.wall_ms, "ms");
        r.add(name + " second pass", second.us_per_pair * 1e3, "ns/pair");
        r.at_most(name + " second pass driver calls", again, 0, "");
    } else {
        r.add(name + " second pass driver calls", again, "");
    }
    a.close_stream(s);
    cenote_trim_result t{};
    t.struct_size = sizeof t;
    cenote_must(cenote_pool_trim(pool, 0, &t), "cenote_pool_trim");
    r.at_most(name + " held after trim", double(pool_stats(pool).held_bytes), 0, "B");
    cenote_must(cenote_pool_destroy(pool), "cenote_pool_destroy");
}

// The longest that another thread waited for a block while `work` ran.
template <class F> static double worst_wait_us(cenote_pool_t pool, F work) {
    std::atomic<bool> stop{false}, up{false};
    double worst = 0;
    std::thread other([&] {
        Cenote a{pool, true};
        a.enter();
        auto s = a.open_stream();
        while (!stop) {
            auto start = Clock::now();
            a.free(take(a, size_t(1) << 20, s), size_t(1) << 20, s);
            double us = ns_since(start) * 1e-3;
            if (up && us > worst) worst = us;
            up = true;
        }
        a.close_stream(s);
    });
    while (!up) std::this_thread::yield();
    work();
    stop = true;
    other.join();
    return worst;
}

static size_t big_gib(const Options &o) {
    if (o.big_gib) return o.big_gib;
    cenote_device_info_t d{};
    d.struct_size = sizeof d;
    cenote_must(cenote_device_info(0, &d), "cenote_device_info");
    uint64_t bytes = d.free_bytes == UINT64_MAX ? d.total_bytes : d.free_bytes;
    return std::min<size_t>(48, std::max<size_t>(1, bytes / 2 / GIB));
}

// Growth in 64 MiB requests, then all of it back to the driver while another thread allocates.
static void bench_grow(Report &r, const Options &o) {
    cenote_pool_t pool = new_pool("grow");
    Cenote a{pool, true};
    auto s = a.open_stream();
    const size_t step = size_t(64) << 20, gib = big_gib(o), count = gib * GIB / step;
    std::vector<void *> blocks;
    double first_gib = 0, slowest = 0;
    auto start = Clock::now();
    for (size_t i = 0; i < count; ++i) {
        auto t = Clock::now();
        blocks.push_back(take(a, step, s));
        slowest = std::max(slowest, ns_since(t) * 1e-6);
        if (i == 15) first_gib = ns_since(start) * 1e-6;
    }
    std::string size = std::to_string(gib) + "GiB";
    r.add("grow 1GiB by 64MiB requests", first_gib, "ms");
    r.add("grow " + size + " by 64MiB requests", ns_since(start) * 1e-6, "ms");
    r.add("grow slowest request", slowest, "ms");
    r.add("grow driver time", double(pool_stats(pool).driver_time_ns) * 1e-6, "ms");
    for (void *p : blocks) a.free(p, step, s);
    a.sync();
    double ms = 0;
    cenote_trim_result t{};
    t.struct_size = sizeof t;
    double wait = worst_wait_us(pool, [&] {
        auto begin = Clock::now();
        cenote_must(cenote_pool_trim(pool, 0, &t), "cenote_pool_trim");
        ms = ns_since(begin) * 1e-6;
    });
    judge_below(r, o, "give back " + size, ms, 250 * double(gib) / 48, "ms");
    r.add("give back returned", double(t.returned_bytes) / MIB, "MiB");
    judge_below(r, o, "give back worst wait of another thread", wait, 10000, "us");
    a.sync();
    a.close_stream(s);
    cenote_must(cenote_pool_destroy(pool), "cenote_pool_destroy");
}

struct Glibc {
    using stream = void *;
    void *alloc(size_t bytes, stream) {
        void *p = std::malloc(bytes);
        __asm__ volatile("" : "+r"(p) : : "memory");
        return p;
    }
    void free(void *p, size_t, stream) { std::free(p); }
};

static bool parse(int argc, char **argv, Options &o) {
    for (int i = 1; i < argc; ++i) {
        std::string key = argv[i];
        if (key == "--no-judge") { o.judge = false; continue; }
        if (key == "--registered-only") { o.all_streams = false; continue; }
        if (i + 1 >= argc) return false;
        const char *value = argv[++i];
        if (key == "--parts") o.parts = value;
        else if (key == "--n") o.n = std::atol(value);
        else if (key == "--seconds") o.seconds = std::atof(value);
        else if (key == "--big-gib") o.big_gib = size_t(std::atol(value));
        else if (key == "--seed") o.seed = uint64_t(std::atol(value));
        else if (key == "--max-threads") o.max_threads = std::atoi(value);
        else if (key == "--json") o.json = value;
        else return false;
    }
    return true;
}

int main(int argc, char **argv) {
    Options o;
    if (!parse(argc, argv, o)) {
        std::fprintf(stderr, "usage: perf [--parts pair,churn,threads,frag,train,grow,glibc]"
                             " [--n N] [--seconds S] [--big-gib N] [--seed N] [--max-threads N]"
                             " [--registered-only] [--no-judge] [--json FILE]\n");
        return 2;
    }
#ifndef NO_CUDA
    cuda_must(cudaSetDevice(0), "cudaSetDevice");
    cuda_must(cudaFree(nullptr), "cudaFree");
#endif
    Report r("perf");
    cenote_pool_t named = new_pool("named");
    if (o.wants("glibc")) {
        Glibc g;
        r.add("glibc pair 512B", pair_ns(g, 512, o.n, nullptr), "ns");
    }
    if (o.wants("pair")) bench_pairs(r, o, named);
    r.flush();
    if (o.wants("churn")) bench_churn(r, o);
    r.flush();
    if (o.wants("threads")) bench_threads(r, o);
    if (o.wants("frag"))
        bench_phase(r, "fragmentation", 1.08,
                    [&](Cenote &a, auto s) { return fragmentation(a, s, 5 + o.seed); });
    r.flush();
    if (o.wants("train"))
        bench_phase(r, "training", 1.005,
                    [&](Cenote &a, auto s) { return training(a, s, 11 + o.seed); });
    r.flush();
    if (o.wants("grow")) bench_grow(r, o);
    r.flush();
    if (o.json && !r.write_json(o.json)) return 2;
    return r.missed() ? 1 : 0;
}
