// Pools and blocks by address.
#ifndef CENOTE_POOL_HPP
#define CENOTE_POOL_HPP

#include "base.hpp"
#include "stream.hpp"

CENOTE_HPP_BEGIN

// What memory a pool is made of.
enum class kind : std::uint32_t {
    device = CENOTE_KIND_DEVICE,
    host = CENOTE_KIND_HOST,
};

// Settings of a pool; what is left alone takes the library's default.
struct pool_options {
    cenote::kind kind = cenote::kind::device;
    std::int32_t device = -1;         // -1: the current device
    bool stable = false;              // pages never change their memory (NCCL, RDMA)
    std::uint64_t limit_bytes = 0;    // 0: no limit of its own
    std::uint64_t initial_bytes = 0;  // taken at creation
    std::uint32_t slack_ppm = 0;      // 0: the option "slack"; CENOTE_SLACK_AUTO
    std::uint32_t decay_ms = 0;       // 0: the option "decay"; CENOTE_DECAY_OFF
    std::string_view name = {};       // for reports, at most 31 bytes
};

// Free a block in stream order, whatever pool it came from and whichever language allocated it.
inline result<void> deallocate(void* ptr, stream_view on = {}) noexcept {
    return result<void>::from(CENOTE_HPP_CALL(cenote_free, ptr, on.get()));
}

// Facts of the live block that contains an address.
inline result<block_info> find_block(const void* ptr) noexcept {
    auto made = detail::sized<block_info>();
    return detail::give(CENOTE_HPP_CALL(cenote_block_info, ptr, &made), std::move(made));
}

// The physical handles under a block: up to `count` are written to `out`; the result is how many
// there are in all.
inline result<std::uint32_t> block_segments(const void* ptr, cenote_segment_t* out,
                                            std::uint32_t count) noexcept {
    std::uint32_t there = count;
    const status code = CENOTE_HPP_CALL(cenote_block_segments, ptr, out, &there);
    if (code == CENOTE_E_ARGUMENT && there > count) {
        return there;
    }
    return detail::give(code, std::move(there));
}

// Names a pool without owning it. Default-constructed: the default pool of the current device.
class pool_view {
  public:
    explicit pool_view(cenote_pool_t id = CENOTE_DEFAULT_POOL) noexcept : id_(id) {}

    // The default pool of a device, created on first use and never destroyed.
    static result<pool_view> default_of(std::int32_t device = -1) noexcept {
        cenote_pool_t id = CENOTE_DEFAULT_POOL;
        const status code = CENOTE_HPP_CALL(cenote_pool_default, device, &id);
        return detail::give(code, pool_view(id));
    }

    cenote_pool_t get() const noexcept { return id_; }

    // A block in stream order, aligned to 512 bytes; 0 bytes give a null pointer.
    result<void*> allocate(std::uint64_t bytes, stream_view on = {}) const noexcept {
        void* ptr = nullptr;
        const status code = CENOTE_HPP_CALL(cenote_alloc, id_, bytes, on.get(), &ptr);
        return detail::give(code, std::move(ptr));
    }

    // The same with an alignment (a power of two up to 2 MiB) and CENOTE_ALLOC_* flags.
    result<void*> allocate(std::uint64_t bytes, std::uint64_t align, std::uint32_t flags,
                           stream_view on = {}) const noexcept {
        auto wanted = detail::sized<cenote_alloc_desc>();
        wanted.flags = flags;
        wanted.size_bytes = bytes;
        wanted.align_bytes = align;
        void* ptr = nullptr;
        const status code = CENOTE_HPP_CALL(cenote_alloc_ex, id_, &wanted, on.get(), &ptr);
        return detail::give(code, std::move(ptr));
    }

    // Give idle memory back until at most `keep_bytes` are held.
    result<trim_result> trim(std::uint64_t keep_bytes = 0) const noexcept {
        auto made = detail::sized<trim_result>();
        const status code = CENOTE_HPP_CALL(cenote_pool_trim, id_, keep_bytes, &made);
        return detail::give(code, std::move(made));
    }

    result<pool_stats> stats() const noexcept {
        auto made = detail::sized<pool_stats>();
        return detail::give(CENOTE_HPP_CALL(cenote_pool_stats, id_, &made), std::move(made));
    }

    result<void> reset_peaks() const noexcept {
        return result<void>::from(CENOTE_HPP_CALL(cenote_pool_reset_peaks, id_));
    }

  protected:
    cenote_pool_t id_;
};

// A pool of one's own. Its buffers must be gone before it is: destroying it with live blocks
// changes nothing and leaves it to the process (destroy() tells; the destructor cannot).
class pool : public pool_view {
  public:
    static result<pool> create(const pool_options& options = {}) noexcept {
        if (options.name.size() >= sizeof(cenote_pool_desc::name)) {
            return failure::local(CENOTE_E_ARGUMENT, "the pool's name exceeds 31 bytes");
        }
        auto desc = detail::sized<cenote_pool_desc>();
        desc.kind = static_cast<std::uint32_t>(options.kind);
        desc.device = options.device;
        desc.flags = options.stable ? CENOTE_POOL_STABLE : 0;
        desc.limit_bytes = options.limit_bytes;
        desc.initial_bytes = options.initial_bytes;
        desc.slack_ppm = options.slack_ppm;
        desc.decay_ms = options.decay_ms;
        detail::copy_text(desc.name, options.name);
        cenote_pool_t id = CENOTE_DEFAULT_POOL;
        const status code = CENOTE_HPP_CALL(cenote_pool_create, &desc, &id);
        return detail::give(code, pool(id));
    }

    pool(pool&& other) noexcept
        : pool_view(other.id_), owned_(std::exchange(other.owned_, false)) {}
    pool& operator=(pool&& other) noexcept {
        if (this != &other) {
            static_cast<void>(destroy());
            id_ = other.id_;
            owned_ = std::exchange(other.owned_, false);
        }
        return *this;
    }
    pool(const pool&) = delete;
    pool& operator=(const pool&) = delete;
    ~pool() { static_cast<void>(destroy()); }

    // Give the pool's memory back; CENOTE_E_POOL_BUSY with live blocks, and it stays usable. The id
    // stays after success, so that a later use is answered with CENOTE_E_HANDLE.
    result<void> destroy() noexcept {
        if (!owned_) {
            return {};
        }
        const status code = CENOTE_HPP_CALL(cenote_pool_destroy, id_);
        owned_ = code == CENOTE_E_POOL_BUSY;
        return result<void>::from(code);
    }

  private:
    explicit pool(cenote_pool_t id) noexcept
        : pool_view(id), owned_(id != CENOTE_DEFAULT_POOL) {}
    bool owned_;
};

CENOTE_HPP_END

#endif  // CENOTE_POOL_HPP
