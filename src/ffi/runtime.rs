//! The runtime noun: version, options, errors, shutdown.

use super::boundary::guard;
use super::types::*;
use std::ffi::{c_char, c_void};

/// ABI generation of the library that is loaded; compare it with CENOTE_ABI_VERSION.
/// Threads: any. Blocking: never. Since: 0.1.
#[no_mangle]
pub extern "C" fn cenote_abi_version() -> u32 {
    CENOTE_ABI_VERSION
}

/// Version text, for example "0.1.0".
/// Ownership: static text. Threads: any. Blocking: never. Since: 0.1.
#[no_mangle]
pub extern "C" fn cenote_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Set an option by name, for example ("limit", "8GiB"); the options are those of
/// cenote_option_at. Each can also be given by an environment variable, CENOTE_ and its name in
/// capitals, which this call overrides.
/// Units: sizes as "8GiB", "500MB" (decimal), "50%" or an integer of bytes.
/// Ownership: both texts are copied. Threads: any. Blocking: never; calls no driver function.
/// Errors: CENOTE_E_NULL; CENOTE_E_OPTION for an unknown name; CENOTE_E_VALUE for a text that
/// cannot be read; CENOTE_E_CONFIGURED once the first pool exists.
/// Since: 0.1.
///
/// # Safety
/// Both pointers are NULL or NUL-terminated.
#[no_mangle]
pub unsafe extern "C" fn cenote_configure(
    name: *const c_char,
    value: *const c_char,
) -> cenote_status {
    // SAFETY: the caller keeps the contract above.
    guard(|| unsafe { super::decode::configure(name, value) })
}

/// Number of options.
/// Threads: any. Blocking: never. Since: 0.1.
#[no_mangle]
pub extern "C" fn cenote_option_count() -> u32 {
    crate::runtime::config::OPTIONS.len() as u32
}

/// The option at an index: name, effective value, its source and what it does.
/// Ownership: copied into `out`. Threads: any. Blocking: never.
/// Errors: CENOTE_E_NULL, CENOTE_E_STRUCT_SIZE; CENOTE_E_ARGUMENT for an index past the end.
/// Since: 0.1.
///
/// # Safety
/// `out` is NULL or points to `struct_size` writable bytes.
#[no_mangle]
pub unsafe extern "C" fn cenote_option_at(index: u32, out: *mut cenote_option_t) -> cenote_status {
    // SAFETY: the caller keeps the contract above.
    guard(|| unsafe { super::decode::option_at(index, out) })
}

/// What serves this process: starts the backend if none is running yet, but creates no device
/// context and takes no memory.
/// Ownership: copied into `out`. Threads: any. Blocking: the first call opens the driver library.
/// Errors: CENOTE_E_NULL, CENOTE_E_STRUCT_SIZE, CENOTE_E_NO_DRIVER, CENOTE_E_DRIVER_SYMBOL,
/// CENOTE_E_DRIVER_INIT, CENOTE_E_SECOND_COPY.
/// Since: 0.1.
///
/// # Safety
/// `out` is NULL or points to `struct_size` writable bytes.
#[no_mangle]
pub unsafe extern "C" fn cenote_runtime_info(out: *mut cenote_runtime_info_t) -> cenote_status {
    // SAFETY: the caller keeps the contract above.
    guard(|| unsafe { super::decode::runtime_info(out) })
}

/// Do what is due without an allocation: collect finished frees, give decayed pages back, release
/// the memory of graphs that are gone. Cheap if nothing is due.
/// Threads: any. Blocking: may call the driver to unmap and release; never waits for the device.
/// Errors: CENOTE_E_CONTEXT_LOST, CENOTE_E_FORKED, CENOTE_E_SHUTDOWN.
/// Since: 0.1.
#[no_mangle]
pub extern "C" fn cenote_poll() -> cenote_status {
    guard(crate::runtime::poll)
}

/// Give everything back and refuse further work with CENOTE_E_SHUTDOWN. Memory of live blocks is
/// given back too, after waiting for the device. Calling it is optional: a process may simply exit.
/// Threads: any; no other call may run at the same time. Blocking: waits for the device.
/// Errors: CENOTE_E_FORKED; driver errors are ignored, for the driver may be gone already.
/// Since: 0.1.
#[no_mangle]
pub extern "C" fn cenote_shutdown() -> cenote_status {
    guard(crate::runtime::shutdown)
}

/// C name of a status, for example "CENOTE_E_LIMIT"; "CENOTE_E_UNKNOWN" for a number this library
/// does not know.
/// Ownership: static text. Threads: any. Blocking: never. Since: 0.1.
#[no_mangle]
pub extern "C" fn cenote_status_name(status: cenote_status) -> *const c_char {
    match crate::base::Status::find(crate::base::Status(status)) {
        Some(entry) => entry.1.as_ptr().cast(),
        None => c"CENOTE_E_UNKNOWN".as_ptr(),
    }
}

/// Details of the last failed call on this thread; unchanged by calls that succeed.
/// Ownership: copied into `out`. Threads: the record is the calling thread's. Blocking: never.
/// Errors: CENOTE_E_NULL, CENOTE_E_STRUCT_SIZE (neither replaces the record).
/// Since: 0.1.
///
/// # Safety
/// `out` is NULL or points to `struct_size` writable bytes.
#[no_mangle]
pub unsafe extern "C" fn cenote_last_error(out: *mut cenote_error) -> cenote_status {
    // SAFETY: the caller keeps the contract above.
    unsafe { super::decode::last_error(out) }.0
}

/// Serve the process by a backend given as a table of functions, instead of CUDA or the host.
/// Ownership: the table is copied; the functions and `user` must live as long as the process.
/// Threads: before the first pool. Blocking: never.
/// Errors: CENOTE_E_NULL for the table or a required function; CENOTE_E_STRUCT_SIZE;
/// CENOTE_E_ARGUMENT for a device count or page size outside its range; CENOTE_E_CONFIGURED.
/// Since: 0.1.
///
/// # Safety
/// `table` is NULL or points to `struct_size` readable bytes; its functions keep their contracts.
#[no_mangle]
pub unsafe extern "C" fn cenote_backend_register(
    table: *const cenote_backend_vtable,
) -> cenote_status {
    // SAFETY: the caller keeps the contract above.
    guard(|| unsafe { super::decode::backend_register(table) })
}

/// Be told of every mapping change (NULL: no longer). One observer a process.
/// Ownership: `user` is the caller's and must live until the observer is replaced and running calls
/// have returned. Threads: any. Blocking: never.
/// Errors: none beyond the general ones. Since: 0.1.
///
/// # Safety
/// `observer` must be callable from any thread with `user`.
#[no_mangle]
pub unsafe extern "C" fn cenote_mapping_observe(
    observer: cenote_mapping_fn,
    user: *mut c_void,
) -> cenote_status {
    guard(|| super::decode::mapping_observe(observer, user))
}
