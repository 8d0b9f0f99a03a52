// Built with CENOTE_DL and run where no library is: every call answers, none crashes.
#include "cenote.hpp"
#include "check.hpp"

#include <string>

int main() {
    CHECK(cenote::load().code() == CENOTE_E_NO_LIBRARY);
    CHECK(std::string(cenote::version()).empty());
    CHECK(cenote::option_count() == 0);
    const auto refused = cenote::buffer<int>::allocate(10);
    CHECK(refused.code() == CENOTE_E_NO_LIBRARY);
    CHECK(std::string(refused.error().message()).find("CENOTE_LIBRARY") != std::string::npos);
    CHECK(cenote::pool::create().code() == CENOTE_E_NO_LIBRARY);
    CHECK(cenote::stream::attach(0, nullptr).code() == CENOTE_E_NO_LIBRARY);
    CHECK(cenote::poll().code() == CENOTE_E_NO_LIBRARY);
    CHECK(cenote::empty_cache().code() == CENOTE_E_NO_LIBRARY);
    CHECK(cenote::memory_resource::make().code() == CENOTE_E_NO_LIBRARY);
    return finish("absent");
}
