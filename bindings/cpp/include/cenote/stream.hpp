// Streams: a view of any stream, and a registered stream that later calls ask nothing about.
#ifndef CENOTE_STREAM_HPP
#define CENOTE_STREAM_HPP

#include "base.hpp"

CENOTE_HPP_BEGIN

// Names a stream without owning it: a CUstream or cudaStream_t as it is, or a registered stream.
// The default stream (also: a null handle) is the legacy one, or the calling thread's own where the
// including code is compiled with CUDA_API_PER_THREAD_DEFAULT_STREAM, as it is for CUDA's own
// calls.
class stream_view {
  public:
    stream_view(void* handle = nullptr) noexcept
        : handle_(handle != nullptr ? handle : default_handle()) {}

    cenote_stream_t get() const noexcept { return handle_; }

    static stream_view legacy_default() noexcept { return stream_view(to_handle(1)); }
    static stream_view per_thread_default() noexcept { return stream_view(to_handle(2)); }

    friend bool operator==(stream_view a, stream_view b) noexcept { return a.handle_ == b.handle_; }
    friend bool operator!=(stream_view a, stream_view b) noexcept { return a.handle_ != b.handle_; }

  private:
    static void* to_handle(std::uintptr_t value) noexcept { return reinterpret_cast<void*>(value); }
    static void* default_handle() noexcept { return to_handle(CENOTE_HPP_DEFAULT_STREAM); }
    cenote_stream_t handle_;
};

// A registration: calls that use it ask the driver nothing. It does not own the raw stream, which
// must outlive it; buffers on it must be freed before it is retired.
class stream {
  public:
    // Register `raw` on `device`, promising what CENOTE_STREAM_* say.
    static result<stream> attach(std::int32_t device, void* raw,
                                 std::uint32_t promises = CENOTE_STREAM_PERSISTENT) noexcept {
        cenote_stream_t made = nullptr;
        const status code = CENOTE_HPP_CALL(cenote_stream_register, device, stream_view(raw).get(),
                                            promises, &made);
        return detail::give(code, stream(made));
    }

    stream() noexcept = default;
    stream(stream&& other) noexcept
        : handle_(other.handle_), owned_(std::exchange(other.owned_, false)) {}
    stream& operator=(stream&& other) noexcept {
        if (this != &other) {
            static_cast<void>(retire());
            handle_ = other.handle_;
            owned_ = std::exchange(other.owned_, false);
        }
        return *this;
    }
    stream(const stream&) = delete;
    stream& operator=(const stream&) = delete;
    ~stream() { static_cast<void>(retire()); }

    // End the registration now; a second call does nothing. The value stays, so that a later use is
    // answered with CENOTE_E_STREAM instead of falling on the default stream.
    result<void> retire() noexcept {
        if (!std::exchange(owned_, false)) {
            return {};
        }
        return result<void>::from(CENOTE_HPP_CALL(cenote_stream_retire, handle_));
    }

    // False after retire() or a move.
    explicit operator bool() const noexcept { return owned_; }
    cenote_stream_t get() const noexcept { return handle_; }
    operator stream_view() const noexcept { return stream_view(handle_); }

    // Tell that a capture begins (only for a stream that promised CENOTE_STREAM_CAPTURE_TOLD).
    result<void> capture_begin() noexcept {
        return result<void>::from(CENOTE_HPP_CALL(cenote_capture_begin, handle_));
    }
    // Tell that it has ended; the id is for release_graph.
    result<cenote_graph_t> capture_end() noexcept {
        cenote_graph_t graph = 0;
        const status code = CENOTE_HPP_CALL(cenote_capture_end, handle_, &graph);
        return detail::give(code, std::move(graph));
    }

  private:
    explicit stream(cenote_stream_t handle) noexcept
        : handle_(handle), owned_(handle != nullptr) {}
    cenote_stream_t handle_ = nullptr;
    bool owned_ = false;
};

// Release the private memory of a told capture, once the graph and its executables are destroyed.
inline result<void> release_graph(cenote_graph_t graph) noexcept {
    return result<void>::from(CENOTE_HPP_CALL(cenote_graph_release, graph));
}

CENOTE_HPP_END

#endif  // CENOTE_STREAM_HPP
