//! The block noun: allocation, free by address, facts, pins and recorded uses.

use super::boundary::guard;
use super::types::*;
use std::ffi::c_void;

/// Allocate a block in stream order, aligned to 512 bytes.
/// Units: bytes; 0 gives CENOTE_OK and NULL.
/// Ownership: the caller frees it with cenote_free, from any thread and in any language.
/// Order: usable at once by work queued on `stream`; other streams must wait for `stream` first.
/// Memory freed earlier on the same stream may be returned while its last use still runs there.
/// Threads: any. Blocking: a miss may call the driver; waits for the device only before it would
/// fail.
/// Errors: `out` is untouched on failure. CENOTE_E_NULL, CENOTE_E_HANDLE, CENOTE_E_SIZE,
/// CENOTE_E_STREAM, CENOTE_E_OUT_OF_MEMORY, CENOTE_E_LIMIT, CENOTE_E_ADDRESS_SPACE,
/// CENOTE_E_CONTEXT_LOST, CENOTE_E_FORKED, CENOTE_E_SHUTDOWN, CENOTE_E_SECOND_COPY,
/// CENOTE_E_REENTRANT, the start-up errors.
/// Since: 0.1.
///
/// # Safety
/// `out` is NULL or writable; a raw `stream` is a live stream.
#[no_mangle]
pub unsafe extern "C" fn cenote_alloc(
    pool: cenote_pool_t,
    size_bytes: u64,
    stream: cenote_stream_t,
    out: *mut *mut c_void,
) -> cenote_status {
    // SAFETY: the caller keeps the contract above.
    guard(|| unsafe { super::decode::alloc(pool, size_bytes, 0, 0, stream, out) })
}

/// Allocate with an alignment: a power of two up to 2 MiB (0 for the default).
/// Otherwise as cenote_alloc. Ownership, Order, Threads and Blocking are those of cenote_alloc.
/// Errors: also CENOTE_E_ALIGNMENT. Since: 0.1.
///
/// # Safety
/// As cenote_alloc.
#[no_mangle]
pub unsafe extern "C" fn cenote_alloc_aligned(
    pool: cenote_pool_t,
    size_bytes: u64,
    align_bytes: u64,
    stream: cenote_stream_t,
    out: *mut *mut c_void,
) -> cenote_status {
    // SAFETY: the caller keeps the contract above.
    guard(|| unsafe { super::decode::alloc(pool, size_bytes, align_bytes, 0, stream, out) })
}

/// Allocate with flags (CENOTE_ALLOC_*).
/// Otherwise as cenote_alloc. Ownership, Order and Threads are those of cenote_alloc.
/// Blocking: never waits for the device under CENOTE_ALLOC_NOWAIT.
/// Errors: also CENOTE_E_STRUCT_SIZE, CENOTE_E_FLAGS, CENOTE_E_ALIGNMENT, CENOTE_E_WOULD_BLOCK,
/// CENOTE_E_WOULD_GROW. Since: 0.1.
///
/// # Safety
/// `desc` is NULL or points to `struct_size` readable bytes; otherwise as cenote_alloc.
#[no_mangle]
pub unsafe extern "C" fn cenote_alloc_ex(
    pool: cenote_pool_t,
    desc: *const cenote_alloc_desc,
    stream: cenote_stream_t,
    out: *mut *mut c_void,
) -> cenote_status {
    // SAFETY: the caller keeps the contract above.
    guard(|| unsafe { super::decode::alloc_ex(pool, desc, stream, out) })
}

/// Free a block by its address; its pool and device are found.
/// Ownership: the address is the library's again. NULL is CENOTE_OK.
/// Order: the memory may serve later allocations on `stream` at once, and others when all work
/// queued on `stream` so far, and every recorded use, is finished. A NULL stream is the legacy
/// default stream.
/// Threads: any, whatever device is current. Blocking: never waits; may record one event for a
/// batch.
/// Errors: CENOTE_E_FOREIGN_POINTER, CENOTE_E_INTERIOR_POINTER, CENOTE_E_DOUBLE_FREE,
/// CENOTE_E_STREAM, CENOTE_E_PINNED, CENOTE_E_CONTEXT_LOST, CENOTE_E_FORKED, CENOTE_E_SHUTDOWN; the
/// state stays intact.
/// Since: 0.1.
///
/// # Safety
/// A raw `stream` is a live stream.
#[no_mangle]
pub unsafe extern "C" fn cenote_free(ptr: *mut c_void, stream: cenote_stream_t) -> cenote_status {
    guard(|| super::decode::free(ptr, None, stream))
}

/// Free a block and check the size it was allocated with.
/// Units: bytes, exactly those asked for. Ownership, Order, Threads and Blocking are those of
/// cenote_free.
/// Errors: also CENOTE_E_SIZE_MISMATCH (the block stays live). Since: 0.1.
///
/// # Safety
/// As cenote_free.
#[no_mangle]
pub unsafe extern "C" fn cenote_free_sized(
    ptr: *mut c_void,
    size_bytes: u64,
    stream: cenote_stream_t,
) -> cenote_status {
    guard(|| super::decode::free(ptr, Some(size_bytes), stream))
}

/// Facts of the live block that contains an address (its start or any byte inside).
/// Ownership: copied into `out`. Threads: any. Blocking: a short lock.
/// Errors: CENOTE_E_NULL, CENOTE_E_STRUCT_SIZE, CENOTE_E_FOREIGN_POINTER, CENOTE_E_DOUBLE_FREE for
/// an address in a free block. Since: 0.1.
///
/// # Safety
/// `out` is NULL or points to `struct_size` writable bytes.
#[no_mangle]
pub unsafe extern "C" fn cenote_block_info(
    ptr: *const c_void,
    out: *mut cenote_block_info_t,
) -> cenote_status {
    // SAFETY: the caller keeps the contract above.
    guard(|| unsafe { super::decode::block_info(ptr, out) })
}

/// The physical handles under a block, in address order. They stay the block's until it is freed.
/// Ownership: up to *count entries are written to `out`; *count becomes the number there are.
/// Threads: any. Blocking: a short lock.
/// Errors: as cenote_block_info; CENOTE_E_ARGUMENT if *count was too small (it is set all the
/// same).
/// Since: 0.1.
///
/// # Safety
/// `count` is NULL or writable; `out` has room for *count entries or is NULL with *count 0.
#[no_mangle]
pub unsafe extern "C" fn cenote_block_segments(
    ptr: *const c_void,
    out: *mut cenote_segment_t,
    count: *mut u32,
) -> cenote_status {
    // SAFETY: the caller keeps the contract above.
    guard(|| unsafe { super::decode::block_segments(ptr, out, count) })
}

/// Pin a block: it cannot be freed, and its pages keep their physical memory, until it is unpinned
/// as often as it was pinned.
/// Ownership: unchanged. Threads: any. Blocking: a short lock.
/// Errors: CENOTE_E_FOREIGN_POINTER, CENOTE_E_INTERIOR_POINTER, CENOTE_E_DOUBLE_FREE. Since: 0.1.
///
/// # Safety
/// None: the address is only looked up.
#[no_mangle]
pub unsafe extern "C" fn cenote_block_pin(ptr: *mut c_void) -> cenote_status {
    guard(|| crate::runtime::pools::pin(ptr as u64, true))
}

/// Undo one cenote_block_pin.
/// Ownership: unchanged. Threads: any. Blocking: a short lock.
/// Errors: as cenote_block_pin; CENOTE_E_ARGUMENT if the block is not pinned. Since: 0.1.
///
/// # Safety
/// None: the address is only looked up.
#[no_mangle]
pub unsafe extern "C" fn cenote_block_unpin(ptr: *mut c_void) -> cenote_status {
    guard(|| crate::runtime::pools::pin(ptr as u64, false))
}

/// Say that a block is used on another stream too: after it is freed, it is reused only when the
/// work queued on that stream up to the free (or up to cenote_block_use_end) is finished.
/// Ownership: unchanged. Order: see above. Threads: any. Blocking: never waits.
/// Errors: as cenote_block_pin; CENOTE_E_STREAM. Since: 0.1.
///
/// # Safety
/// A raw `stream` is a live stream.
#[no_mangle]
pub unsafe extern "C" fn cenote_block_record_stream(
    ptr: *mut c_void,
    stream: cenote_stream_t,
) -> cenote_status {
    guard(|| crate::runtime::pools::record_use(ptr as u64, stream as u64))
}

/// Say that a recorded use has ended: work queued on the stream after this call does not touch the
/// block.
/// Ownership: unchanged. Order: the use ends at this point of `stream`. Threads: any.
/// Blocking: records one event; never waits.
/// Errors: as cenote_block_pin; CENOTE_E_NOT_RECORDED; CENOTE_E_CAPTURE while the stream is
/// captured.
/// Since: 0.1.
///
/// # Safety
/// A raw `stream` is a live stream.
#[no_mangle]
pub unsafe extern "C" fn cenote_block_use_end(
    ptr: *mut c_void,
    stream: cenote_stream_t,
) -> cenote_status {
    guard(|| crate::runtime::pools::end_use(ptr as u64, stream as u64))
}
