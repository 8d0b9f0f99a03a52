//! The streams that a trace's operations are replayed on.
//!
//! A trace names streams by the handles of the program that was recorded. The default stream stays
//! the default stream; every other becomes a stream of this process: under CUDA a real one, on
//! other backends a value, for there a stream is only a name.

use cenote::ffi::types::{cenote_runtime_info_t, CENOTE_BACKEND_CUDA};
use std::ffi::c_void;

/// Raw stream values by their index in the trace.
pub struct Streams {
    values: Vec<*mut c_void>,
    #[cfg(feature = "cuda")]
    created: Vec<cudarc::driver::sys::CUstream>,
}

impl Streams {
    /// Streams for a trace, on the backend that runs.
    pub fn new(
        info: &cenote_runtime_info_t,
        device: i32,
        trace_streams: &[u64],
    ) -> Result<Streams, String> {
        if info.backend == CENOTE_BACKEND_CUDA {
            return Streams::on_cuda(device, trace_streams);
        }
        // Above the special values 0 to 2, and apart as pointers would be.
        let name = |(index, value): (usize, &u64)| match value {
            0 => std::ptr::null_mut(),
            _ => (0x1000 + 16 * index) as *mut c_void,
        };
        Ok(Streams {
            values: trace_streams.iter().enumerate().map(name).collect(),
            #[cfg(feature = "cuda")]
            created: Vec::new(),
        })
    }

    /// The stream's value.
    #[inline]
    pub fn get(&self, index: u16) -> *mut c_void {
        self.values[usize::from(index)]
    }

    #[cfg(not(feature = "cuda"))]
    fn on_cuda(_device: i32, _trace_streams: &[u64]) -> Result<Streams, String> {
        Err("this command was built without the cuda backend".into())
    }

    #[cfg(feature = "cuda")]
    fn on_cuda(device: i32, trace_streams: &[u64]) -> Result<Streams, String> {
        use cudarc::driver::result;
        let said = |what: &'static str| move |e: result::DriverError| format!("{what}: {e:?}");
        let from_env = || std::env::var("CENOTE_DEVICE").ok().and_then(|d| d.parse().ok());
        let ordinal = if device >= 0 { device } else { from_env().unwrap_or(0) };
        let device = result::device::get(ordinal).map_err(said("cuDeviceGet"))?;
        // SAFETY: the driver is initialised (its backend runs) and `device` comes from it. The
        // context stays retained and current until the process ends.
        unsafe {
            let context =
                result::primary_ctx::retain(device).map_err(said("cuDevicePrimaryCtxRetain"))?;
            result::ctx::set_current(context).map_err(said("cuCtxSetCurrent"))?;
        }
        let mut streams = Streams { values: Vec::new(), created: Vec::new() };
        for value in trace_streams {
            if *value == 0 {
                streams.values.push(std::ptr::null_mut());
                continue;
            }
            let kind = result::stream::StreamKind::NonBlocking;
            let stream = result::stream::create(kind).map_err(said("cuStreamCreate"))?;
            streams.created.push(stream);
            streams.values.push(stream.cast());
        }
        Ok(streams)
    }
}

#[cfg(feature = "cuda")]
impl Drop for Streams {
    fn drop(&mut self) {
        for stream in self.created.drain(..) {
            // SAFETY: created above and not used after this. A failure leaves nothing to be done.
            let _ = unsafe { cudarc::driver::result::stream::destroy(stream) };
        }
    }
}
