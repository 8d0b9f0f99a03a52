// C28: a static pool with live, cached and leaked blocks, and threads that still allocate, at exit.
#include "cenote.hpp"

#include <cstdlib>
#include <thread>

static cenote::pool& static_pool() {
    static cenote::pool made = cenote::pool::create().value();
    return made;
}

// Destroyed after the pool: it was made before.
static cenote::buffer<char> early;
static cenote::stream registered;

int main() {
    early = cenote::buffer<char>::allocate(std::size_t{1} << 20).value();
    registered = cenote::stream::attach(0, nullptr).value();
    static const auto late = cenote::buffer<char>::allocate(1000, registered, static_pool());
    early = cenote::buffer<char>::allocate(std::size_t{8} << 20, {}, static_pool()).value();
    static_cast<void>(static_pool().allocate(std::size_t{64} << 20).value());
    std::thread([] {
        for (;;) {
            const auto block = cenote::buffer<char>::allocate(5000);
            if (!block) {
                return;
            }
        }
    }).detach();
    std::exit(late ? 0 : 1);
}
