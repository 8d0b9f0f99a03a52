//! The driver itself, beside the backend: what a program does that shares a process with cenote.

use std::ffi::{c_char, CString};

use cudarc::driver::sys;

/// A symbol of the library that the backend uses, or `None`.
fn symbol<F: Copy>(name: &str) -> Option<F> {
    let name = CString::new(name).expect("no NUL in a name");
    // SAFETY: the tests that come here have opened the driver; callers give the right signature.
    unsafe { sys::culib().get::<F>(name.as_bytes_with_nul()).ok().map(|found| *found) }
}

macro_rules! functions {
    ($($name:ident = $symbol:literal ($($arg:ident: $type:ty),*);)*) => {
        $(
            pub fn $name($($arg: $type),*) -> u32 {
                let function: Option<unsafe extern "C" fn($($type),*) -> u32> = symbol($symbol);
                let function = function.expect(concat!("the driver has ", $symbol));
                // SAFETY: the signature is that of cuda.h; pointers are to locals of the tests.
                unsafe { function($($arg),*) }
            }
        )*
    };
}

functions! {
    context_get = "cuCtxGetCurrent"(context: *mut usize);
    context_set = "cuCtxSetCurrent"(context: usize);
    context_create = "cuCtxCreate_v2"(context: *mut usize, flags: u32, device: i32);
    context_destroy = "cuCtxDestroy_v2"(context: usize);
    primary_retain = "cuDevicePrimaryCtxRetain"(context: *mut usize, device: i32);
    primary_state = "cuDevicePrimaryCtxGetState"(device: i32, flags: *mut u32, active: *mut i32);
    primary_release = "cuDevicePrimaryCtxRelease_v2"(device: i32);
    primary_reset = "cuDevicePrimaryCtxReset_v2"(device: i32);
    stream_create = "cuStreamCreate"(stream: *mut usize, flags: u32);
    stream_destroy = "cuStreamDestroy_v2"(stream: usize);
    stream_query = "cuStreamQuery"(stream: usize);
    capture_begin = "cuStreamBeginCapture_v2"(stream: usize, mode: u32);
    capture_end = "cuStreamEndCapture"(stream: usize, graph: *mut usize);
    graph_destroy = "cuGraphDestroy"(graph: usize);
    capture_mode = "cuThreadExchangeStreamCaptureMode"(mode: *mut u32);
}

/// The context that is current on this thread, 0 if none.
pub fn current() -> usize {
    let mut context = 0;
    assert_eq!(context_get(&mut context), 0, "cuCtxGetCurrent");
    context
}

/// Whether the primary context of a device exists.
pub fn active(device: i32) -> bool {
    let (mut flags, mut active) = (0, 0);
    assert_eq!(primary_state(device, &mut flags, &mut active), 0, "cuDevicePrimaryCtxGetState");
    active != 0
}

/// The primary context of a device, retained until `primary_release`.
pub fn primary(device: i32) -> usize {
    let mut context = 0;
    assert_eq!(primary_retain(&mut context, device), 0, "cuDevicePrimaryCtxRetain");
    context
}

/// A new stream of the current context; a blocking one for flags 0.
pub fn stream(flags: u32) -> usize {
    let mut stream = 0;
    assert_eq!(stream_create(&mut stream, flags), 0, "cuStreamCreate");
    stream
}

/// The mode in which this thread treats captures; left as it is.
pub fn thread_capture_mode() -> u32 {
    let mut mode = 0;
    assert_eq!(capture_mode(&mut mode), 0, "cuThreadExchangeStreamCaptureMode");
    let found = mode;
    assert_eq!(capture_mode(&mut mode), 0, "cuThreadExchangeStreamCaptureMode");
    found
}

/// The control functions of the fake driver; `None` on a real one.
pub struct Fake;

impl Fake {
    pub fn find() -> Option<Fake> {
        let version: Option<unsafe extern "C" fn() -> u32> = symbol("fakecuda_version");
        version.map(|_| Fake)
    }

    pub fn count(&self, name: &str) -> u64 {
        let name = CString::new(name).expect("no NUL in a name");
        let count: Option<unsafe extern "C" fn(*const c_char) -> u64> = symbol("fakecuda_count");
        // SAFETY: the fake driver declares this signature.
        unsafe { count.expect("fakecuda_count")(name.as_ptr()) }
    }

    /// Calls made while the thread let captures be.
    pub fn count_relaxed(&self, name: &str) -> u64 {
        let name = CString::new(name).expect("no NUL in a name");
        let count: Option<unsafe extern "C" fn(*const c_char) -> u64> =
            symbol("fakecuda_count_relaxed");
        // SAFETY: the fake driver declares this signature.
        unsafe { count.expect("fakecuda_count_relaxed")(name.as_ptr()) }
    }

    pub fn reset_counts(&self) {
        let reset: Option<unsafe extern "C" fn()> = symbol("fakecuda_reset_counts");
        // SAFETY: the fake driver declares this signature.
        unsafe { reset.expect("fakecuda_reset_counts")() }
    }

    /// Fails the next `times` calls of a function.
    pub fn fail(&self, name: &str, times: u64, code: u32) {
        let name = CString::new(name).expect("no NUL in a name");
        let fail: Option<unsafe extern "C" fn(*const c_char, u64, u64, u32, i32) -> u32> =
            symbol("fakecuda_fail");
        // SAFETY: the fake driver declares this signature.
        let rc = unsafe { fail.expect("fakecuda_fail")(name.as_ptr(), 1, times, code, 0) };
        assert_eq!(rc, 0, "fakecuda_fail");
    }

    pub fn set_attribute(&self, attribute: i32, value: i32) {
        let set: Option<unsafe extern "C" fn(i32, i32)> = symbol("fakecuda_set_attribute");
        // SAFETY: the fake driver declares this signature.
        unsafe { set.expect("fakecuda_set_attribute")(attribute, value) }
    }

    /// Holds a stream; gives the id that lets it go on.
    pub fn hold(&self, stream: usize) -> u64 {
        let hold: Option<unsafe extern "C" fn(usize) -> u64> = symbol("fakecuda_hold_stream");
        // SAFETY: the fake driver declares this signature.
        unsafe { hold.expect("fakecuda_hold_stream")(stream) }
    }

    pub fn unhold(&self, id: u64) {
        let unhold: Option<unsafe extern "C" fn(u64)> = symbol("fakecuda_unhold_stream");
        // SAFETY: the fake driver declares this signature.
        unsafe { unhold.expect("fakecuda_unhold_stream")(id) }
    }

    /// Lets destructors of user objects run that are due.
    pub fn drain(&self) {
        let drain: Option<unsafe extern "C" fn()> = symbol("fakecuda_drain");
        // SAFETY: the fake driver declares this signature.
        unsafe { drain.expect("fakecuda_drain")() }
    }

    /// What the driver was misused for, as far as it kept texts.
    pub fn violations(&self) -> Vec<String> {
        type Text = unsafe extern "C" fn(usize, *mut c_char, usize) -> u32;
        let text: Option<Text> = symbol("fakecuda_violation_text");
        let text = text.expect("fakecuda_violation_text");
        let read = |index| {
            let mut buffer = [0u8; 512];
            // SAFETY: the fake driver declares this signature; the buffer has the length given.
            let rc = unsafe { text(index, buffer.as_mut_ptr().cast(), buffer.len()) };
            let end = buffer.iter().position(|&byte| byte == 0)?;
            (rc == 0).then(|| String::from_utf8_lossy(&buffer[..end]).into_owned())
        };
        (0..).map_while(read).collect()
    }

    pub fn clear_violations(&self) {
        let clear: Option<unsafe extern "C" fn()> = symbol("fakecuda_clear_violations");
        // SAFETY: the fake driver declares this signature.
        unsafe { clear.expect("fakecuda_clear_violations")() }
    }
}
