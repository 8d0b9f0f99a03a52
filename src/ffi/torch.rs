//! Entry points with the signatures that PyTorch's pluggable allocator calls.
//!
//! They use the default pool of the device given and raw streams. Failure is NULL, as PyTorch
//! expects inside a MemPool; a global allocator needs a shim that throws (see bindings/torch).

use super::boundary::{guard, guard_value};
use super::types::*;
use std::ffi::c_void;

/// PyTorch's allocation hook: `size_bytes` on `device` for `stream`.
/// Ownership: freed with cenote_torch_free. Order and Blocking: as cenote_alloc. Threads: any.
/// Errors: NULL; cenote_last_error has the cause. Size 0 gives NULL. Since: 0.1.
///
/// # Safety
/// `stream` is a live stream of the device.
#[no_mangle]
pub unsafe extern "C" fn cenote_torch_alloc(
    size_bytes: isize,
    device: i32,
    stream: cenote_stream_t,
) -> *mut c_void {
    guard_value(std::ptr::null_mut(), || super::decode::torch_alloc(size_bytes, device, stream))
}

/// PyTorch's free hook. NULL and size 0 are accepted.
/// Ownership: the block is the library's again. Order: as cenote_free. Threads: any. Since: 0.1.
///
/// # Safety
/// `ptr` came from cenote_torch_alloc or is NULL.
#[no_mangle]
pub unsafe extern "C" fn cenote_torch_free(
    ptr: *mut c_void,
    size_bytes: isize,
    device: i32,
    stream: cenote_stream_t,
) {
    let _ = (size_bytes, device);
    guard(|| super::decode::free(ptr, None, stream));
}

/// PyTorch's Tensor.record_stream hook.
/// Ownership: unchanged. Order: as cenote_block_record_stream. Threads: any. Since: 0.1.
///
/// # Safety
/// `stream` is a live stream.
#[no_mangle]
pub unsafe extern "C" fn cenote_torch_record_stream(ptr: *mut c_void, stream: cenote_stream_t) {
    guard(|| super::decode::torch_record_stream(ptr, stream));
}

/// PyTorch's torch.cuda.empty_cache hook: empties every default pool.
/// Threads: any. Blocking: as cenote_empty_cache. Since: 0.1.
#[no_mangle]
pub extern "C" fn cenote_torch_reset() {
    guard(super::decode::torch_reset);
}

/// PyTorch's set_per_process_memory_fraction hook: limits the device to a share of its total
/// memory.
/// Threads: any. Blocking: never. Errors: a fraction outside 0 to 1 is ignored; cenote_last_error
/// says so.
/// Since: 0.1.
#[no_mangle]
pub extern "C" fn cenote_torch_memory_fraction(fraction: f64, device: i32) {
    guard(|| super::decode::torch_memory_fraction(fraction, device));
}

/// PyTorch's base-allocation hook: start of the block that contains `ptr`, its size to
/// `size_bytes`.
/// Ownership: `size_bytes` may be NULL. Threads: any. Errors: NULL for a foreign address. Since:
/// 0.1.
///
/// # Safety
/// `size_bytes` is NULL or writable.
#[no_mangle]
pub unsafe extern "C" fn cenote_torch_base_alloc(
    ptr: *mut c_void,
    size_bytes: *mut usize,
) -> *mut c_void {
    // SAFETY: the caller keeps the contract above.
    guard_value(std::ptr::null_mut(), || unsafe {
        super::decode::torch_base_alloc(ptr, size_bytes)
    })
}
