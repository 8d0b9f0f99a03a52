//! Reading what C gives and writing what C gets: pointers, structs of any size, texts.

use super::boundary::{copy_text, last};
use super::types::*;
use crate::base::{Error, Result, Status};
use crate::pool::alloc::{self, Request};
use crate::pool::trim::Trimmed;
use crate::runtime::{self, config, pools};
use std::ffi::{c_char, c_void, CStr};
use std::mem::{size_of, MaybeUninit};

const NULL: Error = Error::new(Status::E_NULL, "pointer argument");
const STRUCT: Error = Error::new(Status::E_STRUCT_SIZE, "struct_size");
/// A struct may be longer than this library knows, but not absurdly so.
const STRUCT_MAX: usize = 1 << 16;

/// Read a struct: a shorter one gets zeros for what it lacks, a longer one must have a zero tail.
///
/// # Safety
/// `from` is NULL or points to `struct_size` readable bytes, its first four being that size.
unsafe fn read<T: Copy>(from: *const T) -> Result<T> {
    if from.is_null() {
        return Err(NULL);
    }
    // SAFETY: the caller gives at least the size field.
    let given = unsafe { from.cast::<u32>().read_unaligned() } as usize;
    if given < size_of::<u32>() * 2 || given > STRUCT_MAX {
        return Err(STRUCT);
    }
    let known = given.min(size_of::<T>());
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: `given` bytes are readable; at most size_of::<T>() are copied. All T here are plain
    // integers, arrays of them, or nullable pointers, for which zero bytes are valid.
    unsafe {
        std::ptr::copy_nonoverlapping(from.cast::<u8>(), value.as_mut_ptr().cast(), known);
        let tail = std::slice::from_raw_parts(from.cast::<u8>().add(known), given - known);
        if tail.iter().any(|&b| b != 0) {
            return Err(STRUCT);
        }
        Ok(value.assume_init())
    }
}

/// Write a struct: as much as the caller has room for. The size field becomes what was written; a
/// longer struct's tail is zeroed.
///
/// # Safety
/// `to` is NULL or points to `struct_size` writable bytes, its first four being that size.
unsafe fn write<T: Copy>(to: *mut T, value: T) -> Result<()> {
    if to.is_null() {
        return Err(NULL);
    }
    // SAFETY: the caller gives at least the size field.
    let given = unsafe { to.cast::<u32>().read_unaligned() } as usize;
    if given < size_of::<u32>() * 2 || given > STRUCT_MAX {
        return Err(STRUCT);
    }
    let known = given.min(size_of::<T>());
    // SAFETY: `given` bytes are writable, and T is plain data.
    unsafe {
        std::ptr::copy_nonoverlapping(std::ptr::from_ref(&value).cast::<u8>(), to.cast(), known);
        to.cast::<u8>().add(known).write_bytes(0, given - known);
        to.cast::<u32>().write_unaligned(known as u32);
    }
    Ok(())
}

/// Check an out-struct before work is done for it.
unsafe fn check_out<T>(to: *const T) -> Result<()> {
    if to.is_null() {
        return Err(NULL);
    }
    // SAFETY: the caller gives at least the size field.
    let given = unsafe { to.cast::<u32>().read_unaligned() } as usize;
    if given < size_of::<u32>() * 2 || given > STRUCT_MAX {
        return Err(STRUCT);
    }
    Ok(())
}

unsafe fn text<'a>(from: *const c_char) -> Result<&'a str> {
    if from.is_null() {
        return Err(NULL);
    }
    // SAFETY: the caller gives a NUL-terminated text.
    unsafe { CStr::from_ptr(from) }
        .to_str()
        .map_err(|_| Error::new(Status::E_VALUE, "text is not UTF-8"))
}

fn zeroed<T: Copy>() -> T {
    // SAFETY: used for the plain-data structs of `types` only.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

pub(super) unsafe fn configure(name: *const c_char, value: *const c_char) -> Result<()> {
    // SAFETY: both are NULL or NUL-terminated, as the header demands.
    let (name, value) = unsafe { (text(name)?, text(value)?) };
    runtime::configure(name, value)
}

pub(super) unsafe fn option_at(index: u32, out: *mut cenote_option_t) -> Result<()> {
    let spec = config::OPTIONS
        .get(index as usize)
        .ok_or(Error::new(Status::E_ARGUMENT, "option index"))?;
    let (value, source) = config::get(spec.name)?;
    let mut option: cenote_option_t = zeroed();
    option.source = source as u32;
    copy_text(spec.name, &mut option.name);
    copy_text(&value, &mut option.value);
    copy_text(spec.help, &mut option.help);
    // SAFETY: the header demands a writable struct or NULL.
    unsafe { write(out, option) }
}

pub(super) unsafe fn runtime_info(out: *mut cenote_runtime_info_t) -> Result<()> {
    // SAFETY: the header demands a writable struct or NULL.
    unsafe { check_out(out)? };
    let runtime = runtime::runtime()?;
    let mut info: cenote_runtime_info_t = zeroed();
    info.abi_version = CENOTE_ABI_VERSION;
    info.backend = runtime.backend.kind() as u32;
    info.driver_version = runtime.backend.driver_version();
    info.device_count = runtime.backend.device_count();
    // SAFETY: as above.
    unsafe { write(out, info) }
}

pub(super) unsafe fn last_error(out: *mut cenote_error) -> Status {
    let mut error: cenote_error = zeroed();
    last(&mut error);
    // SAFETY: the header demands a writable struct or NULL.
    unsafe { write(out, error) }.map_or_else(|e| e.status, |()| Status::OK)
}

pub(super) unsafe fn backend_register(table: *const cenote_backend_vtable) -> Result<()> {
    // SAFETY: the header demands a readable struct or NULL.
    runtime::register_backend(unsafe { read(table)? })
}

struct User(*mut c_void);
// SAFETY: the header demands that `user` may be used from any thread.
unsafe impl Send for User {}
// SAFETY: as above.
unsafe impl Sync for User {}

pub(super) fn mapping_observe(observer: cenote_mapping_fn, user: *mut c_void) -> Result<()> {
    runtime::check_gate()?;
    let Some(call) = observer else {
        pools::set_observer(None);
        return Ok(());
    };
    let user = User(user);
    pools::set_observer(Some(Box::new(move |mapped, device, base, size_bytes, handle| {
        let user = &user;
        let event = cenote_mapping_event {
            struct_size: size_of::<cenote_mapping_event>() as u32,
            mapped: u32::from(mapped),
            device: device as i32,
            reserved: 0,
            base,
            size_bytes,
            handle,
        };
        // SAFETY: the caller promised a function that may be called from any thread.
        unsafe { call(&event, user.0) };
    })));
    Ok(())
}

pub(super) unsafe fn device_count(out: *mut u32) -> Result<()> {
    // SAFETY: the header demands a writable integer or NULL.
    let out = unsafe { out.as_mut() }.ok_or(NULL)?;
    *out = runtime::runtime()?.backend.device_count();
    Ok(())
}

pub(super) unsafe fn device_info(device: i32, out: *mut cenote_device_info_t) -> Result<()> {
    // SAFETY: the header demands a writable struct or NULL.
    unsafe { check_out(out)? };
    let runtime = runtime::runtime()?;
    let device = runtime.device(device)?;
    let info = runtime.backend.device_info(device)?;
    let mut result: cenote_device_info_t = zeroed();
    result.compute_capability = info.compute_capability;
    result.total_bytes = info.total_bytes;
    result.free_bytes = runtime.backend.mem_info(device).map_or(u64::MAX, |m| m.free_bytes);
    result.page_bytes = info.page_bytes;
    result.limit_bytes = runtime.ledger(device).limit();
    result.host_visible = u32::from(info.caps.host_visible);
    result.export_fd = u32::from(info.caps.export_fd);
    result.rdma = u32::from(info.caps.rdma);
    result.virtual_memory = u32::from(info.caps.virtual_memory);
    copy_text(&info.name, &mut result.name);
    copy_text(&info.uuid, &mut result.uuid);
    // SAFETY: as above.
    unsafe { write(out, result) }
}

pub(super) unsafe fn empty_cache(device: i32, out: *mut cenote_trim_result) -> Result<()> {
    if !out.is_null() {
        // SAFETY: the header demands a writable struct or NULL.
        unsafe { check_out(out)? };
    }
    let runtime = runtime::runtime()?;
    let device = if device == -1 { None } else { Some(runtime.device(device)?) };
    let trimmed = pools::empty_cache(device)?;
    // SAFETY: as above.
    unsafe { write_trimmed(out, trimmed) }
}

unsafe fn write_trimmed(out: *mut cenote_trim_result, trimmed: Trimmed) -> Result<()> {
    if out.is_null() {
        return Ok(());
    }
    let mut result: cenote_trim_result = zeroed();
    result.returned_bytes = trimmed.returned;
    result.pending_bytes = trimmed.pending;
    result.kept_bytes = trimmed.kept;
    // SAFETY: not NULL, checked by the callers' header contract.
    unsafe { write(out, result) }
}

pub(super) unsafe fn pool_create(desc: *const cenote_pool_desc, out: *mut u64) -> Result<()> {
    // SAFETY: the header demands a writable handle or NULL.
    let out = unsafe { out.as_mut() }.ok_or(NULL)?;
    // SAFETY: the header demands a readable struct or NULL.
    let given = unsafe { read(desc)? };
    if given.kind > CENOTE_KIND_HOST {
        return Err(Error::new(Status::E_ARGUMENT, "kind"));
    }
    if given.flags & !CENOTE_POOL_STABLE != 0 {
        return Err(Error::new(Status::E_FLAGS, "flags of cenote_pool_desc"));
    }
    let runtime = runtime::runtime()?;
    let device = if given.kind == CENOTE_KIND_HOST { 0 } else { runtime.device(given.device)? };
    let mut desc = pools::desc(given.kind, device)?;
    desc.stable = given.flags & CENOTE_POOL_STABLE != 0;
    if given.limit_bytes != 0 {
        desc.limit_bytes = given.limit_bytes;
    }
    match given.slack_ppm {
        0 => {}
        CENOTE_SLACK_AUTO => {
            desc.slack_ppm = crate::pool::SLACK_AUTO_PPM;
            desc.slack_is_auto = true;
        }
        ppm => {
            desc.slack_ppm = ppm;
            desc.slack_is_auto = false;
        }
    }
    match given.decay_ms {
        0 => {}
        CENOTE_DECAY_OFF => desc.decay_ms = None,
        ms => desc.decay_ms = Some(ms),
    }
    let name: Vec<u8> = given.name.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
    desc.name = String::from_utf8_lossy(&name).into_owned();
    *out = pools::create(desc, given.initial_bytes)?;
    Ok(())
}

pub(super) unsafe fn pool_default(device: i32, out: *mut u64) -> Result<()> {
    // SAFETY: the header demands a writable handle or NULL.
    let out = unsafe { out.as_mut() }.ok_or(NULL)?;
    let runtime = runtime::runtime()?;
    *out = pools::default_of(runtime, runtime.device(device)?)?;
    Ok(())
}

pub(super) unsafe fn pool_trim(pool: u64, keep: u64, out: *mut cenote_trim_result) -> Result<()> {
    if !out.is_null() {
        // SAFETY: the header demands a writable struct or NULL.
        unsafe { check_out(out)? };
    }
    let trimmed = pools::named(pool)?.trim(keep)?;
    // SAFETY: as above.
    unsafe { write_trimmed(out, trimmed) }
}

pub(super) unsafe fn pool_stats(pool: u64, out: *mut cenote_pool_stats_t) -> Result<()> {
    use std::sync::atomic::Ordering::Relaxed;
    // SAFETY: the header demands a writable struct or NULL.
    unsafe { check_out(out)? };
    let (pool, stats) = pools::stats(pool)?;
    let mut s: cenote_pool_stats_t = zeroed();
    s.untrusted = u32::from(pool.backend.sticky().is_some());
    s.live_bytes = stats.heap.live_bytes;
    s.used_bytes = stats.heap.used_bytes;
    s.pending_bytes = stats.pending_bytes;
    s.cached_bytes =
        stats.heap.held_bytes.saturating_sub(stats.heap.used_bytes + stats.pending_bytes);
    s.held_bytes = stats.heap.held_bytes;
    s.reserved_bytes = stats.heap.reserved_bytes;
    s.peak_live_bytes = stats.heap.peak_live_bytes;
    s.peak_held_bytes = stats.heap.peak_held_bytes;
    s.largest_free_bytes = stats.largest_free_bytes;
    s.live_blocks = stats.heap.live_blocks;
    s.alloc_count = stats.heap.allocs;
    s.free_count = stats.heap.frees;
    s.driver_create_count = pool.driver.create.load(Relaxed);
    s.driver_map_count = pool.driver.map.load(Relaxed);
    s.driver_access_count = pool.driver.access.load(Relaxed);
    s.driver_unmap_count = pool.driver.unmap.load(Relaxed);
    s.driver_release_count = pool.driver.release.load(Relaxed);
    s.driver_time_ns = pool.driver.time_ns.load(Relaxed);
    (s.event_record_count, s.event_query_count) = stats.events;
    s.retry_count = pool.retries.load(Relaxed);
    s.oom_count = pool.ooms.load(Relaxed);
    s.takeover_count = stats.heap.takeovers;
    // SAFETY: as above.
    unsafe { write(out, s) }
}

pub(super) fn pool_reset_peaks(pool: u64) -> Result<()> {
    pools::named(pool)?.reset_peaks();
    Ok(())
}

#[inline]
pub(super) unsafe fn alloc(
    pool: u64,
    size: u64,
    align: u64,
    flags: u32,
    stream: *mut c_void,
    out: *mut *mut c_void,
) -> Result<()> {
    // SAFETY: the header demands a writable pointer or NULL.
    let out = unsafe { out.as_mut() }.ok_or(NULL)?;
    let request = Request::new(size, align, flags)?;
    if size == 0 {
        runtime::check_gate()?;
        *out = std::ptr::null_mut();
        return Ok(());
    }
    *out = pools::alloc(pool, request, stream as u64)? as *mut c_void;
    Ok(())
}

pub(super) unsafe fn alloc_ex(
    pool: u64,
    desc: *const cenote_alloc_desc,
    stream: *mut c_void,
    out: *mut *mut c_void,
) -> Result<()> {
    // SAFETY: the header demands a readable struct or NULL.
    let desc = unsafe { read(desc)? };
    if desc.flags & !(alloc::NOWAIT | alloc::NO_GROW | alloc::NO_CROSS_STREAM) != 0 {
        return Err(Error::new(Status::E_FLAGS, "flags of cenote_alloc_desc"));
    }
    // SAFETY: as for `alloc`.
    unsafe { self::alloc(pool, desc.size_bytes, desc.align_bytes, desc.flags, stream, out) }
}

#[inline]
pub(super) fn free(ptr: *mut c_void, expected: Option<u64>, stream: *mut c_void) -> Result<()> {
    if ptr.is_null() {
        return Ok(());
    }
    pools::free(ptr as u64, expected, stream as u64)
}

pub(super) unsafe fn block_info(ptr: *const c_void, out: *mut cenote_block_info_t) -> Result<()> {
    // SAFETY: the header demands a writable struct or NULL.
    unsafe { check_out(out)? };
    let (handle, pool, facts) = pools::block(ptr as u64)?;
    let mut info: cenote_block_info_t = zeroed();
    info.kind = pool.desc.kind;
    info.device = pool.desc.device as i32;
    info.pin_count = facts.pins;
    info.pool = handle;
    info.base = facts.base;
    info.offset_bytes = ptr as u64 - facts.base;
    info.requested_bytes = facts.requested;
    info.usable_bytes = facts.usable;
    info.host_ptr =
        if pool.host_visible { facts.base as *mut c_void } else { std::ptr::null_mut() };
    (info.reservation_base, info.reservation_bytes) = facts.reservation;
    info.segment_count = facts.segments.len() as u32;
    info.captured = u32::from(facts.captured);
    // SAFETY: as above.
    unsafe { write(out, info) }
}

pub(super) unsafe fn block_segments(
    ptr: *const c_void,
    out: *mut cenote_segment_t,
    count: *mut u32,
) -> Result<()> {
    // SAFETY: the header demands a writable integer or NULL.
    let count = unsafe { count.as_mut() }.ok_or(NULL)?;
    let room = *count as usize;
    if out.is_null() && room > 0 {
        return Err(NULL);
    }
    let (_, _, facts) = pools::block(ptr as u64)?;
    *count = facts.segments.len() as u32;
    if room < facts.segments.len() {
        return Err(Error::new(Status::E_ARGUMENT, "room for segments"));
    }
    for (i, (base, size_bytes, handle)) in facts.segments.into_iter().enumerate() {
        // SAFETY: the caller has room for `room` entries, and `i` is below it.
        unsafe { out.add(i).write(cenote_segment_t { base, size_bytes, handle }) };
    }
    Ok(())
}

pub(super) unsafe fn stream_register(
    device: i32,
    raw: *mut c_void,
    promises: u32,
    out: *mut *mut c_void,
) -> Result<()> {
    // SAFETY: the header demands a writable pointer or NULL.
    let out = unsafe { out.as_mut() }.ok_or(NULL)?;
    let runtime = runtime::runtime()?;
    let device = runtime.device(device)?;
    runtime.backend.activate(device)?;
    let value = runtime.streams.register(runtime.backend, device, raw as u64, promises)?;
    *out = value as *mut c_void;
    Ok(())
}

pub(super) fn capture_begin(stream: u64) -> Result<()> {
    pools::capture_begin(stream)
}

pub(super) unsafe fn capture_end(stream: *mut c_void, out: *mut u64) -> Result<()> {
    // SAFETY: the header demands a writable integer or NULL.
    let out = unsafe { out.as_mut() }.ok_or(NULL)?;
    *out = pools::capture_end(stream as u64)?;
    Ok(())
}

fn torch_pool(device: i32) -> Result<u64> {
    let runtime = runtime::runtime()?;
    pools::default_of(runtime, runtime.device(device)?)
}

pub(super) fn torch_alloc(size: isize, device: i32, stream: *mut c_void) -> Result<*mut c_void> {
    let size = u64::try_from(size).map_err(|_| Error::new(Status::E_SIZE, "negative size"))?;
    if size == 0 {
        return Ok(std::ptr::null_mut());
    }
    let request = Request::new(size, 0, 0)?;
    Ok(pools::alloc(torch_pool(device)?, request, stream as u64)? as *mut c_void)
}

pub(super) fn torch_record_stream(ptr: *mut c_void, stream: *mut c_void) -> Result<()> {
    if ptr.is_null() {
        return Ok(());
    }
    // Views record their own start: the block is the one that contains it.
    let (_, _, facts) = pools::block(ptr as u64)?;
    pools::record_use(facts.base, stream as u64)
}

pub(super) fn torch_reset() -> Result<()> {
    pools::empty_cache(None).map(|_| ())
}

pub(super) fn torch_memory_fraction(fraction: f64, device: i32) -> Result<()> {
    if !(0.0..=1.0).contains(&fraction) {
        return Err(Error::new(Status::E_ARGUMENT, "fraction outside 0 to 1"));
    }
    let runtime = runtime::runtime()?;
    let device = runtime.device(device)?;
    let total = runtime.backend.device_info(device)?.total_bytes;
    runtime.ledger(device).set_limit((total as f64 * fraction) as u64);
    Ok(())
}

pub(super) unsafe fn torch_base_alloc(
    ptr: *mut c_void,
    size_bytes: *mut usize,
) -> Result<*mut c_void> {
    let (_, _, facts) = pools::block(ptr as u64)?;
    // SAFETY: the header demands a writable integer or NULL.
    if let Some(out) = unsafe { size_bytes.as_mut() } {
        *out = facts.usable as usize;
    }
    Ok(facts.base as *mut c_void)
}
