//! Values of handles: addresses in memory that cannot be read, so that a program which looks behind
//! a handle faults, and recycled at once as the driver does.

/// One kind of handle.
pub struct HandleSpace {
    base: usize,
    next: usize,
    freed: Vec<usize>,
}

const STRIDE: usize = 256;
const SPACE_BYTES: usize = 64 << 20;

impl HandleSpace {
    /// Reserve the addresses of one kind.
    pub fn new() -> HandleSpace {
        // SAFETY: a fresh mapping that nothing may touch; it is kept for the process's life.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                SPACE_BYTES,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        let base = if base == libc::MAP_FAILED { 0x10_0000 } else { base as usize };
        HandleSpace { base, next: STRIDE, freed: Vec::new() }
    }

    /// The value freed last, or a new one.
    pub fn take(&mut self) -> Option<usize> {
        if let Some(handle) = self.freed.pop() {
            return Some(handle);
        }
        if self.next + STRIDE > SPACE_BYTES {
            return None;
        }
        self.next += STRIDE;
        Some(self.base + self.next - STRIDE)
    }

    /// Give a value back; the next `take` returns it.
    pub fn give(&mut self, handle: usize) {
        self.freed.push(handle);
    }

    /// Whether this value was ever a handle of this kind.
    pub fn was_issued(&self, handle: usize) -> bool {
        handle > self.base
            && handle < self.base + self.next
            && (handle - self.base).is_multiple_of(STRIDE)
    }
}
