// Workloads that compare allocators: the same operations, in the same order, with the same
// random numbers, on whichever allocator is plugged in.
//
// An allocator offers:
//   using stream = …;                       what orders work on it
//   void *alloc(size_t bytes, stream s);    NULL on failure
//   void free(void *p, size_t bytes, stream s);
//   size_t held();                          bytes taken from the driver now, 0 if unknown
//   stream open_stream(); void close_stream(stream s); void sync();
//   void enter();                           called first by each thread of a workload
// Every function may be called from any thread, but a stream is used by one thread at a time.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace workloads {

using Clock = std::chrono::steady_clock;

constexpr double KIB = 1024.0;
constexpr double MIB = 1024.0 * 1024.0;
constexpr size_t GIB = size_t(1) << 30;

inline double ns_since(Clock::time_point start) {
    return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

// xorshift64: fast, and the same numbers on every machine.
class Rng {
public:
    explicit Rng(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ull + 1) {}
    uint64_t next() {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return state_;
    }
    double unit() { return double(next() >> 11) * (1.0 / 9007199254740992.0); }
    // Log-uniform: as many requests between 1 and 2 KiB as between 1 and 2 MiB.
    size_t log_size(double low, double high) {
        return size_t(std::exp(std::log(low) + unit() * (std::log(high) - std::log(low))));
    }

private:
    uint64_t state_;
};

struct Block {
    void *p = nullptr;
    size_t bytes = 0;
};

// An allocation that must succeed: a workload without its memory measures nothing.
template <class A> void *take(A &a, size_t bytes, typename A::stream s) {
    void *p = a.alloc(bytes, s);
    if (p == nullptr) {
        std::fprintf(stderr, "workload: allocation of %zu bytes failed\n", bytes);
        std::exit(3);
    }
    return p;
}

// Nanoseconds an allocate + free of one size.
template <class A> double pair_ns(A &a, size_t bytes, long n, typename A::stream s) {
    auto loop = [&](long count) {
        for (long i = 0; i < count; ++i) a.free(take(a, bytes, s), bytes, s);
    };
    loop(n / 10 + 1);
    auto start = Clock::now();
    loop(n);
    return ns_since(start) / double(n);
}

struct ChurnShape {
    int live;
    double low, high;
    size_t cap;
};

constexpr ChurnShape SMALL{4096, 64, 65536, size_t(1) << 34};
constexpr ChurnShape MIXED{1000, 512, 64 * MIB, 24 * GIB};

// Random replacement in a live set: each step frees one block and allocates another.
template <class A> class Churn {
public:
    Churn(A &a, ChurnShape shape, uint64_t seed, typename A::stream s)
        : a_(a), shape_(shape), rng_(seed), stream_(s), blocks_(size_t(shape.live)) {
        run(shape.live * 4L);
    }
    ~Churn() {
        for (Block &b : blocks_)
            if (b.p) a_.free(b.p, b.bytes, stream_);
    }
    Churn(const Churn &) = delete;
    Churn &operator=(const Churn &) = delete;

    void run(long steps) {
        for (long i = 0; i < steps; ++i) step();
    }
    double timed(long steps) {
        auto start = Clock::now();
        run(steps);
        return ns_since(start) / double(steps);
    }

private:
    void step() {
        Block &b = blocks_[rng_.next() % uint64_t(shape_.live)];
        if (b.p) {
            a_.free(b.p, b.bytes, stream_);
            total_ -= b.bytes;
            b.p = nullptr;
        }
        size_t bytes = rng_.log_size(shape_.low, shape_.high);
        if (total_ + bytes > shape_.cap) return;
        b = {take(a_, bytes, stream_), bytes};
        total_ += bytes;
    }

    A &a_;
    ChurnShape shape_;
    Rng rng_;
    typename A::stream stream_;
    std::vector<Block> blocks_;
    size_t total_ = 0;
};

enum class Load { PAIR, CHURN };

// What one thread does until it is told to stop; returns the pairs it made.
template <class A>
long thread_load(A &a, Load load, ChurnShape shape, uint64_t seed, typename A::stream s,
                 std::atomic<int> &ready, const std::atomic<int> &phase) {
    a.enter();
    long pairs = 0;
    auto run = [&](auto &&slice, long each) {
        slice();
        ready.fetch_add(1);
        while (phase.load(std::memory_order_acquire) == 0) std::this_thread::yield();
        for (; phase.load(std::memory_order_relaxed) == 1; pairs += each) slice();
    };
    if (load == Load::PAIR) {
        run([&] { for (int i = 0; i < 1000; ++i) a.free(take(a, 512, s), 512, s); }, 1000);
    } else {
        Churn<A> churn(a, shape, seed, s);
        run([&] { churn.run(200); }, 200);
    }
    return pairs;
}

// Million pairs a second over all threads; each has a stream and a live set of its own.
template <class A>
double threads_mpairs(A &a, int threads, Load load, size_t cap, double seconds) {
    ChurnShape shape{256, 512, MIB, cap / size_t(threads)};
    std::atomic<int> ready{0}, phase{0};
    std::vector<long> pairs(size_t(threads), 0);
    std::vector<typename A::stream> streams;
    std::vector<std::thread> crew;
    for (int k = 0; k < threads; ++k) streams.push_back(a.open_stream());
    for (int k = 0; k < threads; ++k)
        crew.emplace_back([&, k] {
            pairs[size_t(k)] = thread_load(a, load, shape, 77 + uint64_t(k), streams[size_t(k)],
                                           ready, phase);
        });
    while (ready < threads) std::this_thread::yield();
    auto start = Clock::now();
    phase.store(1, std::memory_order_release);
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    phase.store(2);
    double ns = ns_since(start);
    for (auto &t : crew) t.join();
    a.sync();
    for (auto s : streams) a.close_stream(s);
    long sum = 0;
    for (long n : pairs) sum += n;
    return double(sum) / ns * 1e3;
}

struct Shape {
    double peak_live = 0, peak_held = 0, us_per_pair = 0, wall_ms = 0;
    double ratio() const { return peak_live > 0 ? peak_held / peak_live : 0; }
};

// A live set whose peaks are followed at every allocation.
template <class A> class Tracked {
public:
    Tracked(A &a, typename A::stream s) : a_(a), stream_(s) {}
    Block add(size_t bytes) {
        Block b{take(a_, bytes, stream_), bytes};
        live_ += bytes;
        shape.peak_live = std::max(shape.peak_live, double(live_));
        shape.peak_held = std::max(shape.peak_held, double(a_.held()));
        return b;
    }
    void drop(Block &b) {
        if (!b.p) return;
        a_.free(b.p, b.bytes, stream_);
        live_ -= b.bytes;
        b.p = nullptr;
    }
    Shape shape;

private:
    A &a_;
    typename A::stream stream_;
    size_t live_ = 0;
};

// Phase change: small and medium blocks, every other one freed, then large ones are asked for.
template <class A> Shape fragmentation(A &a, typename A::stream s, uint64_t seed = 5) {
    Rng r(seed);
    Tracked<A> t(a, s);
    std::vector<Block> blocks;
    for (int i = 0; i < 1500; ++i) blocks.push_back(t.add(r.log_size(MIB, 24 * MIB)));
    for (size_t i = 0; i < blocks.size(); i += 2) t.drop(blocks[i]);
    a.sync();
    for (int i = 0; i < 40; ++i) blocks.push_back(t.add(r.log_size(100 * MIB, 200 * MIB)));
    a.sync();
    for (Block &b : blocks) t.drop(b);
    a.sync();
    return t.shape;
}

// Forward and backward of one training step with a sequence length of its own.
template <class A> long training_step(Tracked<A> &t, size_t seq) {
    std::vector<Block> kept;
    long pairs = 0;
    for (int layer = 0; layer < 48; ++layer) {
        size_t hidden = seq * 4096 * 2, wide = seq * 16384 * 2, scores = seq * seq * 32 * 2;
        for (size_t bytes : {hidden, 3 * hidden, scores, hidden, wide}) {
            Block scratch = t.add(hidden);
            kept.push_back(t.add(bytes));
            t.drop(scratch);
            pairs += 2;
        }
    }
    for (; !kept.empty(); kept.pop_back(), pairs += 2) {
        Block gradient = t.add(kept.back().bytes);
        t.drop(kept.back());
        t.drop(gradient);
    }
    return pairs;
}

// Training: weights beneath, and each step's activations grow and shrink with another length.
template <class A>
Shape training(A &a, typename A::stream s, uint64_t seed = 11, int steps = 60) {
    Rng r(seed);
    Tracked<A> t(a, s);
    std::vector<Block> weights;
    for (int i = 0; i < 200; ++i) weights.push_back(t.add(r.log_size(4096, 96 * MIB)));
    long pairs = 0;
    auto start = Clock::now();
    for (int step = 0; step < steps; ++step) {
        pairs += training_step(t, 128 + r.next() % 1920);
        if (step % 10 != 9) continue;
        Block &w = weights[r.next() % weights.size()];
        t.drop(w);
        w = t.add(r.log_size(4096, 96 * MIB));
    }
    t.shape.wall_ms = ns_since(start) * 1e-6;
    t.shape.us_per_pair = t.shape.wall_ms * 1e3 / double(pairs);
    a.sync();
    for (Block &w : weights) t.drop(w);
    a.sync();
    return t.shape;
}

} // namespace workloads
