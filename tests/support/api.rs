//! The C ABI as tests call it from Rust: integers for addresses, statuses as results.

#![allow(dead_code, reason = "each test uses a part")]

use cenote::base::Status;
use cenote::ffi::types::*;
use cenote::ffi::{block, device, pool, runtime, stream};
use std::ffi::{c_void, CString};

/// What a call answers.
pub type Answer<T = ()> = Result<T, Status>;

/// One MiB.
pub const MIB: u64 = 1 << 20;
/// One GiB.
pub const GIB: u64 = 1 << 30;
/// The default pool of the current device.
pub const DEFAULT: u64 = CENOTE_DEFAULT_POOL;

fn answer(code: i32) -> Answer {
    match code {
        0 => Ok(()),
        code => Err(Status(code)),
    }
}

fn ptr(value: u64) -> *mut c_void {
    value as *mut c_void
}

/// A struct of zeros whose `struct_size` is right.
pub fn sized<T: Copy>() -> T {
    // SAFETY: used for the plain structs of the ABI, which begin with their size as a u32 and for
    // which zero bytes are valid.
    unsafe {
        let mut value = std::mem::zeroed::<T>();
        std::ptr::from_mut(&mut value).cast::<u32>().write(size_of::<T>() as u32);
        value
    }
}

/// Allocate on a stream.
pub fn alloc(pool: u64, size: u64, stream: u64) -> Answer<u64> {
    let mut out = std::ptr::null_mut();
    // SAFETY: `out` is writable; tests pass live streams.
    answer(unsafe { block::cenote_alloc(pool, size, ptr(stream), &mut out) })?;
    Ok(out as u64)
}

/// Allocate with an alignment.
pub fn alloc_aligned(pool: u64, size: u64, align: u64, stream: u64) -> Answer<u64> {
    let mut out = std::ptr::null_mut();
    // SAFETY: as for `alloc`.
    answer(unsafe { block::cenote_alloc_aligned(pool, size, align, ptr(stream), &mut out) })?;
    Ok(out as u64)
}

/// Allocate with flags.
pub fn alloc_flags(pool: u64, size: u64, flags: u32, stream: u64) -> Answer<u64> {
    alloc_with(pool, size, 0, flags, stream)
}

/// Allocate with an alignment and flags.
pub fn alloc_with(pool: u64, size: u64, align: u64, flags: u32, stream: u64) -> Answer<u64> {
    let desc = cenote_alloc_desc { flags, size_bytes: size, align_bytes: align, ..sized() };
    let mut out = std::ptr::null_mut();
    // SAFETY: as for `alloc`.
    answer(unsafe { block::cenote_alloc_ex(pool, &desc, ptr(stream), &mut out) })?;
    Ok(out as u64)
}

/// Free on a stream.
pub fn free(addr: u64, stream: u64) -> Answer {
    // SAFETY: any address may be given; tests pass live streams.
    answer(unsafe { block::cenote_free(ptr(addr), ptr(stream)) })
}

/// Free and check the size.
pub fn free_sized(addr: u64, size: u64, stream: u64) -> Answer {
    // SAFETY: as for `free`.
    answer(unsafe { block::cenote_free_sized(ptr(addr), size, ptr(stream)) })
}

/// Record a use on a stream.
pub fn record(addr: u64, stream: u64) -> Answer {
    // SAFETY: as for `free`.
    answer(unsafe { block::cenote_block_record_stream(ptr(addr), ptr(stream)) })
}

/// End a recorded use.
pub fn use_end(addr: u64, stream: u64) -> Answer {
    // SAFETY: as for `free`.
    answer(unsafe { block::cenote_block_use_end(ptr(addr), ptr(stream)) })
}

/// Pin a block, or undo it.
pub fn pin(addr: u64, up: bool) -> Answer {
    let call = if up { block::cenote_block_pin } else { block::cenote_block_unpin };
    // SAFETY: the address is only looked up.
    answer(unsafe { call(ptr(addr)) })
}

/// Facts of a block.
pub fn info(addr: u64) -> Answer<cenote_block_info_t> {
    let mut out = sized();
    // SAFETY: `out` has its size.
    answer(unsafe { block::cenote_block_info(ptr(addr), &mut out) })?;
    Ok(out)
}

/// A pool made of a description that the caller fills.
pub fn pool_of(fill: impl FnOnce(&mut cenote_pool_desc)) -> Answer<u64> {
    let mut desc: cenote_pool_desc = sized();
    fill(&mut desc);
    let mut out = 0;
    // SAFETY: both are valid.
    answer(unsafe { pool::cenote_pool_create(&desc, &mut out) })?;
    Ok(out)
}

/// A pool of the current device with a limit.
pub fn pool_limited(limit_bytes: u64) -> u64 {
    let made = pool_of(|desc| {
        desc.device = -1;
        desc.limit_bytes = limit_bytes;
    });
    made.expect("a pool")
}

/// Destroy a pool.
pub fn destroy(pool: u64) -> Answer {
    answer(pool::cenote_pool_destroy(pool))
}

/// The default pool of a device.
pub fn default_pool(device: i32) -> Answer<u64> {
    let mut out = 0;
    // SAFETY: `out` is writable.
    answer(unsafe { pool::cenote_pool_default(device, &mut out) })?;
    Ok(out)
}

/// Trim a pool.
pub fn trim(pool: u64, keep: u64) -> Answer<cenote_trim_result> {
    let mut out = sized();
    // SAFETY: `out` has its size.
    answer(unsafe { pool::cenote_pool_trim(pool, keep, &mut out) })?;
    Ok(out)
}

/// Empty the caches of a device.
pub fn empty_cache(device: i32) -> Answer<cenote_trim_result> {
    let mut out = sized();
    // SAFETY: `out` has its size.
    answer(unsafe { device::cenote_empty_cache(device, &mut out) })?;
    Ok(out)
}

/// Statistics of a pool.
pub fn stats(pool: u64) -> cenote_pool_stats_t {
    let mut out = sized();
    // SAFETY: `out` has its size.
    answer(unsafe { pool::cenote_pool_stats(pool, &mut out) }).expect("statistics");
    out
}

/// Limit a device.
pub fn device_limit(device: i32, bytes: u64) -> Answer {
    answer(device::cenote_device_limit(device, bytes))
}

/// Do what is due.
pub fn poll() -> Answer {
    answer(runtime::cenote_poll())
}

/// Shut the library down.
pub fn shutdown() -> Answer {
    answer(runtime::cenote_shutdown())
}

/// Set an option.
pub fn configure(name: &str, value: &str) -> Answer {
    let text = |text| CString::new(text).expect("no zero byte");
    let (name, value) = (text(name), text(value));
    // SAFETY: both end with NUL.
    answer(unsafe { runtime::cenote_configure(name.as_ptr(), value.as_ptr()) })
}

/// The thread's last error.
pub fn last_error() -> cenote_error {
    let mut out = sized();
    // SAFETY: `out` has its size.
    answer(unsafe { runtime::cenote_last_error(&mut out) }).expect("the last error");
    out
}

/// Register a stream.
pub fn register(device: i32, raw: u64, promises: u32) -> Answer<u64> {
    let mut out = std::ptr::null_mut();
    // SAFETY: `out` is writable; the stream is live.
    answer(unsafe { stream::cenote_stream_register(device, ptr(raw), promises, &mut out) })?;
    Ok(out as u64)
}

/// Retire a registered stream.
pub fn retire(stream: u64) -> Answer {
    // SAFETY: the raw stream is alive.
    answer(unsafe { stream::cenote_stream_retire(ptr(stream)) })
}

/// Choose the host backend for the tests of this process.
pub fn on_host() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| configure("backend", "host").expect("nothing has started yet"));
}

/// Run a test's body in a process of its own on the host backend. `test` is the test's full name.
pub fn in_own_process(test: &str, env: &[(&str, &str)], body: impl FnOnce()) {
    const CHILD: &str = "CENOTE_TEST_CHILD";
    if std::env::var_os(CHILD).is_some_and(|name| name == test) {
        body();
        return;
    }
    let exe = std::env::current_exe().expect("a running test has a path");
    let output = std::process::Command::new(exe)
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env("CENOTE_BACKEND", "host")
        .envs(env.iter().copied())
        .env(CHILD, test)
        .output()
        .expect("a test can be started again");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{test} in its own process: {}\n{text}{errors}",
        output.status
    );
}

/// The name by which the test runner knows a test of a module.
pub fn test_name(module_path: &str, test: &str) -> String {
    match module_path.split_once("::") {
        Some((_, module)) => format!("{module}::{test}"),
        None => test.to_owned(),
    }
}
