// The C++ part of the one-process test: a shared library that opens cenote at run time.
#define CENOTE_DL
#include "cenote.hpp"

// A block of the default pool's memory, given away; NULL on failure.
extern "C" void* cpp_alloc(std::uint64_t bytes) {
    auto made = cenote::buffer<unsigned char>::allocate(bytes);
    return made ? made->release() : nullptr;
}

// Status of a free, whoever allocated.
extern "C" std::int32_t cpp_free(void* ptr) { return cenote::deallocate(ptr).code(); }

// Live blocks of the default pool of device 0, as C++ sees them.
extern "C" std::uint64_t cpp_live_blocks() {
    const auto pool = cenote::pool_view::default_of(0);
    const auto stats = pool ? pool->stats() : pool.error();
    return stats ? stats->live_blocks : UINT64_MAX;
}

// Where this part found the library's function: the same address in every part, or two copies
// serve.
extern "C" const void* cpp_library() {
    return reinterpret_cast<const void*>(cenote::detail::library().api.cenote_alloc);
}
