//! cenote: one GPU memory manager for every language in a process.
//!
//! A folder is a layer and may use only the layers above it in this list:
//! `base` → `device` → …

pub mod base;
pub mod device;
