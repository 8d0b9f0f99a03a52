//! The error value: a status and fixed-size detail, so that reporting never allocates.

use super::status::Status;

/// What went wrong, with the figures that explain it; copied, never heap-allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// Which kind of failure.
    pub status: Status,
    /// The driver's own code (CUresult, errno), 0 if none.
    pub backend_code: i32,
    /// Bytes the caller wanted, 0 if that says nothing here.
    pub wanted_bytes: u64,
    /// Bytes that were available, or the limit that was hit; 0 if that says nothing here.
    pub available_bytes: u64,
    /// A fixed text that says where: a driver call's name, an option's name.
    pub what: &'static str,
}

/// Result with cenote's error.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error with a status and the place it comes from.
    pub const fn new(status: Status, what: &'static str) -> Error {
        Error { status, backend_code: 0, wanted_bytes: 0, available_bytes: 0, what }
    }

    /// An error that carries the driver's own code.
    pub const fn backend(status: Status, what: &'static str, code: i32) -> Error {
        Error { status, backend_code: code, wanted_bytes: 0, available_bytes: 0, what }
    }

    /// The same error with the bytes wanted and available.
    pub const fn bytes(mut self, wanted: u64, available: u64) -> Error {
        self.wanted_bytes = wanted;
        self.available_bytes = available;
        self
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} ({})", self.status.name(), self.status.text(), self.what)
    }
}

impl std::error::Error for Error {}
