//! Top layer: the C ABI. Thin: checks pointers and structs, calls the runtime, records errors.
//!
//! The documentation here is written for the C reader: it becomes the header. One file a noun.

#![allow(clippy::missing_safety_doc, reason = "safety sections are written for the C reader")]

pub mod block;
mod boundary;
mod decode;
pub mod device;
pub mod pool;
pub mod runtime;
pub mod stream;
pub mod torch;
pub mod types;
