// cenote as an option of a program: nothing is linked, and without the library it goes on without.
//
//     c++ -std=c++17 -I<cenote>/include dl.cpp -ldl
//     CENOTE_LIBRARY=<file> ./a.out
#ifndef CENOTE_DL  // the CMake target cenote::dl defines it already
#define CENOTE_DL
#endif
#include <cenote.hpp>

#include <cstdio>

int main() {
    const auto loaded = cenote::load();
    if (!loaded) {
        std::printf("going on without cenote: %s\n", loaded.error().message());
        return 0;
    }
    std::printf("cenote %s\n", cenote::version());
    const auto block = cenote::buffer<char>::allocate(1000);
    if (!block) {
        std::printf("no memory: %s\n", block.error().message());
        return 1;
    }
    std::printf("1000 bytes at %p\n", static_cast<const void*>(block->data()));
    return 0;
}
