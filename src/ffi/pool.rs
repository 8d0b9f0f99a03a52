//! The pool noun.

use super::boundary::guard;
use super::types::*;

/// Create a pool.
/// Ownership: the caller destroys it with cenote_pool_destroy. Threads: any.
/// Blocking: may create the device's primary context; takes memory only if initial_bytes is set.
/// Errors: CENOTE_E_NULL, CENOTE_E_STRUCT_SIZE, CENOTE_E_ARGUMENT for an unknown kind,
/// CENOTE_E_FLAGS, CENOTE_E_DEVICE, CENOTE_E_ADDRESS_SPACE, CENOTE_E_OUT_OF_MEMORY and
/// CENOTE_E_LIMIT for initial_bytes, the backend's start-up errors. Since: 0.1.
///
/// # Safety
/// `desc` is NULL or points to `struct_size` readable bytes; `out` is NULL or writable.
#[no_mangle]
pub unsafe extern "C" fn cenote_pool_create(
    desc: *const cenote_pool_desc,
    out: *mut cenote_pool_t,
) -> cenote_status {
    // SAFETY: the caller keeps the contract above.
    guard(|| unsafe { super::decode::pool_create(desc, out) })
}

/// Destroy a pool and give its memory back.
/// Order: waits for unfinished frees. Threads: any; no other call may use the pool at the same
/// time.
/// Blocking: waits for the device where frees are pending.
/// Errors: CENOTE_E_HANDLE; CENOTE_E_POOL_BUSY with live blocks (nothing is changed);
/// CENOTE_E_ARGUMENT for a default pool; CENOTE_E_CONTEXT_LOST. Since: 0.1.
#[no_mangle]
pub extern "C" fn cenote_pool_destroy(pool: cenote_pool_t) -> cenote_status {
    guard(|| crate::runtime::pools::destroy(pool))
}

/// The default pool of a device (-1: the current one), created on first use.
/// Ownership: the library's; never destroyed. Threads: any. Blocking: as cenote_pool_create.
/// Errors: CENOTE_E_NULL, CENOTE_E_DEVICE and those of cenote_pool_create. Since: 0.1.
///
/// # Safety
/// `out` is NULL or writable.
#[no_mangle]
pub unsafe extern "C" fn cenote_pool_default(
    device: i32,
    out: *mut cenote_pool_t,
) -> cenote_status {
    // SAFETY: the caller keeps the contract above.
    guard(|| unsafe { super::decode::pool_default(device, out) })
}

/// Give idle memory back until the pool holds at most `keep_bytes`, or nothing idle is left.
/// Units: bytes. Ownership: `out` may be NULL. Order: unfinished frees stay and are counted as
/// pending.
/// Threads: any; other threads allocate meanwhile. Blocking: calls the driver; never waits for the
/// device.
/// Errors: CENOTE_E_HANDLE, CENOTE_E_STRUCT_SIZE, CENOTE_E_CONTEXT_LOST. Since: 0.1.
///
/// # Safety
/// `out` is NULL or points to `struct_size` writable bytes.
#[no_mangle]
pub unsafe extern "C" fn cenote_pool_trim(
    pool: cenote_pool_t,
    keep_bytes: u64,
    out: *mut cenote_trim_result,
) -> cenote_status {
    // SAFETY: the caller keeps the contract above.
    guard(|| unsafe { super::decode::pool_trim(pool, keep_bytes, out) })
}

/// Statistics of a pool.
/// Ownership: copied into `out`. Threads: any. Blocking: a short lock; collects finished frees
/// first.
/// Errors: CENOTE_E_NULL, CENOTE_E_STRUCT_SIZE, CENOTE_E_HANDLE. Since: 0.1.
///
/// # Safety
/// `out` is NULL or points to `struct_size` writable bytes.
#[no_mangle]
pub unsafe extern "C" fn cenote_pool_stats(
    pool: cenote_pool_t,
    out: *mut cenote_pool_stats_t,
) -> cenote_status {
    // SAFETY: the caller keeps the contract above.
    guard(|| unsafe { super::decode::pool_stats(pool, out) })
}

/// Set the peaks of a pool to the current values.
/// Threads: any. Blocking: a short lock. Errors: CENOTE_E_HANDLE. Since: 0.1.
#[no_mangle]
pub extern "C" fn cenote_pool_reset_peaks(pool: cenote_pool_t) -> cenote_status {
    guard(|| super::decode::pool_reset_peaks(pool))
}
