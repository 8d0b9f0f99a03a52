//! One copy a process: finding out whether another copy of the library already serves it.
//!
//! Copies loaded from different files, or linked in statically, share no variable. What they share
//! is the process: the copy that serves keeps one named page mapped, which every other copy finds
//! in the process's own list of mappings. It needs no environment variable (not thread-safe to set,
//! and inherited across exec) and no file.

use std::io::Read;

const NAME: &std::ffi::CStr = c"cenote-serves-this-process";
const MARK: &str = "/memfd:cenote-serves-this-process";

/// True if this copy serves the process from now on; false if another one does.
pub fn claim() -> bool {
    if !marks().is_empty() {
        return false;
    }
    let Some(own) = map_mark() else {
        // No memfd on this kernel: two copies cannot be told apart, one is likely.
        return true;
    };
    // Two copies that start at the same time both see both marks: the lower address wins.
    if marks().first().is_some_and(|&first| first == own) {
        return true;
    }
    // SAFETY: the page was mapped by `map_mark` and nobody has its address.
    unsafe { libc::munmap(own as *mut libc::c_void, page()) };
    false
}

fn page() -> usize {
    // SAFETY: sysconf has no preconditions.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

fn map_mark() -> Option<usize> {
    // SAFETY: NAME is NUL-terminated.
    let fd = unsafe { libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return None;
    }
    // SAFETY: a fresh shared mapping of one page at an address of the kernel's choice. It is never
    // touched, so the file's length does not matter.
    let addr = unsafe {
        libc::mmap(std::ptr::null_mut(), page(), libc::PROT_NONE, libc::MAP_SHARED, fd, 0)
    };
    // SAFETY: the descriptor is ours; the mapping keeps the file.
    unsafe { libc::close(fd) };
    (addr != libc::MAP_FAILED).then_some(addr as usize)
}

/// Addresses of all marks in this process, ascending.
fn marks() -> Vec<usize> {
    let mut text = String::new();
    let read = std::fs::File::open("/proc/self/maps").and_then(|mut f| f.read_to_string(&mut text));
    if read.is_err() {
        return Vec::new();
    }
    text.lines()
        .filter(|line| line.contains(MARK))
        .filter_map(|line| usize::from_str_radix(line.split('-').next()?, 16).ok())
        .collect()
}
