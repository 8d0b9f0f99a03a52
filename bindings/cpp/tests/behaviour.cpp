// What the C++ layer promises: built linked and with CENOTE_DL, plain and under AddressSanitizer.
#include "cenote.hpp"
#include "check.hpp"

#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace cenote::literals;

static_assert(!std::is_copy_constructible_v<cenote::pool>);
static_assert(!std::is_copy_constructible_v<cenote::buffer<int>>);
static_assert(!std::is_copy_constructible_v<cenote::stream>);
static_assert(std::is_nothrow_move_constructible_v<cenote::pool>);
static_assert(std::is_nothrow_move_constructible_v<cenote::buffer<int>>);
static_assert(std::is_nothrow_move_constructible_v<cenote::stream>);
static_assert(std::is_trivially_copyable_v<cenote::stream_view>);

static cenote::pool fresh(std::uint64_t limit_bytes = 0) {
    cenote::pool_options options;
    options.limit_bytes = limit_bytes;
    options.name = "cpp test";
    return cenote::pool::create(options).value();
}

static void library() {
    CHECK(cenote::load());
    CHECK(std::string(cenote::version()).size() >= 5);
    CHECK(std::string(cenote::status_name(CENOTE_E_LIMIT)) == "CENOTE_E_LIMIT");
    CHECK(cenote::info()->abi_version == CENOTE_ABI_VERSION);
    CHECK(*cenote::device_count() >= 1);
    CHECK(cenote::device(0)->total_bytes > 0);
    CHECK(cenote::device(9999).code() == CENOTE_E_DEVICE);
    CHECK(cenote::option_count() > 0);
    CHECK(cenote::option_at(0)->name[0] != '\0');
    CHECK(cenote::option_at(100000).code() == CENOTE_E_ARGUMENT);
    CHECK(cenote::poll());
}

static void buffers() {
    const auto pool = fresh();
    {
        auto made = cenote::buffer<float>::allocate(1000, {}, pool);
        CHECK(made);
        CHECK(made->size() == 1000 && made->size_bytes() == 4000);
        CHECK(pool.stats()->live_bytes == 4000);
        auto moved = std::move(*made);
        CHECK(!*made && moved);
        CHECK(cenote::find_block(moved.data() + 3)->offset_bytes == 12);
        CHECK(moved.pin());
        CHECK(moved.free().code() == CENOTE_E_PINNED);
        CHECK(moved && moved.unpin());
        CHECK(moved.record_stream(cenote::stream_view::per_thread_default()));
        cenote_segment_t segment;
        CHECK(*cenote::block_segments(moved.data(), &segment, 1) >= 1);
    }
    CHECK(pool.stats()->live_bytes == 0 && pool.stats()->live_blocks == 0);
    auto assigned = cenote::buffer<int>::allocate(1, {}, pool).value();
    assigned = cenote::buffer<int>::allocate(2, {}, pool).value();
    CHECK(pool.stats()->live_blocks == 1);
    CHECK(assigned.free() && assigned.free());
    CHECK(pool.stats()->live_blocks == 0);
    CHECK(cenote::buffer<int>::allocate(0, {}, pool)->data() == nullptr);
}

static void host_memory() {
    const auto pool = fresh();
    auto made = cenote::buffer<int>::allocate(256, {}, pool).value();
    if (!cenote::device(0)->host_visible) {
        CHECK(made.host_data().code() == CENOTE_E_NOT_SUPPORTED);
        return;
    }
    int* data = made.host_data().value();
    for (int i = 0; i < 256; ++i) {
        data[i] = i;
    }
    CHECK(data[255] == 255);
    struct alignas(4096) page {
        char bytes[4096];
    };
    auto aligned = cenote::buffer<page>::allocate(3, {}, pool).value();
    CHECK(reinterpret_cast<std::uintptr_t>(aligned.data()) % 4096 == 0);
}

static void ownership_travels() {
    const auto pool = fresh();
    auto made = cenote::buffer<char>::allocate(100, {}, pool).value();
    char* raw = made.release();
    CHECK(!made && raw != nullptr);
    { const auto adopted = cenote::buffer<char>::adopt(raw, 100); }
    CHECK(pool.stats()->live_blocks == 0);
    CHECK(cenote::deallocate(raw).code() == CENOTE_E_DOUBLE_FREE);
}

static void failures() {
    const auto small = fresh(4_MiB);
    const auto refused = small.allocate(64_MiB);
    CHECK(!refused && refused.code() == CENOTE_E_LIMIT);
    CHECK(refused.error().wanted_bytes() >= 64_MiB);
    CHECK(refused.error().message()[0] != '\0');
    CHECK(std::string(refused.error().name()) == "CENOTE_E_LIMIT");
    CHECK(cenote::buffer<double>::allocate(SIZE_MAX / 2).code() == CENOTE_E_SIZE);
    int local = 0;
    CHECK(cenote::deallocate(&local).code() == CENOTE_E_FOREIGN_POINTER);
    CHECK(small.allocate(100, 3, 0).code() == CENOTE_E_ALIGNMENT);
    CHECK(small.allocate(100, 0, 0x8000).code() == CENOTE_E_FLAGS);
    CHECK(cenote::pool_view(0xdead0000beefULL).stats().code() == CENOTE_E_HANDLE);
    cenote::pool_options options;
    options.name = "a name that is longer than thirty-one bytes";
    CHECK(cenote::pool::create(options).code() == CENOTE_E_ARGUMENT);
    CHECK(small.allocate(1).value_or(nullptr) != nullptr);
}

static void throwing() {
#if defined(__cpp_exceptions)
    const auto small = fresh(4_MiB);
    bool caught = false;
    try {
        static_cast<void>(cenote::buffer<char>::allocate(64_MiB, {}, small).value());
    } catch (const cenote::error& e) {
        caught = e.code() == CENOTE_E_LIMIT && std::string(e.what()).size() > 8;
    }
    CHECK(caught);
#endif
}

static void pools() {
    auto pool = fresh();
    auto block = cenote::buffer<char>::allocate(3_MiB, {}, pool).value();
    CHECK(pool.destroy().code() == CENOTE_E_POOL_BUSY);
    CHECK(pool.stats());
    CHECK(block.free());
    CHECK(pool.trim() && pool.stats()->held_bytes == 0);
    CHECK(pool.stats()->peak_live_bytes == 3_MiB);
    CHECK(pool.reset_peaks() && pool.stats()->peak_live_bytes == 0);
    auto moved = std::move(pool);
    CHECK(moved.destroy() && moved.destroy());
    CHECK(moved.stats().code() == CENOTE_E_HANDLE);
    CHECK(cenote::pool_view::default_of(0)->allocate(0));
    CHECK(cenote::pool_view::default_of(9999).code() == CENOTE_E_DEVICE);
    CHECK(cenote::empty_cache());
}

static void streams() {
    const auto pool = fresh();
    auto made = cenote::stream::attach(0, nullptr);
    CHECK(made && *made);
    auto stream = std::move(*made);
    CHECK(!*made && stream);
    auto block = cenote::buffer<char>::allocate(100, stream, pool).value();
    CHECK(block.stream() == stream && block.free());
    CHECK(stream.retire() && stream.retire());
    CHECK(pool.allocate(100, stream).code() == CENOTE_E_STREAM);
    CHECK(cenote::stream::attach(0, nullptr, 0x8000).code() == CENOTE_E_FLAGS);
    auto told = cenote::stream::attach(0, nullptr, CENOTE_STREAM_CAPTURE_TOLD);
    CHECK(told);
}

// Containers on a pool that the CPU can use.
static void standard_containers() {
    cenote::pool_options options;
    options.kind = cenote::kind::host;
    const auto pool = cenote::pool::create(options).value();
    auto resource = cenote::memory_resource::make(pool).value();
    {
        std::pmr::vector<std::pmr::string> texts(&resource);
        for (int i = 0; i < 1000; ++i) {
            texts.emplace_back("a text that does not fit into the string itself, number " +
                               std::to_string(i));
        }
        CHECK(texts[999].back() == '9');
        CHECK(pool.stats()->live_blocks == 1001);
        void* aligned = resource.allocate(10, 8192);
        CHECK(reinterpret_cast<std::uintptr_t>(aligned) % 8192 == 0);
        resource.deallocate(aligned, 10, 8192);
        void* nothing = resource.allocate(0);
        CHECK(nothing != nullptr);
        resource.deallocate(nothing, 0);
    }
    CHECK(pool.stats()->live_blocks == 0);
    CHECK(resource.is_equal(resource));
#if defined(__cpp_exceptions)
    bool caught = false;
    try {
        static_cast<void>(resource.allocate(std::size_t{1} << 60));
    } catch (const std::bad_alloc& e) {
        caught = std::string(e.what()).find("CENOTE") != std::string::npos || e.what()[0] != '\0';
    }
    CHECK(caught);
#endif
}

static void threads() {
    const auto pool = fresh();
    std::vector<std::thread> running;
    for (int t = 0; t < 4; ++t) {
        running.emplace_back([&pool] {
            for (int i = 1; i < 500; ++i) {
                const auto block = cenote::buffer<char>::allocate(i * 37, {}, pool);
                if (!block) {
                    std::fprintf(stderr, "%s\n", block.error().message());
                }
            }
        });
    }
    for (auto& thread : running) {
        thread.join();
    }
    CHECK(pool.stats()->live_blocks == 0 && pool.stats()->alloc_count == 4 * 499);
}

int main() {
    library();
    buffers();
    host_memory();
    ownership_travels();
    failures();
    throwing();
    pools();
    streams();
    standard_containers();
    threads();
    return finish("behaviour");
}
