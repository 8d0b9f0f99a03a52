// The shortest tour: a pool with a limit, a buffer in stream order, figures, a failure that
// explains itself. Runs anywhere: without a GPU the host backend serves it.
//
//     c++ -std=c++17 basic.cpp $(pkg-config --cflags --libs cenote) && ./a.out
#include <cenote.hpp>

#include <cinttypes>
#include <cstdio>

using namespace cenote::literals;

static int tour() {
    cenote::pool_options options;
    options.limit_bytes = 64_MiB;
    options.name = "example";
    auto pool = cenote::pool::create(options).value();

    auto samples = cenote::buffer<float>::allocate(1 << 20, {}, pool).value();
    std::printf("%zu floats at %p\n", samples.size(), static_cast<void*>(samples.data()));

    const auto refused = cenote::buffer<float>::allocate(1 << 28, {}, pool);
    std::printf("1 GiB more: %s\n", refused ? "granted" : refused.error().message());

    samples.free().value();
    const auto stats = pool.stats().value();
    std::printf("live %" PRIu64 ", held %" PRIu64 ", peak held %" PRIu64 " bytes\n",
                stats.live_bytes, stats.held_bytes, stats.peak_held_bytes);
    std::printf("given back: %" PRIu64 " bytes\n", pool.trim().value().returned_bytes);
    return refused ? 1 : 0;
}

int main() {
    try {
        return tour();
    } catch (const cenote::error& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
