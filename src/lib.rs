//! cenote: one GPU memory manager for every language in a process.
//!
//! A folder is a layer and may use only the layers before it in this list:
//! `base` → `device` → `space` → `stream` → `heap` → `pool` → `runtime` → `ffi`.

pub mod base;
pub mod device;
pub mod ffi;
pub mod heap;
pub mod pool;
pub mod runtime;
pub mod space;
pub mod stream;
