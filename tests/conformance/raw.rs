//! The driver itself, beside the backend: what a program does that shares a process with cenote.

use std::ffi::CString;

use cudarc::driver::sys;

use crate::fake::Fake;

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

/// The fake driver's controls; `None` on a real driver.
pub fn fake() -> Option<Fake> {
    Fake::attach().ok()
}
