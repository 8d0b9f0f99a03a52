//! The device noun: count and facts.

use super::boundary::guard;
use super::types::*;

/// Number of devices the backend sees.
/// Ownership: written to `out`. Threads: any. Blocking: the first call opens the driver library.
/// Errors: CENOTE_E_NULL and those of cenote_runtime_info. Since: 0.1.
///
/// # Safety
/// `out` is NULL or writable.
#[no_mangle]
pub unsafe extern "C" fn cenote_device_count(out: *mut u32) -> cenote_status {
    // SAFETY: the caller keeps the contract above.
    guard(|| unsafe { super::decode::device_count(out) })
}

/// Facts of a device. Creates no context.
/// Ownership: copied into `out`. Threads: any. Blocking: asks the driver.
/// Errors: CENOTE_E_NULL, CENOTE_E_STRUCT_SIZE, CENOTE_E_DEVICE. Since: 0.1.
///
/// # Safety
/// `out` is NULL or points to `struct_size` writable bytes.
#[no_mangle]
pub unsafe extern "C" fn cenote_device_info(
    device: i32,
    out: *mut cenote_device_info_t,
) -> cenote_status {
    // SAFETY: the caller keeps the contract above.
    guard(|| unsafe { super::decode::device_info(device, out) })
}

/// Limit what this process may hold on a device, over all its pools. Lowering it below what is held
/// refuses growth; it takes nothing away.
/// Units: bytes; UINT64_MAX for no limit. Threads: any. Blocking: never.
/// Errors: CENOTE_E_DEVICE. Since: 0.1.
#[no_mangle]
pub extern "C" fn cenote_device_limit(device: i32, limit_bytes: u64) -> cenote_status {
    guard(|| crate::runtime::device_limit(device, limit_bytes))
}

/// Give back every idle page of every pool of a device (-1: of all devices). A device without a
/// pool is not an error.
/// Ownership: `out` may be NULL; else written. Order: frees whose work is not finished on the
/// device stay and are counted as pending. Threads: any.
/// Blocking: calls the driver to unmap and release; never waits for the device.
/// Errors: CENOTE_E_DEVICE, CENOTE_E_STRUCT_SIZE, CENOTE_E_CONTEXT_LOST. Since: 0.1.
///
/// # Safety
/// `out` is NULL or points to `struct_size` writable bytes.
#[no_mangle]
pub unsafe extern "C" fn cenote_empty_cache(
    device: i32,
    out: *mut cenote_trim_result,
) -> cenote_status {
    // SAFETY: the caller keeps the contract above.
    guard(|| unsafe { super::decode::empty_cache(device, out) })
}
