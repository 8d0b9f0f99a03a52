//! Layer 0: pure code that everything above may use. No locks, no clock, no driver.

pub mod error;
pub mod status;

pub use error::{Error, Result};
pub use status::Status;
