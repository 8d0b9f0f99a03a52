// One half of a program whose two files include everything: nothing may be defined twice.
#include "cenote.hpp"
#include "check.hpp"

void* other_file_stream();
bool other_file_uses_cenote();

int main() {
    CHECK(other_file_uses_cenote());
    CHECK(cenote::buffer<int>::allocate(4));
    // This file means the legacy default stream, the other one the thread's own.
    CHECK(cenote::stream_view().get() == nullptr);
    CHECK(other_file_stream() == reinterpret_cast<void*>(2));
    return finish("two files");
}
