//! The host backend: the machine's own memory behind the contract of a device.
//!
//! Physical memory is a sparse memfd. A handle is a range of offsets in it, so that it can be
//! mapped at several addresses and moved between them, and its pages go back when the hole is
//! punched. Offsets are handed out in ascending order, not reused: handles that are created one
//! after the other and mapped side by side are one mapping to the kernel, which allows a process
//! 65,530.
//!
//! `map` only notes the mapping; `set_access` tells the kernel, in one call for a run of adjacent
//! handles. A page costs memory when it is first touched. A forked child shares the pages.

use std::ffi::c_void;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::{
    meminfo, Backend, BackendKind, Caps, CaptureInfo, DeviceInfo, EventHandle, GraphGone, MemInfo,
    PhysHandle, StreamIdentity,
};
use crate::base::{Error, Result, Status};

mod address;
mod state;
#[cfg(test)]
mod tests;

use address::{failed, munmap, reserve_aligned, seal};
use state::{Gone, Mapping, Physical, State};

/// Smallest unit of memory: what current GPUs have, so that pools behave alike on both.
pub const PAGE_BYTES: u64 = 2 << 20;
/// Length of the sparse file: offsets never run out before this.
const FILE_BYTES: u64 = 1 << 62;
/// Most devices a host may pretend to have.
const MAX_DEVICES: u32 = 64;

/// How the host plays a device.
#[derive(Clone, Copy, Debug)]
pub struct HostOptions {
    /// Number of devices, 1 to 64; they share the machine's memory.
    pub device_count: u32,
    /// Bytes of each device; `None` takes the machine's memory, or the control group's limit.
    pub total_bytes: Option<u64>,
    /// Let more be created than there is. For replays of large traces that touch nothing.
    pub overcommit: bool,
}

impl Default for HostOptions {
    fn default() -> HostOptions {
        HostOptions { device_count: 1, total_bytes: None, overcommit: false }
    }
}

/// The host's memory as one or several devices.
pub struct Host {
    file: OwnedFd,
    device_count: u32,
    total_bytes: u64,
    overcommit: bool,
    next_event: AtomicU64,
    state: Mutex<State>,
}

const fn illegal(what: &'static str) -> Error {
    Error::backend(Status::E_DRIVER, what, libc::EINVAL)
}

impl Host {
    /// Opens the sparse file; takes no memory yet.
    pub fn new(options: HostOptions) -> Result<Host> {
        if options.device_count == 0 || options.device_count > MAX_DEVICES {
            return Err(Error::new(Status::E_VALUE, "CENOTE_HOST_DEVICES: 1 to 64"));
        }
        let total_bytes = match options.total_bytes {
            Some(total_bytes) => total_bytes,
            None => {
                meminfo::read()
                    .ok_or(Error::new(Status::E_DRIVER, "/proc/meminfo cannot be read"))?
                    .total_bytes
            }
        };
        // SAFETY: the name is a NUL-terminated constant; the result is checked.
        let fd = unsafe { libc::memfd_create(c"cenote-host".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(failed(Status::E_HOST_MEMORY, "memfd_create"));
        }
        // SAFETY: the descriptor was just created and belongs to nobody else.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: the descriptor is open; the file stays sparse.
        if unsafe { libc::ftruncate(fd, FILE_BYTES as libc::off_t) } != 0 {
            return Err(failed(Status::E_HOST_MEMORY, "ftruncate of the memfd"));
        }
        let created_bytes = vec![0; options.device_count as usize];
        Ok(Host {
            file,
            device_count: options.device_count,
            total_bytes,
            overcommit: options.overcommit,
            next_event: AtomicU64::new(1),
            state: Mutex::new(State { created_bytes, ..State::default() }),
        })
    }

    fn check(&self, device: u32) -> Result<()> {
        if device < self.device_count {
            return Ok(());
        }
        Err(Error::new(Status::E_DEVICE, "host: no device of this index"))
    }

    /// Makes a run of adjacent file offsets accessible at an address inside a reservation.
    fn map_file(&self, addr: u64, size_bytes: u64, offset: u64) -> Result<()> {
        // SAFETY: the caller holds the state lock and has found the range inside one reservation,
        // noted as mapped to these offsets, so nothing else lives there.
        let at = unsafe {
            libc::mmap(
                addr as *mut c_void,
                size_bytes as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE,
                self.file.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(failed(Status::E_OUT_OF_MEMORY, "mmap (or vm.max_map_count reached)"));
        }
        Ok(())
    }

    /// Gives the pages of an offset range back to the system.
    fn punch(&self, offset: u64, size_bytes: u64) -> Result<()> {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: the descriptor is open and the range belongs to a handle that is gone.
        let rc = unsafe {
            libc::fallocate(self.file.as_raw_fd(), mode, offset as i64, size_bytes as i64)
        };
        if rc != 0 {
            return Err(failed(Status::E_DRIVER, "fallocate (punch hole)"));
        }
        Ok(())
    }

    /// Gives back the pages of handles that the state no longer knows. Slow for memory that was
    /// touched, so it runs without the lock.
    fn discard(&self, mut state: MutexGuard<'_, State>, gone: Gone) -> Result<()> {
        if gone.is_empty() {
            return Ok(());
        }
        state.discarding += 1;
        drop(state);
        let mut result = Ok(());
        for (offset, size_bytes) in gone {
            result = result.and(self.punch(offset, size_bytes));
        }
        self.state.lock().discarding -= 1;
        result
    }
}

impl Backend for Host {
    fn kind(&self) -> BackendKind {
        BackendKind::Host
    }

    fn device_count(&self) -> u32 {
        self.device_count
    }

    fn device_info(&self, device: u32) -> Result<DeviceInfo> {
        self.check(device)?;
        Ok(DeviceInfo {
            name: "host memory".to_owned(),
            uuid: String::new(),
            total_bytes: self.total_bytes,
            page_bytes: PAGE_BYTES,
            compute_capability: 0,
            caps: Caps { virtual_memory: true, host_visible: true, alias: true, ..Caps::default() },
        })
    }

    fn current_device(&self, fallback: u32) -> Result<u32> {
        self.check(fallback).map(|()| fallback)
    }

    fn activate(&self, device: u32) -> Result<()> {
        self.check(device)
    }

    fn mem_info(&self, device: u32) -> Result<MemInfo> {
        self.check(device)?;
        let created = self.state.lock().created_bytes[device as usize];
        let available = meminfo::read().map_or(u64::MAX, |memory| memory.available_bytes);
        let free_bytes = self.total_bytes.saturating_sub(created).min(available);
        Ok(MemInfo { free_bytes, total_bytes: self.total_bytes })
    }

    fn reserve(&self, device: u32, size_bytes: u64, align_bytes: u64) -> Result<u64> {
        self.check(device)?;
        if size_bytes == 0 || !size_bytes.is_multiple_of(PAGE_BYTES) {
            return Err(illegal("host reserve: the size is not a multiple of the page"));
        }
        if align_bytes != 0 && !align_bytes.is_power_of_two() {
            return Err(illegal("host reserve: the alignment is not a power of two"));
        }
        let base = reserve_aligned(size_bytes, align_bytes.max(PAGE_BYTES))?;
        self.state.lock().reservations.insert(base, size_bytes);
        Ok(base)
    }

    fn unreserve(&self, device: u32, addr: u64, size_bytes: u64) -> Result<()> {
        self.check(device)?;
        let mut state = self.state.lock();
        if state.reservations.get(&addr) != Some(&size_bytes) {
            return Err(illegal("host unreserve: not a whole reservation"));
        }
        if state.overlaps(addr, size_bytes) {
            return Err(illegal("host unreserve: the range has mappings"));
        }
        munmap(addr, size_bytes, "munmap (unreserve)")?;
        state.reservations.remove(&addr);
        Ok(())
    }

    fn create(&self, device: u32, size_bytes: u64) -> Result<PhysHandle> {
        self.check(device)?;
        if size_bytes == 0 || !size_bytes.is_multiple_of(PAGE_BYTES) {
            return Err(illegal("host create: the size is not a multiple of the page"));
        }
        let mut state = self.state.lock();
        let room = self.total_bytes.saturating_sub(state.created_bytes[device as usize]);
        if size_bytes > room && !self.overcommit {
            return Err(Error::new(Status::E_OUT_OF_MEMORY, "host create").bytes(size_bytes, room));
        }
        if state.next_offset > FILE_BYTES / 2 && state.handles.is_empty() && state.discarding == 0 {
            state.next_offset = 0;
        }
        let offset = state.next_offset;
        if size_bytes > FILE_BYTES - offset {
            return Err(Error::new(Status::E_OUT_OF_MEMORY, "host create").bytes(size_bytes, 0));
        }
        state.next_offset = offset + size_bytes;
        state.created_bytes[device as usize] += size_bytes;
        let handle = offset / PAGE_BYTES + 1;
        let physical = Physical { device, size_bytes, mapped: 0, released: false, touched: false };
        state.handles.insert(handle, physical);
        Ok(PhysHandle(handle))
    }

    fn release(&self, device: u32, handle: PhysHandle, size_bytes: u64) -> Result<()> {
        self.check(device)?;
        let mut gone = Gone::new();
        let mut state = self.state.lock();
        match state.handles.get_mut(&handle.0) {
            Some(physical)
                if !physical.released
                    && physical.device == device
                    && physical.size_bytes == size_bytes =>
            {
                physical.released = true;
            }
            _ => return Err(illegal("host release: not a live handle of this device and size")),
        }
        state.forget_if_unused(handle.0, &mut gone);
        self.discard(state, gone)
    }

    fn map(&self, device: u32, addr: u64, size_bytes: u64, handle: PhysHandle) -> Result<()> {
        self.check(device)?;
        let mut state = self.state.lock();
        if !addr.is_multiple_of(PAGE_BYTES) || !state.reserved(addr, size_bytes) {
            return Err(illegal("host map: the range is not inside a reservation"));
        }
        if state.overlaps(addr, size_bytes) {
            return Err(illegal("host map: the range has mappings"));
        }
        match state.handles.get_mut(&handle.0) {
            Some(physical)
                if !physical.released
                    && physical.device == device
                    && physical.size_bytes == size_bytes =>
            {
                physical.mapped += 1;
            }
            _ => return Err(illegal("host map: not a live handle of this device and size")),
        }
        state.mappings.insert(addr, Mapping { size_bytes, handle: handle.0, accessible: false });
        Ok(())
    }

    fn set_access(&self, device: u32, addr: u64, size_bytes: u64) -> Result<()> {
        self.check(device)?;
        let mut state = self.state.lock();
        if !state.filled(device, addr, size_bytes) {
            return Err(illegal("host set_access: not a range of whole mappings"));
        }
        for (at, length, offset) in state.runs(addr, size_bytes) {
            self.map_file(at, length, offset)?;
            state.mark_accessible(at, length);
        }
        Ok(())
    }

    fn unmap(&self, device: u32, addr: u64, size_bytes: u64) -> Result<()> {
        self.check(device)?;
        let mut gone = Gone::new();
        let mut state = self.state.lock();
        if !state.filled(device, addr, size_bytes) {
            return Err(illegal("host unmap: not a range of whole mappings"));
        }
        seal(addr, size_bytes)?;
        let mut at = addr;
        while at < addr + size_bytes {
            let Some(mapping) = state.mappings.remove(&at) else { break };
            if let Some(physical) = state.handles.get_mut(&mapping.handle) {
                physical.mapped -= 1;
            }
            state.forget_if_unused(mapping.handle, &mut gone);
            at += mapping.size_bytes;
        }
        self.discard(state, gone)
    }

    fn fixed_address(&self, _device: u32, _handle: PhysHandle) -> Result<u64> {
        Err(Error::new(Status::E_NOT_SUPPORTED, "host: memory has no address until it is mapped"))
    }

    fn export_fd(&self, _device: u32, _handle: PhysHandle) -> Result<i32> {
        Err(Error::new(Status::E_NOT_SUPPORTED, "host: handles are ranges of one file"))
    }

    fn identify(&self, device: u32, stream: u64) -> Result<StreamIdentity> {
        Ok(StreamIdentity { id: stream, device, capture: None })
    }

    fn capture(&self, _device: u32, _stream: u64) -> Result<Option<CaptureInfo>> {
        Ok(None)
    }

    fn event_create(&self, device: u32) -> Result<EventHandle> {
        self.check(device)?;
        Ok(EventHandle(self.next_event.fetch_add(1, Ordering::Relaxed)))
    }

    fn event_destroy(&self, device: u32, _event: EventHandle) -> Result<()> {
        self.check(device)
    }

    fn event_record(&self, device: u32, _event: EventHandle, _stream: u64) -> Result<()> {
        self.check(device)
    }

    fn event_record_context(&self, device: u32, _event: EventHandle) -> Result<()> {
        self.check(device)
    }

    fn event_query(&self, device: u32, _event: EventHandle) -> Result<bool> {
        self.check(device).map(|()| true)
    }

    fn event_wait(&self, device: u32, _event: EventHandle, _timeout_ms: u64) -> Result<bool> {
        self.check(device).map(|()| true)
    }

    fn stream_wait(&self, device: u32, _stream: u64, _event: EventHandle) -> Result<()> {
        self.check(device)
    }

    fn graph_retain(
        &self,
        _device: u32,
        _graph: u64,
        _gone: GraphGone,
        _cookie: *mut c_void,
    ) -> Result<()> {
        Err(Error::new(Status::E_NOT_SUPPORTED, "host: there are no graphs"))
    }

    fn copy(&self, device: u32, dst: u64, src: u64, size_bytes: u64, _stream: u64) -> Result<()> {
        self.check(device)?;
        // SAFETY: the caller promises that both ranges are accessible; they may overlap.
        unsafe { std::ptr::copy(src as *const u8, dst as *mut u8, size_bytes as usize) };
        Ok(())
    }

    fn fill(&self, device: u32, dst: u64, value: u8, size_bytes: u64, _stream: u64) -> Result<()> {
        self.check(device)?;
        // SAFETY: the caller promises that the range is accessible.
        unsafe { std::ptr::write_bytes(dst as *mut u8, value, size_bytes as usize) };
        Ok(())
    }

    fn synchronize(&self, device: u32) -> Result<()> {
        self.check(device)
    }

    fn sticky(&self) -> Option<Error> {
        None
    }

    fn driver_version(&self) -> u32 {
        0
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        for (&addr, &size_bytes) in &self.state.get_mut().reservations {
            // Nobody can be told here, and nothing is lost if the system refuses.
            let _ = munmap(addr, size_bytes, "munmap (drop)");
        }
    }
}
