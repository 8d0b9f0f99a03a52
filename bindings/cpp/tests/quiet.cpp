// Built with -fno-exceptions -fno-rtti: results without the throwing layer.
#include "cenote.hpp"
#include "check.hpp"

#if defined(__cpp_exceptions) || defined(__cpp_rtti)
#error "this test is about a build without exceptions and run-time type information"
#endif

int main() {
    auto made = cenote::buffer<int>::allocate(10);
    CHECK(made);
    CHECK(made.value().size() == 10);
    CHECK(made->free());
    const auto refused = cenote::device(9999);
    CHECK(!refused && refused.code() == CENOTE_E_DEVICE);
    auto resource = cenote::memory_resource::make();
    CHECK(resource || resource.code() == CENOTE_E_NOT_SUPPORTED);
    return finish("quiet");
}
