//! The stream noun: registration, retirement, told captures.

use super::boundary::guard;
use super::types::*;

/// Register a raw stream and promise things about it (CENOTE_STREAM_*), so that later calls ask the
/// driver nothing. Use the value returned in place of the raw handle.
/// Ownership: retire it with cenote_stream_retire before the stream is destroyed.
/// Threads: any. Blocking: asks the driver once.
/// Errors: CENOTE_E_NULL, CENOTE_E_FLAGS, CENOTE_E_DEVICE, CENOTE_E_STREAM for a value that is
/// itself registered, CENOTE_E_CONTEXT_LOST. Since: 0.1.
///
/// # Safety
/// `raw` is a live stream of the device; `out` is NULL or writable.
#[no_mangle]
pub unsafe extern "C" fn cenote_stream_register(
    device: i32,
    raw: cenote_stream_t,
    promises: u32,
    out: *mut cenote_stream_t,
) -> cenote_status {
    // SAFETY: the caller keeps the contract above.
    guard(|| unsafe { super::decode::stream_register(device, raw, promises, out) })
}

/// End a registration. Frees still open on the stream get their event now; the value is never valid
/// again.
/// Ownership: the raw stream stays the caller's and may be destroyed after this call.
/// Threads: any; no other call may use the value at the same time. Blocking: may record an event.
/// Errors: CENOTE_E_STREAM. Since: 0.1.
///
/// # Safety
/// The raw stream is still alive.
#[no_mangle]
pub unsafe extern "C" fn cenote_stream_retire(stream: cenote_stream_t) -> cenote_status {
    guard(|| crate::runtime::pools::retire(stream as u64))
}

/// Tell that a capture of a registered stream begins: allocations on it come from memory private to
/// the graph until cenote_capture_end.
/// Ownership: none. Threads: any. Blocking: never.
/// Errors: CENOTE_E_STREAM for a stream that did not promise CAPTURE_TOLD; CENOTE_E_CAPTURE if one
/// is already running. Since: 0.1.
///
/// # Safety
/// None: the value is only looked up.
#[no_mangle]
pub unsafe extern "C" fn cenote_capture_begin(stream: cenote_stream_t) -> cenote_status {
    guard(|| super::decode::capture_begin(stream as u64))
}

/// Tell that the capture has ended, or was aborted.
/// Ownership: the graph's private memory stays until cenote_graph_release of the id written to
/// `out`.
/// Threads: any. Blocking: never. Errors: CENOTE_E_NULL, CENOTE_E_STREAM, CENOTE_E_CAPTURE if none
/// is running. Since: 0.1.
///
/// # Safety
/// `out` is NULL or writable.
#[no_mangle]
pub unsafe extern "C" fn cenote_capture_end(
    stream: cenote_stream_t,
    out: *mut cenote_graph_t,
) -> cenote_status {
    // SAFETY: the caller keeps the contract above.
    guard(|| unsafe { super::decode::capture_end(stream, out) })
}

/// Release the private memory of a told capture, when its graph and every executable made from it
/// are destroyed. Blocks in it that are still live keep their memory until they are freed.
/// Ownership: the id is never valid again. Order: unfinished launches are waited for by event, not
/// by the host. Threads: any. Blocking: never waits.
/// Errors: CENOTE_E_GRAPH; CENOTE_E_CAPTURE while the capture still runs. Since: 0.1.
#[no_mangle]
pub extern "C" fn cenote_graph_release(graph: cenote_graph_t) -> cenote_status {
    guard(|| crate::runtime::pools::graph_release(graph))
}
