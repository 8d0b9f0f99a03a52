// A typed block that is freed in stream order.
#ifndef CENOTE_BUFFER_HPP
#define CENOTE_BUFFER_HPP

#include "base.hpp"
#include "pool.hpp"
#include "stream.hpp"

#include <limits>

CENOTE_HPP_BEGIN

// `size()` elements of T in a pool's memory, uninitialised. The address is a device address where
// the pool is: only host_data() may be touched by the CPU. Destruction frees on stream(): set it to
// the stream of the last use, or record further streams.
template <class T>
class buffer {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_const_v<T>,
                  "a buffer holds plain data: no constructor runs on a device");

  public:
    // `count` elements in stream order; CENOTE_E_SIZE if their bytes overflow.
    static result<buffer> allocate(std::size_t count, stream_view on = {},
                                   const pool_view& from = pool_view()) noexcept {
        if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) {
            return failure::local(CENOTE_E_SIZE, "the number of elements overflows their bytes");
        }
        const auto block = alignof(T) <= 512
                               ? from.allocate(count * sizeof(T), on)
                               : from.allocate(count * sizeof(T), alignof(T), 0, on);
        if (!block) {
            return block.error();
        }
        return buffer(static_cast<T*>(*block), count, on);
    }

    // Take over a block that another part of the program, or another language, allocated.
    static buffer adopt(T* data, std::size_t count, stream_view on = {}) noexcept {
        return buffer(data, count, on);
    }

    buffer() noexcept = default;
    buffer(buffer&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)),
          size_(std::exchange(other.size_, 0)),
          stream_(other.stream_) {}
    buffer& operator=(buffer&& other) noexcept {
        if (this != &other) {
            static_cast<void>(free());
            data_ = std::exchange(other.data_, nullptr);
            size_ = std::exchange(other.size_, 0);
            stream_ = other.stream_;
        }
        return *this;
    }
    buffer(const buffer&) = delete;
    buffer& operator=(const buffer&) = delete;
    ~buffer() { static_cast<void>(free()); }

    T* data() noexcept { return data_; }
    const T* data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }
    bool empty() const noexcept { return size_ == 0; }
    explicit operator bool() const noexcept { return data_ != nullptr; }

    // The stream on which the buffer is freed.
    stream_view stream() const noexcept { return stream_; }
    void set_stream(stream_view on) noexcept { stream_ = on; }

    // Free now, on stream() or another; a second call does nothing. On failure the buffer stays.
    result<void> free() noexcept { return free(stream_); }
    result<void> free(stream_view on) noexcept {
        if (data_ == nullptr) {
            return {};
        }
        const auto done = deallocate(data_, on);
        if (done) {
            static_cast<void>(release());
        }
        return done;
    }

    // Give the block away: the receiver frees it, in whatever language.
    T* release() noexcept {
        size_ = 0;
        return std::exchange(data_, nullptr);
    }

    // The same memory for the CPU; CENOTE_E_NOT_SUPPORTED where the CPU cannot use it.
    result<T*> host_data() const noexcept {
        if (data_ == nullptr) {
            return static_cast<T*>(nullptr);
        }
        const auto facts = find_block(data_);
        if (!facts) {
            return facts.error();
        }
        if (facts->host_ptr == nullptr) {
            return failure::local(CENOTE_E_NOT_SUPPORTED, "the CPU cannot use this memory");
        }
        return static_cast<T*>(facts->host_ptr);
    }

    // Say that the buffer is used on another stream too, until it is freed or until use_end.
    result<void> record_stream(stream_view on) noexcept {
        return result<void>::from(CENOTE_HPP_CALL(cenote_block_record_stream, data_, on.get()));
    }
    result<void> use_end(stream_view on) noexcept {
        return result<void>::from(CENOTE_HPP_CALL(cenote_block_use_end, data_, on.get()));
    }

    // Pinned: cannot be freed, and keeps its physical memory, until unpinned as often.
    result<void> pin() noexcept {
        return result<void>::from(CENOTE_HPP_CALL(cenote_block_pin, data_));
    }
    result<void> unpin() noexcept {
        return result<void>::from(CENOTE_HPP_CALL(cenote_block_unpin, data_));
    }

  private:
    buffer(T* data, std::size_t size, stream_view on) noexcept
        : data_(data), size_(size), stream_(on) {}

    T* data_ = nullptr;
    std::size_t size_ = 0;
    stream_view stream_ = {};
};

CENOTE_HPP_END

#endif  // CENOTE_BUFFER_HPP
