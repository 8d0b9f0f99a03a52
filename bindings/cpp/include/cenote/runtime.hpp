// The library as a whole and its devices: options, facts, limits, giving memory back.
#ifndef CENOTE_RUNTIME_HPP
#define CENOTE_RUNTIME_HPP

#include "base.hpp"

CENOTE_HPP_BEGIN

// Success if the library is there and of this header's ABI generation. Without it the first call
// that needs the library answers the same.
inline result<void> load() noexcept {
#if defined(CENOTE_DL)
    return result<void>::from(detail::library().state);
#else
    if (::cenote_abi_version() != CENOTE_ABI_VERSION) {
        return failure::local(CENOTE_E_ABI,
                              "the cenote library is of another ABI generation than cenote.h");
    }
    return {};
#endif
}

// Set an option before the first pool exists, for example ("limit", "8GiB").
inline result<void> configure(const char* name, const char* value) noexcept {
    return result<void>::from(CENOTE_HPP_CALL(cenote_configure, name, value));
}

inline std::uint32_t option_count() noexcept {
#if defined(CENOTE_DL)
    const auto function = detail::library().api.cenote_option_count;
    return function == nullptr ? 0 : function();
#else
    return ::cenote_option_count();
#endif
}

// An option with its effective value and the source of that value.
inline result<option> option_at(std::uint32_t index) noexcept {
    auto made = detail::sized<option>();
    return detail::give(CENOTE_HPP_CALL(cenote_option_at, index, &made), std::move(made));
}

// What serves this process; creates no device context.
inline result<runtime_info> info() noexcept {
    auto made = detail::sized<runtime_info>();
    return detail::give(CENOTE_HPP_CALL(cenote_runtime_info, &made), std::move(made));
}

inline result<std::uint32_t> device_count() noexcept {
    std::uint32_t count = 0;
    return detail::give(CENOTE_HPP_CALL(cenote_device_count, &count), std::move(count));
}

inline result<device_info> device(std::int32_t index) noexcept {
    auto made = detail::sized<device_info>();
    return detail::give(CENOTE_HPP_CALL(cenote_device_info, index, &made), std::move(made));
}

// Limit what this process may hold on a device; UINT64_MAX for no limit.
inline result<void> limit_device(std::int32_t index, std::uint64_t limit_bytes) noexcept {
    return result<void>::from(CENOTE_HPP_CALL(cenote_device_limit, index, limit_bytes));
}

// Give back every idle page of a device (-1: of all devices).
inline result<trim_result> empty_cache(std::int32_t index = -1) noexcept {
    auto made = detail::sized<trim_result>();
    return detail::give(CENOTE_HPP_CALL(cenote_empty_cache, index, &made), std::move(made));
}

// Do what is due without an allocation: collect finished frees, give decayed pages back.
inline result<void> poll() noexcept {
#if defined(CENOTE_DL)
    return result<void>::from(detail::call(detail::library().api.cenote_poll));
#else
    return result<void>::from(::cenote_poll());
#endif
}

// Give everything back and refuse further work. Optional: a process may simply exit.
inline result<void> shutdown() noexcept {
#if defined(CENOTE_DL)
    return result<void>::from(detail::call(detail::library().api.cenote_shutdown));
#else
    return result<void>::from(::cenote_shutdown());
#endif
}

CENOTE_HPP_END

#endif  // CENOTE_RUNTIME_HPP
