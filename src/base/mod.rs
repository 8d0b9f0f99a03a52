//! Layer 0: pure code that everything above may use. No locks, no clock, no driver.

pub mod addr_map;
pub mod error;
pub mod size_text;
pub mod status;
pub mod units;

pub use error::{Error, Result};
pub use status::Status;
