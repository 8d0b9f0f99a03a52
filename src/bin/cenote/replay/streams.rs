//! The streams that a trace's operations are replayed on.
//!
//! A trace names streams by the handles of the program that was recorded. The default stream stays
//! the default stream; every other becomes a stream of this process: under CUDA a real one, on
//! other backends a value, for there a stream is only a name.

use cenote::ffi::types::{cenote_runtime_info_t, CENOTE_BACKEND_CUDA};
use std::ffi::{c_void, CStr};

/// Raw stream values by their index in the trace.
pub struct Streams {
    values: Vec<*mut c_void>,
    driver: Option<Driver>,
}

impl Streams {
    /// Streams for a trace, on the backend that runs. Under CUDA the device's primary context is
    /// made current on this thread, as a program's would be.
    pub fn new(
        info: &cenote_runtime_info_t,
        device: i32,
        trace_streams: &[u64],
    ) -> Result<Streams, String> {
        let mut streams = Streams { values: Vec::with_capacity(trace_streams.len()), driver: None };
        if info.backend == CENOTE_BACKEND_CUDA {
            let driver = Driver::open()?;
            driver.make_current(device)?;
            streams.driver = Some(driver);
        }
        for (index, value) in trace_streams.iter().enumerate() {
            let value = match (&streams.driver, value) {
                (_, 0) => std::ptr::null_mut(),
                (Some(driver), _) => driver.stream_create()?,
                // Above the special values 0 to 2, and apart as pointers would be.
                (None, _) => (0x1000 + 16 * index) as *mut c_void,
            };
            streams.values.push(value);
        }
        Ok(streams)
    }

    /// The stream's value.
    #[inline]
    pub fn get(&self, index: u16) -> *mut c_void {
        self.values[usize::from(index)]
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        let Some(driver) = &self.driver else { return };
        for stream in self.values.iter().filter(|stream| !stream.is_null()) {
            // SAFETY: created by this driver and not used after this. A failure leaves nothing to
            // be done.
            unsafe { (driver.stream_destroy)(*stream) };
        }
    }
}

/// Results are numbers: a newer driver may answer with one that no list here knows.
type Code = i32;

type DeviceGet = unsafe extern "C" fn(*mut i32, i32) -> Code;
type ContextRetain = unsafe extern "C" fn(*mut *mut c_void, i32) -> Code;
type ContextSet = unsafe extern "C" fn(*mut c_void) -> Code;
type StreamCreate = unsafe extern "C" fn(*mut *mut c_void, u32) -> Code;
type StreamDestroy = unsafe extern "C" fn(*mut c_void) -> Code;

/// The driver that the backend has loaded: the few functions that make a stream.
struct Driver {
    device_get: DeviceGet,
    context_retain: ContextRetain,
    context_set: ContextSet,
    stream_create: StreamCreate,
    stream_destroy: StreamDestroy,
}

const STREAM_NON_BLOCKING: u32 = 1;

impl Driver {
    fn open() -> Result<Driver, String> {
        // SAFETY: the name is NUL-terminated; NOLOAD only finds what is loaded already.
        let library =
            unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        if library.is_null() {
            return Err("the CUDA backend runs, but libcuda.so.1 is not loaded".into());
        }
        // SAFETY: each name is that of the driver's function with the signature of its type, as the
        // CUDA driver API documents it; the library stays loaded, for the backend uses it.
        unsafe {
            Ok(Driver {
                device_get: find::<DeviceGet>(library, c"cuDeviceGet")?,
                context_retain: find::<ContextRetain>(library, c"cuDevicePrimaryCtxRetain")?,
                context_set: find::<ContextSet>(library, c"cuCtxSetCurrent")?,
                stream_create: find::<StreamCreate>(library, c"cuStreamCreate")?,
                stream_destroy: find::<StreamDestroy>(library, c"cuStreamDestroy_v2")?,
            })
        }
    }

    /// Retain the device's primary context and make it current; it stays so until the process ends.
    fn make_current(&self, device: i32) -> Result<(), String> {
        let from_env = || std::env::var("CENOTE_DEVICE").ok().and_then(|d| d.parse().ok());
        let ordinal = if device >= 0 { device } else { from_env().unwrap_or(0) };
        let (mut handle, mut context) = (0, std::ptr::null_mut());
        // SAFETY: the driver is initialised, for its backend runs; the pointers are to locals, and
        // each handle comes from the call before.
        unsafe {
            check("cuDeviceGet", (self.device_get)(&mut handle, ordinal))?;
            check("cuDevicePrimaryCtxRetain", (self.context_retain)(&mut context, handle))?;
            check("cuCtxSetCurrent", (self.context_set)(context))
        }
    }

    fn stream_create(&self) -> Result<*mut c_void, String> {
        let mut stream = std::ptr::null_mut();
        // SAFETY: a context is current and the pointer is to a local.
        let code = unsafe { (self.stream_create)(&mut stream, STREAM_NON_BLOCKING) };
        check("cuStreamCreate", code).map(|()| stream)
    }
}

/// # Safety
/// `library` is open, and `F` is the type of a pointer to the function of this name.
unsafe fn find<F: Copy>(library: *mut c_void, name: &CStr) -> Result<F, String> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the name is NUL-terminated; the caller vouches for the library.
    let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
    if symbol.is_null() {
        return Err(format!("the CUDA driver has no {}", name.to_string_lossy()));
    }
    // SAFETY: the caller vouches for the type; its size is that of a pointer.
    Ok(unsafe { std::mem::transmute_copy(&symbol) })
}

fn check(what: &str, code: Code) -> Result<(), String> {
    if code == 0 {
        Ok(())
    } else {
        Err(format!("{what} failed with driver code {code}"))
    }
}
