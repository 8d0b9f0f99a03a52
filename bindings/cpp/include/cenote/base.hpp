// What every other header stands on: how the library is reached, failures, results.
#ifndef CENOTE_BASE_HPP
#define CENOTE_BASE_HPP

#if defined(CENOTE_DL)
#include "cenote_dl.h"
#else
#include "cenote.h"
#endif

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#if defined(__cpp_exceptions) || defined(__EXCEPTIONS)
#define CENOTE_HPP_EXCEPTIONS 1
#define CENOTE_HPP_ERRORS throwing
#else
#define CENOTE_HPP_ERRORS quiet
#endif
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) || defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define CENOTE_HPP_DEFAULT_STREAM 2
#define CENOTE_HPP_STREAMS per_thread
#else
#define CENOTE_HPP_DEFAULT_STREAM 0
#define CENOTE_HPP_STREAMS legacy
#endif
#if defined(CENOTE_DL)
#define CENOTE_HPP_LINKAGE opened
#define CENOTE_HPP_CALL(name, ...) detail::call(detail::library().api.name, __VA_ARGS__)
#else
#define CENOTE_HPP_LINKAGE linked
#define CENOTE_HPP_CALL(name, ...) ::name(__VA_ARGS__)
#endif

// The build settings that change what an inline function does are part of every name: files of one
// program that were compiled differently get different functions, instead of one picked by chance.
// clang-format off
#define CENOTE_HPP_BEGIN                  \
    namespace cenote {                    \
    inline namespace CENOTE_HPP_LINKAGE { \
    inline namespace CENOTE_HPP_STREAMS { \
    inline namespace CENOTE_HPP_ERRORS {
#define CENOTE_HPP_END }}}}
// clang-format on

CENOTE_HPP_BEGIN

using status = cenote_status;
using block_info = cenote_block_info_t;
using device_info = cenote_device_info_t;
using option = cenote_option_t;
using pool_stats = cenote_pool_stats_t;
using runtime_info = cenote_runtime_info_t;
using trim_result = cenote_trim_result;

// Sizes in source: 8_GiB, 500_MB.
namespace literals {
constexpr std::uint64_t operator""_KiB(unsigned long long n) { return n << 10; }
constexpr std::uint64_t operator""_MiB(unsigned long long n) { return n << 20; }
constexpr std::uint64_t operator""_GiB(unsigned long long n) { return n << 30; }
constexpr std::uint64_t operator""_MB(unsigned long long n) { return n * 1000000; }
constexpr std::uint64_t operator""_GB(unsigned long long n) { return n * 1000000000; }
}  // namespace literals

namespace detail {

#if defined(CENOTE_DL)
struct opened_library {
    cenote_dl_api api;
    cenote_status state;
};

// The one table of this program, filled at the first call; its destructor does nothing.
inline const opened_library& library() noexcept {
    static const opened_library found = [] {
        opened_library made;
        made.state = cenote_dl_open(&made.api);
        return made;
    }();
    return found;
}

template <class F, class... A>
status call(F function, A... arguments) noexcept {
    return function == nullptr ? library().state : function(arguments...);
}
#endif

// An out-struct with its size filled in.
template <class S>
S sized() noexcept {
    S made;
    std::memset(&made, 0, sizeof made);
    made.struct_size = static_cast<std::uint32_t>(sizeof made);
    return made;
}

template <std::size_t N>
void copy_text(char (&to)[N], std::string_view from) noexcept {
    const std::size_t length = from.size() < N - 1 ? from.size() : N - 1;
    to[from.copy(to, length)] = '\0';
}

}  // namespace detail

// Version text of the library, or "" if there is none.
inline const char* version() noexcept {
#if defined(CENOTE_DL)
    const auto function = detail::library().api.cenote_version;
    return function == nullptr ? "" : function();
#else
    return ::cenote_version();
#endif
}

// C name of a status, for example "CENOTE_E_LIMIT".
inline const char* status_name(status code) noexcept {
#if defined(CENOTE_DL)
    const auto function = detail::library().api.cenote_status_name;
    return function == nullptr ? "CENOTE_E_NO_LIBRARY" : function(code);
#else
    return ::cenote_status_name(code);
#endif
}

// What went wrong: a status and the figures behind it. Fixed size; making one allocates nothing.
class failure {
  public:
    // The failure that the calling thread has just been told of by `code`.
    static failure of(status code) noexcept {
        failure made;
        CENOTE_HPP_CALL(cenote_last_error, &made.record_);
        if (made.record_.status == code) {
            return made;
        }
        made.record_ = detail::sized<cenote_error>();
        made.record_.status = code;
        detail::copy_text(made.record_.message, status_name(code));
#if defined(CENOTE_DL)
        if (detail::library().state != CENOTE_OK) {
            detail::copy_text(made.record_.message, detail::library().api.message);
        }
#endif
        return made;
    }

    // A failure that this header found itself.
    static failure local(status code, std::string_view message) noexcept {
        failure made;
        made.record_.status = code;
        detail::copy_text(made.record_.message, message);
        return made;
    }

    status code() const noexcept { return record_.status; }
    const char* name() const noexcept { return status_name(record_.status); }
    const char* message() const noexcept { return record_.message; }
    std::int32_t backend_code() const noexcept { return record_.backend_code; }
    std::uint64_t wanted_bytes() const noexcept { return record_.wanted_bytes; }
    std::uint64_t available_bytes() const noexcept { return record_.available_bytes; }

  private:
    failure() noexcept : record_(detail::sized<cenote_error>()) {}
    cenote_error record_;
};

// What value() throws.
class error : public std::exception {
  public:
    explicit error(const failure& info) noexcept : info_(info) {}
    const char* what() const noexcept override { return info_.message(); }
    status code() const noexcept { return info_.code(); }
    const failure& info() const noexcept { return info_; }

  private:
    failure info_;
};

// What memory_resource throws, as standard containers expect.
class bad_alloc : public std::bad_alloc {
  public:
    explicit bad_alloc(const failure& info) noexcept : info_(info) {}
    const char* what() const noexcept override { return info_.message(); }
    const failure& info() const noexcept { return info_; }

  private:
    failure info_;
};

namespace detail {
// The throwing layer. Where exceptions are off it ends the program, as std::expected's does: such
// code tests its results instead of calling value().
template <class E>
[[noreturn]] void raise(const failure& info) {
#if defined(CENOTE_HPP_EXCEPTIONS)
    throw E(info);
#else
    static_cast<void>(info);
    std::abort();
#endif
}
}  // namespace detail

// A value, or the failure that took its place.
template <class T>
class [[nodiscard]] result {
  public:
    result(T value) noexcept : state_(std::in_place_index<0>, std::move(value)) {}
    result(const failure& info) noexcept : state_(std::in_place_index<1>, info) {}

    bool has_value() const noexcept { return state_.index() == 0; }
    explicit operator bool() const noexcept { return has_value(); }
    // CENOTE_OK, or the failure's status.
    status code() const noexcept { return has_value() ? CENOTE_OK : error().code(); }
    // The failure; only where has_value() is false.
    const failure& error() const noexcept { return *std::get_if<1>(&state_); }

    T& value() & { return check(), **this; }
    const T& value() const& { return check(), **this; }
    T&& value() && { return check(), std::move(**this); }
    // The value, unchecked: only where has_value() is true.
    T& operator*() noexcept { return *std::get_if<0>(&state_); }
    const T& operator*() const noexcept { return *std::get_if<0>(&state_); }
    T* operator->() noexcept { return std::get_if<0>(&state_); }
    const T* operator->() const noexcept { return std::get_if<0>(&state_); }
    template <class U>
    T value_or(U&& other) && {
        return has_value() ? std::move(**this) : static_cast<T>(std::forward<U>(other));
    }

  private:
    void check() const {
        if (!has_value()) {
            detail::raise<cenote::error>(error());
        }
    }
    std::variant<T, failure> state_;
};

template <>
class [[nodiscard]] result<void> {
  public:
    result() noexcept = default;
    result(const failure& info) noexcept : state_(info) {}
    // Success, or the details of a status that a call has just returned.
    static result from(status code) noexcept {
        return code == CENOTE_OK ? result() : result(failure::of(code));
    }

    bool has_value() const noexcept { return state_.index() == 0; }
    explicit operator bool() const noexcept { return has_value(); }
    status code() const noexcept { return has_value() ? CENOTE_OK : error().code(); }
    const failure& error() const noexcept { return *std::get_if<failure>(&state_); }
    void value() const {
        if (!has_value()) {
            detail::raise<cenote::error>(error());
        }
    }

  private:
    std::variant<std::monostate, failure> state_;
};

namespace detail {
// The value after CENOTE_OK, else the details.
template <class T>
result<T> give(status code, T&& value) noexcept {
    if (code != CENOTE_OK) {
        return failure::of(code);
    }
    return std::move(value);
}
}  // namespace detail

CENOTE_HPP_END

#endif  // CENOTE_BASE_HPP
