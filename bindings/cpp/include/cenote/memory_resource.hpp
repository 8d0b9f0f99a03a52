// Standard containers on a host-visible pool.
#ifndef CENOTE_MEMORY_RESOURCE_HPP
#define CENOTE_MEMORY_RESOURCE_HPP

#include "base.hpp"
#include "pool.hpp"
#include "stream.hpp"

#include <memory_resource>

CENOTE_HPP_BEGIN

// A std::pmr::memory_resource over a pool whose memory the CPU can use. It refers to the pool,
// which must outlive it and every container on it. Failure throws cenote::bad_alloc.
class memory_resource : public std::pmr::memory_resource {
  public:
    // CENOTE_E_NOT_SUPPORTED for a pool that the CPU cannot use: found by a block of one byte.
    static result<memory_resource> make(const pool_view& from = pool_view(),
                                        stream_view on = {}) noexcept {
        const auto probe = from.allocate(1, on);
        if (!probe) {
            return probe.error();
        }
        const auto facts = find_block(*probe);
        const bool visible = facts && facts->host_ptr == *probe;
        const auto freed = cenote::deallocate(*probe, on);
        if (!facts || !freed) {
            return facts ? freed.error() : facts.error();
        }
        if (!visible) {
            return failure::local(CENOTE_E_NOT_SUPPORTED,
                                  "the CPU cannot use this pool's memory: use kind::host");
        }
        return memory_resource(from, on);
    }

    pool_view pool() const noexcept { return pool_; }
    stream_view stream() const noexcept { return stream_; }

  private:
    memory_resource(const pool_view& from, stream_view on) noexcept : pool_(from), stream_(on) {}

    void* do_allocate(std::size_t bytes, std::size_t align) override {
        // A container expects a pointer of its own even for nothing.
        const auto block = pool_.allocate(bytes == 0 ? 1 : bytes, align, 0, stream_);
        if (!block) {
            detail::raise<cenote::bad_alloc>(block.error());
        }
        return *block;
    }

    void do_deallocate(void* ptr, std::size_t, std::size_t) override {
        static_cast<void>(cenote::deallocate(ptr, stream_));
    }

    // By identity: works without run-time type information.
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
        return this == &other;
    }

    pool_view pool_;
    stream_view stream_;
};

CENOTE_HPP_END

#endif  // CENOTE_MEMORY_RESOURCE_HPP
