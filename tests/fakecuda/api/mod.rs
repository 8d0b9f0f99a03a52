//! The exported driver functions, by subject. Names and signatures are the driver's.

pub mod context;
pub mod copy;
pub mod device;
pub mod graph;
pub mod memory;
pub mod stream;
pub mod vmm;
