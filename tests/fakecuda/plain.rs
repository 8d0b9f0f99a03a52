//! Allocations outside virtual memory management: device, managed and pinned host memory, and host
//! memory that the program registered.

use crate::abi::{code, Res};
use crate::memory::Memory;
use crate::state::State;

/// What an allocation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainKind {
    /// From `cuMemAlloc`.
    Device,
    /// From `cuMemAllocManaged`.
    Managed,
    /// From `cuMemHostAlloc`.
    Host,
    /// From `cuMemHostRegister`: the memory is the program's.
    Registered,
}

/// One allocation.
pub struct Plain {
    /// Bytes asked for.
    pub size: u64,
    /// What it is.
    pub kind: PlainKind,
    /// Context that was current.
    pub context: usize,
    /// Device of that context.
    pub device: usize,
    /// Number of the allocation (CU_POINTER_ATTRIBUTE_BUFFER_ID).
    pub number: u64,
}

/// Memory of the host for an allocation. Device memory is PROT_NONE to the host where settings say.
fn host_pages(size: u64, protection: i32) -> Res<u64> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh mapping.
    let addr = unsafe { libc::mmap(std::ptr::null_mut(), size as usize, protection, flags, -1, 0) };
    if addr == libc::MAP_FAILED {
        return Err(code::OUT_OF_MEMORY);
    }
    Ok(addr as u64)
}

impl Memory {
    fn forget(&mut self, addr: u64) -> Option<Plain> {
        let plain = self.plain.remove(&addr)?;
        if plain.kind == PlainKind::Device {
            self.devices[plain.device].used -= plain.size;
        }
        if plain.kind != PlainKind::Registered {
            // SAFETY: the mapping of `host_pages` with the size it was made with; the entry that
            // named it has just been removed.
            unsafe { libc::munmap(addr as *mut libc::c_void, plain.size as usize) };
        }
        Some(plain)
    }

    /// Free what belongs to a context that ends.
    pub fn free_of_context(&mut self, context: usize) {
        let gone: Vec<u64> = self
            .plain
            .iter()
            .filter(|(_, plain)| plain.context == context)
            .map(|(addr, _)| *addr)
            .collect();
        for addr in gone {
            self.forget(addr);
        }
    }
}

impl State {
    /// Allocate memory of a kind in the current context.
    pub fn plain_alloc(&mut self, size: u64, kind: PlainKind) -> Res<u64> {
        if size == 0 {
            return Err(code::INVALID_VALUE);
        }
        let context = self.current_context()?;
        let device = self.current_device()?;
        if size > 1 << 46 || (kind == PlainKind::Device && size > self.memory.free_bytes(device)) {
            return Err(code::OUT_OF_MEMORY);
        }
        let addr = host_pages(size, libc::PROT_READ | libc::PROT_WRITE)?;
        if kind == PlainKind::Device {
            self.memory.devices[device].used += size;
        }
        let number = self.memory.number();
        self.memory.plain.insert(addr, Plain { size, kind, context, device, number });
        Ok(addr)
    }

    /// Whether an address is the start of an allocation of one of these kinds.
    pub fn is_plain(&self, addr: u64, kinds: &[PlainKind]) -> bool {
        self.memory.plain.get(&addr).is_some_and(|plain| kinds.contains(&plain.kind))
    }

    /// Free an allocation that `is_plain` has confirmed.
    pub fn plain_free(&mut self, addr: u64) {
        self.memory.forget(addr);
    }

    /// Register memory of the program.
    pub fn host_register(&mut self, addr: u64, size: u64) -> Res {
        if addr == 0 || size == 0 {
            return Err(code::INVALID_VALUE);
        }
        let end = addr.checked_add(size).ok_or(code::INVALID_VALUE)?;
        let before = self.memory.plain.range(..end).next_back();
        if before.is_some_and(|(start, plain)| start + plain.size > addr) {
            return Err(code::HOST_MEMORY_ALREADY_REGISTERED);
        }
        let context = self.current_context()?;
        let device = self.current_device()?;
        let number = self.memory.number();
        let plain = Plain { size, kind: PlainKind::Registered, context, device, number };
        self.memory.plain.insert(addr, plain);
        Ok(())
    }

    /// Forget registered memory, named by its exact start.
    pub fn host_unregister(&mut self, addr: u64) -> Res {
        if !self.is_plain(addr, &[PlainKind::Registered]) {
            return Err(code::HOST_MEMORY_NOT_REGISTERED);
        }
        self.plain_free(addr);
        Ok(())
    }
}
