//! The address-space calls of the host backend.

use std::ffi::c_void;

use crate::base::{Error, Result, Status};

/// The error of the system call that just failed.
pub fn failed(status: Status, what: &'static str) -> Error {
    Error::backend(status, what, std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

/// Replaces a range by inaccessible addresses: what a reservation without mappings is.
pub fn seal(addr: u64, size_bytes: u64) -> Result<()> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: the caller holds the state lock and has found the range to be whole mappings of one
    // reservation, which the contract says nothing uses any more.
    let at = unsafe {
        libc::mmap(addr as *mut c_void, size_bytes as usize, libc::PROT_NONE, flags, -1, 0)
    };
    if at == libc::MAP_FAILED {
        return Err(failed(Status::E_DRIVER, "mmap (unmap)"));
    }
    Ok(())
}

/// Removes addresses for good.
pub fn munmap(addr: u64, size_bytes: u64, what: &'static str) -> Result<()> {
    if size_bytes == 0 {
        return Ok(());
    }
    // SAFETY: the range is part of a reservation of this backend in which nothing is mapped.
    if unsafe { libc::munmap(addr as *mut c_void, size_bytes as usize) } != 0 {
        return Err(failed(Status::E_DRIVER, what));
    }
    Ok(())
}

/// Reserves a range whose start is a multiple of `align_bytes`, by cutting a longer one.
pub fn reserve_aligned(size_bytes: u64, align_bytes: u64) -> Result<u64> {
    let refused = |what| Error::new(Status::E_ADDRESS_SPACE, what).bytes(size_bytes, 0);
    let longer = size_bytes.checked_add(align_bytes).ok_or(refused("host reserve"))?;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let at =
        unsafe { libc::mmap(std::ptr::null_mut(), longer as usize, libc::PROT_NONE, flags, -1, 0) };
    if at == libc::MAP_FAILED {
        return Err(failed(Status::E_ADDRESS_SPACE, "mmap (reserve)").bytes(size_bytes, 0));
    }
    let start = at as u64;
    let base = start.next_multiple_of(align_bytes);
    munmap(start, base - start, "munmap (cut a reservation)")?;
    munmap(base + size_bytes, start + longer - base - size_bytes, "munmap (cut a reservation)")?;
    Ok(base)
}
