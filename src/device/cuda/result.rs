//! Driver results as errors, and the memory of the first one that nothing survives.

use std::sync::OnceLock;

use crate::base::{Error, Result, Status};

/// CUDA_SUCCESS.
pub const SUCCESS: u32 = 0;
/// CUDA_ERROR_INVALID_VALUE.
pub const INVALID_VALUE: i32 = 1;
/// CUDA_ERROR_STUB_LIBRARY: the toolkit's stand-in for linking, not a driver.
pub const STUB_LIBRARY: u32 = 34;
/// CUDA_ERROR_NO_DEVICE.
pub const NO_DEVICE: u32 = 100;
/// CUDA_ERROR_INVALID_CONTEXT: no context is current, or it was destroyed.
pub const INVALID_CONTEXT: u32 = 201;
/// CUDA_ERROR_INVALID_HANDLE.
pub const INVALID_HANDLE: u32 = 400;
/// CUDA_ERROR_NOT_READY: not an error.
pub const NOT_READY: u32 = 600;
/// CUDA_ERROR_CONTEXT_IS_DESTROYED.
pub const CONTEXT_IS_DESTROYED: u32 = 709;
/// CUDA_ERROR_NOT_PERMITTED.
pub const NOT_PERMITTED: u32 = 800;
/// CUDA_ERROR_NOT_SUPPORTED.
pub const NOT_SUPPORTED: u32 = 801;
/// CUDA_ERROR_STREAM_CAPTURE_IMPLICIT: a blocking stream captures, so the legacy stream is barred.
pub const CAPTURE_IMPLICIT: u32 = 906;

/// Which status a driver's code becomes.
pub fn status_of(code: u32) -> Status {
    match code {
        2 => Status::E_OUT_OF_MEMORY,
        4 => Status::E_DRIVER_EXIT,
        NO_DEVICE => Status::E_NO_DEVICE,
        101 => Status::E_DEVICE,
        NOT_SUPPORTED => Status::E_NOT_SUPPORTED,
        900..=908 => Status::E_CAPTURE,
        code if loses_context(code) => Status::E_CONTEXT_LOST,
        _ => Status::E_DRIVER,
    }
}

/// Codes after which every call of the process gives the same error: uncorrectable memory (214,
/// 220, 226), illegal address (700), timeout (702), assertion (710), hardware faults (714 to 719),
/// tensor memory (721), the end of the MPS client (810), an external device (911).
fn loses_context(code: u32) -> bool {
    matches!(code, 214 | 220 | 226 | 700 | 702 | 710 | 714..=719 | 721 | 810 | 911)
}

/// The first error that nothing survives. Once it is set, the driver is not touched any more.
#[derive(Default)]
pub struct Lost(OnceLock<Error>);

impl Lost {
    /// The remembered error, if there is one.
    pub fn get(&self) -> Option<Error> {
        self.0.get().copied()
    }

    /// Fails with the remembered error.
    #[inline]
    pub fn check(&self) -> Result<()> {
        match self.0.get() {
            None => Ok(()),
            Some(error) => Err(*error),
        }
    }

    /// Remembers an error unless an earlier one is, and gives the one that is.
    #[cold]
    pub fn remember(&self, error: Error) -> Error {
        *self.0.get_or_init(|| error)
    }

    /// The result of a driver call.
    #[inline]
    pub fn result(&self, what: &'static str, code: u32) -> Result<()> {
        if code == SUCCESS {
            return Ok(());
        }
        Err(self.failed(what, code))
    }

    #[cold]
    fn failed(&self, what: &'static str, code: u32) -> Error {
        let error = Error::backend(status_of(code), what, code as i32);
        match error.status {
            Status::E_CONTEXT_LOST | Status::E_DRIVER_EXIT => self.remember(error),
            _ => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_become_statuses() {
        assert_eq!(status_of(2), Status::E_OUT_OF_MEMORY);
        assert_eq!(status_of(4), Status::E_DRIVER_EXIT);
        assert_eq!(status_of(801), Status::E_NOT_SUPPORTED);
        assert_eq!(status_of(901), Status::E_CAPTURE);
        assert_eq!(status_of(1), Status::E_DRIVER);
        assert_eq!(status_of(4_000_000_000), Status::E_DRIVER, "a newer driver's code");
        for code in [226, 700, 702, 714, 717, 719, 721, 911] {
            assert_eq!(status_of(code), Status::E_CONTEXT_LOST, "{code}");
        }
        assert_eq!(status_of(701), Status::E_DRIVER, "out of launch resources is not sticky");
    }

    #[test]
    fn the_first_fatal_error_is_kept() {
        let lost = Lost::default();
        assert!(lost.result("cuMemMap", 1).is_err());
        assert_eq!(lost.check(), Ok(()), "an ordinary error is not kept");
        let first = lost.result("cuEventQuery", 700).unwrap_err();
        assert_eq!((first.status, first.backend_code), (Status::E_CONTEXT_LOST, 700));
        let second = lost.result("cuMemMap", 719).unwrap_err();
        assert_eq!((second.what, second.backend_code), ("cuEventQuery", 700));
        assert_eq!(lost.get(), Some(first));
    }
}
