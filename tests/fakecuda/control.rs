//! What tests call: `fakecuda_…` functions, found with dlsym. `tests/support/fake.rs` wraps them.
//!
//! They work before `cuInit`, are not counted, not logged, and no fault is injected into them.

use std::ffi::c_char;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::abi::{self, code, Code, In, Out};
use crate::config::Fault;
use crate::engine::{Kernel, Work};
use crate::function::{self, Site};
use crate::state::{self, LogEntry};
use crate::{callback, gate, thread};

/// What is alive, for tests that look for leaks.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Memory handles.
    pub handles: u64,
    /// Pieces of physical memory, mapped ones without a handle included.
    pub physical: u64,
    /// Mappings.
    pub mappings: u64,
    /// Reservations.
    pub reservations: u64,
    /// Bytes of reserved addresses.
    pub reserved_bytes: u64,
    /// Allocations outside virtual memory management.
    pub plain: u64,
    /// Created streams.
    pub streams: u64,
    /// Streams with unfinished work, destroyed ones included.
    pub busy_streams: u64,
    /// Events.
    pub events: u64,
    /// Contexts.
    pub contexts: u64,
    /// Graphs.
    pub graphs: u64,
    /// Executable graphs.
    pub executables: u64,
    /// User objects.
    pub user_objects: u64,
    /// Captures under way.
    pub captures: u64,
}

/// Version of these functions.
#[no_mangle]
pub extern "C" fn fakecuda_version() -> u32 {
    1
}

/// Change a setting by name (see the head of the library); 0, or INVALID_VALUE for a wrong name.
#[no_mangle]
pub extern "C" fn fakecuda_set_option(name: *const c_char, value: u64) -> Code {
    let Ok(name) = abi::text(name) else { return code::INVALID_VALUE };
    let mut st = state::hold();
    let known = st.opts.set(&name, value);
    st.pump();
    state::changed();
    if known {
        code::SUCCESS
    } else {
        code::INVALID_VALUE
    }
}

/// Set a device attribute for all devices.
#[no_mangle]
pub extern "C" fn fakecuda_set_attribute(attribute: i32, value: i32) {
    state::hold().opts.attributes.push((attribute, value));
}

/// Set the size of a device.
#[no_mangle]
pub extern "C" fn fakecuda_set_total_bytes(device: u32, bytes: u64) -> Code {
    match state::hold().memory.devices.get_mut(device as usize) {
        Some(found) => found.total = bytes,
        None => return code::INVALID_DEVICE,
    }
    code::SUCCESS
}

/// Set what other processes hold on a device.
#[no_mangle]
pub extern "C" fn fakecuda_set_other_bytes(device: u32, bytes: u64) -> Code {
    match state::hold().memory.devices.get_mut(device as usize) {
        Some(found) => found.other = bytes,
        None => return code::INVALID_DEVICE,
    }
    code::SUCCESS
}

/// Bytes that this process holds on a device.
#[no_mangle]
pub extern "C" fn fakecuda_used_bytes(device: u32) -> u64 {
    state::hold().memory.devices.get(device as usize).map_or(0, |found| found.used)
}

/// Launch a kernel on a stream of the calling thread's view, as `cuLaunchKernel` would: it becomes
/// a node where the stream is captured. Returns what that would return.
#[no_mangle]
pub extern "C" fn fakecuda_launch(stream: usize, kernel: In<Kernel>) -> Code {
    let mut st = state::hold();
    st.pump();
    let launched = kernel.get().and_then(|kernel| {
        if kernel.mode > 2 || kernel.reserved != 0 {
            return Err(code::INVALID_VALUE);
        }
        let context = st.current_context()?;
        let id = st.resolve(stream)?;
        st.submit(id, Work::Kernel(kernel))?;
        st.live_context(context).map(|_| ())
    });
    launched.err().unwrap_or(code::SUCCESS)
}

/// Let all kernels with this token end, also those launched later.
#[no_mangle]
pub extern "C" fn fakecuda_release(token: u64) {
    let mut st = state::hold();
    st.engine.released.insert(token);
    st.pump();
    state::changed();
}

/// Hold a stream: nothing in it completes until `fakecuda_unhold_stream` with the id that this
/// returns. 0 if there is no such stream.
#[no_mangle]
pub extern "C" fn fakecuda_hold_stream(stream: usize) -> u64 {
    let mut st = state::hold();
    let Ok(id) = st.resolve(stream) else { return 0 };
    if let Some(found) = st.engine.streams.get_mut(&id) {
        found.held = true;
    }
    id
}

/// Let a held stream go on, destroyed or not.
#[no_mangle]
pub extern "C" fn fakecuda_unhold_stream(id: u64) {
    let mut st = state::hold();
    if let Some(found) = st.engine.streams.get_mut(&id) {
        found.held = false;
    }
    st.pump();
    state::changed();
}

/// Put the clock forward; timed kernels end in their order.
#[no_mangle]
pub extern "C" fn fakecuda_advance_us(micros: u64) {
    state::hold().advance(micros);
}

/// Time of the clock.
#[no_mangle]
pub extern "C" fn fakecuda_now_us() -> u64 {
    let st = state::hold();
    st.engine.target_us(st.opts.deterministic)
}

/// Run the destructors of user objects that are due or will be, and wait for them.
#[no_mangle]
pub extern "C" fn fakecuda_drain() {
    callback::drain();
}

/// Fail a function: `nth` counts its calls from now (1 = the next), `times` failures follow, each
/// returns `error`; `sticky` makes every later call that needs a context return it too. Faults of
/// one function act one after another.
#[no_mangle]
pub extern "C" fn fakecuda_fail(
    name: *const c_char,
    nth: u64,
    times: u64,
    error: Code,
    sticky: i32,
) -> Code {
    let index = abi::text(name).ok().and_then(|name| function::index_of(&name));
    let (Some(function), Some(skip)) = (index, nth.checked_sub(1)) else {
        return code::INVALID_VALUE;
    };
    if times == 0 || error == 0 {
        return code::INVALID_VALUE;
    }
    let fault = Fault { function, skip, times, code: error, sticky: sticky != 0 };
    state::hold().opts.faults.push(fault);
    code::SUCCESS
}

/// Make every call of a function take this much longer; 0 takes the delay away.
#[no_mangle]
pub extern "C" fn fakecuda_delay(name: *const c_char, micros: u64) -> Code {
    let index = abi::text(name).ok().and_then(|name| function::index_of(&name));
    let Some(function) = index else { return code::INVALID_VALUE };
    let mut st = state::hold();
    st.opts.delays.retain(|(known, _)| *known != function);
    if micros > 0 {
        st.opts.delays.push((function, micros));
    }
    code::SUCCESS
}

/// From now on every call that needs a context returns this code; 0 takes it away.
#[no_mangle]
pub extern "C" fn fakecuda_set_sticky(error: Code) {
    state::hold().sticky = error;
}

/// Forget all faults and delays that did not happen yet.
#[no_mangle]
pub extern "C" fn fakecuda_clear_faults() {
    let mut st = state::hold();
    st.opts.faults.clear();
    st.opts.delays.clear();
}

fn counter(name: *const c_char, pick: impl Fn(&Site) -> &AtomicU64) -> u64 {
    let index = abi::text(name).ok().and_then(|name| function::index_of(&name));
    let site = index.and_then(function::site_at);
    site.map_or(u64::MAX, |site| pick(site).load(Ordering::Relaxed))
}

/// Calls of a function; all ones for a wrong name.
#[no_mangle]
pub extern "C" fn fakecuda_count(name: *const c_char) -> u64 {
    counter(name, |site| &site.calls)
}

/// Calls of a function made while the thread's capture mode was RELAXED.
#[no_mangle]
pub extern "C" fn fakecuda_count_relaxed(name: *const c_char) -> u64 {
    counter(name, |site| &site.relaxed)
}

/// Calls of a function that returned neither SUCCESS nor NOT_READY.
#[no_mangle]
pub extern "C" fn fakecuda_count_failed(name: *const c_char) -> u64 {
    counter(name, |site| &site.failed)
}

/// Set all counters to zero.
#[no_mangle]
pub extern "C" fn fakecuda_reset_counts() {
    function::reset_counts();
}

/// Name of a function by its number in the log; 0 or INVALID_VALUE.
#[no_mangle]
pub extern "C" fn fakecuda_function_name(index: u32, buffer: *mut c_char, len: usize) -> Code {
    let name = function::NAMES.get(index as usize).ok_or(code::INVALID_VALUE);
    let put = name.and_then(|name| abi::put_text(buffer, len, name));
    put.err().unwrap_or(code::SUCCESS)
}

/// Copy the newest entries of the log, oldest first; returns how many there are.
#[no_mangle]
pub extern "C" fn fakecuda_log(buffer: *mut LogEntry, capacity: usize) -> usize {
    if buffer.is_null() {
        return 0;
    }
    let st = state::hold();
    let mut count = 0;
    for entry in st.log_tail(capacity) {
        // SAFETY: the caller's buffer holds `capacity` entries by contract.
        unsafe { buffer.add(count).write(*entry) }
        count += 1;
    }
    count
}

/// Number of violations: what the real driver does not forgive, or a setting that cannot be read.
#[no_mangle]
pub extern "C" fn fakecuda_violations() -> u64 {
    state::hold().violations + gate::late_calls()
}

/// Text of a violation; INVALID_VALUE if there is none with this number.
#[no_mangle]
pub extern "C" fn fakecuda_violation_text(index: usize, buffer: *mut c_char, len: usize) -> Code {
    let st = state::hold();
    let text = st.violation_texts.get(index).ok_or(code::INVALID_VALUE);
    let put = text.and_then(|text| abi::put_text(buffer, len, text));
    put.err().unwrap_or(code::SUCCESS)
}

/// Forget the violations, for a test that provoked them.
#[no_mangle]
pub extern "C" fn fakecuda_clear_violations() {
    let mut st = state::hold();
    st.violations = 0;
    st.violation_texts.clear();
}

/// Wrong bytes that checking kernels found.
#[no_mangle]
pub extern "C" fn fakecuda_mismatches() -> u64 {
    state::hold().mismatches
}

/// Contexts ever created on a device.
#[no_mangle]
pub extern "C" fn fakecuda_contexts_created(device: u32) -> u64 {
    state::hold().contexts.created(device as usize)
}

/// Depth of the calling thread's stack of contexts.
#[no_mangle]
pub extern "C" fn fakecuda_context_depth() -> u64 {
    thread::with(|thread| thread.stack.len() as u64)
}

/// What is alive.
#[no_mangle]
pub extern "C" fn fakecuda_stats(out: Out<Stats>) -> Code {
    let st = state::hold();
    let (graphs, executables, user_objects) = st.captures.graphs.live();
    let stats = Stats {
        handles: st.memory.handles.len() as u64,
        physical: st.memory.phys.len() as u64,
        mappings: st.memory.mapping_count() as u64,
        reservations: st.memory.reservations.len() as u64,
        reserved_bytes: st.memory.reserved_bytes,
        plain: st.memory.plain.len() as u64,
        streams: st.engine.live_streams() as u64,
        busy_streams: st.engine.pending.len() as u64,
        events: st.engine.events.len() as u64,
        contexts: st.contexts.alive() as u64,
        graphs: graphs as u64,
        executables: executables as u64,
        user_objects: user_objects as u64,
        captures: st.captures.active_count() as u64,
    };
    out.put(stats).err().unwrap_or(code::SUCCESS)
}
