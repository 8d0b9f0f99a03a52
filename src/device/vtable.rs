//! A backend given by the caller as a table of C functions.
//!
//! The table is checked once, when the backend is made. A function that fails returns a code of its
//! own, which the error carries. Memory is used by the CPU directly where the table says that it
//! can.

use std::collections::BTreeMap;
use std::ffi::c_void;

use parking_lot::Mutex;

use super::{
    wait, Backend, BackendKind, Caps, CaptureInfo, DeviceInfo, EventHandle, GraphGone, MemInfo,
    PhysHandle, StreamIdentity,
};
use crate::base::{Error, Result, Status};

/// A backend given by the caller: an accelerator that cenote does not know. Every function returns
/// 0 or an error code of its own, may be called from any thread, and must not call cenote. `user`
/// is passed to each. Functions marked optional may be NULL.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types, reason = "C name")]
pub struct cenote_backend_vtable {
    /// sizeof(cenote_backend_vtable), set by the caller.
    pub struct_size: u32,
    /// Number of devices, at least 1.
    pub device_count: u32,
    /// Smallest unit of physical memory in bytes: a power of two, at least 4096.
    pub page_bytes: u64,
    /// Bytes of memory of each device.
    pub total_bytes: u64,
    /// 1 if the CPU can use the addresses.
    pub host_visible: u32,
    /// 1 if work is asynchronous, so that frees need the event functions below.
    pub asynchronous: u32,
    /// Passed to every function.
    pub user: *mut std::ffi::c_void,
    /// Reserve addresses.
    pub reserve: Option<
        unsafe extern "C" fn(
            user: *mut std::ffi::c_void,
            device: u32,
            size_bytes: u64,
            align_bytes: u64,
            addr: *mut u64,
        ) -> i32,
    >,
    /// Give a reservation back.
    pub unreserve: Option<
        unsafe extern "C" fn(
            user: *mut std::ffi::c_void,
            device: u32,
            addr: u64,
            size_bytes: u64,
        ) -> i32,
    >,
    /// Create physical memory; any non-zero result counts as out of memory.
    pub create: Option<
        unsafe extern "C" fn(
            user: *mut std::ffi::c_void,
            device: u32,
            size_bytes: u64,
            handle: *mut u64,
        ) -> i32,
    >,
    /// Release physical memory.
    pub release: Option<
        unsafe extern "C" fn(
            user: *mut std::ffi::c_void,
            device: u32,
            handle: u64,
            size_bytes: u64,
        ) -> i32,
    >,
    /// Map a whole handle and make it accessible.
    pub map: Option<
        unsafe extern "C" fn(
            user: *mut std::ffi::c_void,
            device: u32,
            addr: u64,
            size_bytes: u64,
            handle: u64,
        ) -> i32,
    >,
    /// Unmap a whole mapping.
    pub unmap: Option<
        unsafe extern "C" fn(
            user: *mut std::ffi::c_void,
            device: u32,
            addr: u64,
            size_bytes: u64,
        ) -> i32,
    >,
    /// Optional: free and total bytes.
    pub mem_info: Option<
        unsafe extern "C" fn(
            user: *mut std::ffi::c_void,
            device: u32,
            free_bytes: *mut u64,
            total_bytes: *mut u64,
        ) -> i32,
    >,
    /// Create an event; needed if asynchronous.
    pub event_create: Option<
        unsafe extern "C" fn(user: *mut std::ffi::c_void, device: u32, event: *mut u64) -> i32,
    >,
    /// Destroy an event; needed if asynchronous.
    pub event_destroy:
        Option<unsafe extern "C" fn(user: *mut std::ffi::c_void, device: u32, event: u64) -> i32>,
    /// Record an event on a stream; needed if asynchronous.
    pub event_record: Option<
        unsafe extern "C" fn(
            user: *mut std::ffi::c_void,
            device: u32,
            event: u64,
            stream: u64,
        ) -> i32,
    >,
    /// Set *done to 1 if the event is complete, else 0; needed if asynchronous.
    pub event_query: Option<
        unsafe extern "C" fn(
            user: *mut std::ffi::c_void,
            device: u32,
            event: u64,
            done: *mut u32,
        ) -> i32,
    >,
    /// Wait for everything on the device; needed if asynchronous.
    pub synchronize: Option<unsafe extern "C" fn(user: *mut std::ffi::c_void, device: u32) -> i32>,
}

/// Most devices of one table.
const MAX_DEVICES: u32 = 64;
/// Smallest page of any machine that Linux runs on.
const MIN_PAGE_BYTES: u64 = 4096;

/// What the table's functions were told, so that nothing illegal reaches them.
#[derive(Default)]
struct Book {
    created_bytes: Vec<u64>,
    /// Start to length and device of each mapping.
    mappings: BTreeMap<u64, (u64, u32)>,
}

/// A backend over a caller's table.
pub struct Vtable {
    table: cenote_backend_vtable,
    book: Mutex<Book>,
}

// SAFETY: the contract of the table says that every function may be called from any thread, and
// `user` is only passed on.
unsafe impl Send for Vtable {}
// SAFETY: as above.
unsafe impl Sync for Vtable {}

/// Calls a function of the table; `check` made sure that those which are needed exist.
macro_rules! call {
    ($self:ident, $status:expr, $name:ident($($arg:expr),*)) => {
        match $self.table.$name {
            // SAFETY: the caller of the ABI vouches for its functions, and pointers given to them
            // are to locals that outlive the call.
            Some(function) => match unsafe { function($self.table.user, $($arg),*) } {
                0 => Ok(()),
                code => Err(Error::backend($status, concat!("vtable ", stringify!($name)), code)),
            },
            None => Err(Error::new(Status::E_NOT_SUPPORTED, concat!("vtable ", stringify!($name)))),
        }
    };
}

/// Whether a table can serve: what is missing or out of range, if anything.
fn check(table: &cenote_backend_vtable) -> Result<()> {
    let argument = |what| Err(Error::new(Status::E_ARGUMENT, what));
    if table.device_count == 0 || table.device_count > MAX_DEVICES {
        return argument("vtable device_count: 1 to 64");
    }
    if !table.page_bytes.is_power_of_two() || table.page_bytes < MIN_PAGE_BYTES {
        return argument("vtable page_bytes: a power of two, at least 4096");
    }
    if table.total_bytes < table.page_bytes {
        return argument("vtable total_bytes: at least one page");
    }
    if table.host_visible > 1 || table.asynchronous > 1 {
        return argument("vtable host_visible and asynchronous: 0 or 1");
    }
    let needed = [
        (table.reserve.is_some(), "vtable reserve is NULL"),
        (table.unreserve.is_some(), "vtable unreserve is NULL"),
        (table.create.is_some(), "vtable create is NULL"),
        (table.release.is_some(), "vtable release is NULL"),
        (table.map.is_some(), "vtable map is NULL"),
        (table.unmap.is_some(), "vtable unmap is NULL"),
    ];
    let needed_if_asynchronous = [
        (table.event_create.is_some(), "vtable event_create is NULL"),
        (table.event_destroy.is_some(), "vtable event_destroy is NULL"),
        (table.event_record.is_some(), "vtable event_record is NULL"),
        (table.event_query.is_some(), "vtable event_query is NULL"),
        (table.synchronize.is_some(), "vtable synchronize is NULL"),
    ];
    let events = needed_if_asynchronous.iter().take_while(|_| table.asynchronous == 1);
    match needed.iter().chain(events).find(|(present, _)| !present) {
        Some(&(_, what)) => Err(Error::new(Status::E_NULL, what)),
        None => Ok(()),
    }
}

impl Vtable {
    /// Checks the table and takes a copy of it.
    pub fn new(table: cenote_backend_vtable) -> Result<Vtable> {
        check(&table)?;
        let created_bytes = vec![0; table.device_count as usize];
        Ok(Vtable { table, book: Mutex::new(Book { created_bytes, ..Book::default() }) })
    }

    fn check_device(&self, device: u32) -> Result<()> {
        if device < self.table.device_count {
            return Ok(());
        }
        Err(Error::new(Status::E_DEVICE, "vtable: no device of this index"))
    }

    fn check_size(&self, size_bytes: u64, what: &'static str) -> Result<()> {
        if size_bytes != 0 && size_bytes.is_multiple_of(self.table.page_bytes) {
            return Ok(());
        }
        Err(Error::new(Status::E_DRIVER, what))
    }

    fn asynchronous(&self) -> bool {
        self.table.asynchronous == 1
    }

    /// Starts and lengths of the whole mappings that fill a range.
    fn mappings(&self, device: u32, addr: u64, size_bytes: u64) -> Result<Vec<(u64, u64)>> {
        let refused = Error::new(Status::E_DRIVER, "vtable: not a range of whole mappings");
        let end = addr.checked_add(size_bytes).ok_or(refused)?;
        let mut at = addr;
        let mut found = Vec::new();
        for (&start, &(length, owner)) in self.book.lock().mappings.range(addr..end) {
            if start != at || owner != device {
                return Err(refused);
            }
            found.push((start, length));
            at += length;
        }
        if found.is_empty() || at != end {
            return Err(refused);
        }
        Ok(found)
    }

    /// Makes sure that the CPU may touch the memory now.
    fn cpu_access(&self, device: u32) -> Result<()> {
        self.check_device(device)?;
        if self.table.host_visible == 0 {
            return Err(Error::new(
                Status::E_NOT_SUPPORTED,
                "vtable: the CPU cannot use the memory",
            ));
        }
        self.synchronize(device)
    }
}

impl Backend for Vtable {
    fn kind(&self) -> BackendKind {
        BackendKind::Vtable
    }

    fn device_count(&self) -> u32 {
        self.table.device_count
    }

    fn device_info(&self, device: u32) -> Result<DeviceInfo> {
        self.check_device(device)?;
        Ok(DeviceInfo {
            name: "vtable device".to_owned(),
            uuid: String::new(),
            total_bytes: self.table.total_bytes,
            page_bytes: self.table.page_bytes,
            compute_capability: 0,
            caps: Caps {
                virtual_memory: true,
                host_visible: self.table.host_visible == 1,
                asynchronous: self.asynchronous(),
                ..Caps::default()
            },
        })
    }

    fn current_device(&self, fallback: u32) -> Result<u32> {
        self.check_device(fallback).map(|()| fallback)
    }

    fn activate(&self, device: u32) -> Result<()> {
        self.check_device(device)
    }

    fn mem_info(&self, device: u32) -> Result<MemInfo> {
        self.check_device(device)?;
        if self.table.mem_info.is_none() {
            let total_bytes = self.table.total_bytes;
            let created = self.book.lock().created_bytes[device as usize];
            return Ok(MemInfo { free_bytes: total_bytes.saturating_sub(created), total_bytes });
        }
        let (mut free_bytes, mut total_bytes) = (0, 0);
        call!(self, Status::E_DRIVER, mem_info(device, &mut free_bytes, &mut total_bytes))?;
        Ok(MemInfo { free_bytes, total_bytes })
    }

    fn reserve(&self, device: u32, size_bytes: u64, align_bytes: u64) -> Result<u64> {
        self.check_device(device)?;
        self.check_size(size_bytes, "vtable reserve: the size is not a multiple of the page")?;
        if align_bytes != 0 && !align_bytes.is_power_of_two() {
            let what = "vtable reserve: the alignment is not a power of two";
            return Err(Error::new(Status::E_DRIVER, what));
        }
        let align = align_bytes.max(self.table.page_bytes);
        let mut addr = 0;
        call!(self, Status::E_ADDRESS_SPACE, reserve(device, size_bytes, align, &mut addr))?;
        if addr == 0 || !addr.is_multiple_of(align) || addr.checked_add(size_bytes).is_none() {
            // Only the first error is of use.
            let _ = call!(self, Status::E_DRIVER, unreserve(device, addr, size_bytes));
            let what = "vtable reserve: the address is 0, misaligned or too high";
            return Err(Error::new(Status::E_DRIVER, what));
        }
        Ok(addr)
    }

    fn unreserve(&self, device: u32, addr: u64, size_bytes: u64) -> Result<()> {
        self.check_device(device)?;
        let end = addr.saturating_add(size_bytes);
        if self.book.lock().mappings.range(addr..end).next().is_some() {
            return Err(Error::new(Status::E_DRIVER, "vtable unreserve: the range has mappings"));
        }
        call!(self, Status::E_DRIVER, unreserve(device, addr, size_bytes))
    }

    fn create(&self, device: u32, size_bytes: u64) -> Result<PhysHandle> {
        self.check_device(device)?;
        self.check_size(size_bytes, "vtable create: the size is not a multiple of the page")?;
        let mut handle = 0;
        call!(self, Status::E_OUT_OF_MEMORY, create(device, size_bytes, &mut handle))
            .map_err(|error: Error| error.bytes(size_bytes, 0))?;
        self.book.lock().created_bytes[device as usize] += size_bytes;
        Ok(PhysHandle(handle))
    }

    fn release(&self, device: u32, handle: PhysHandle, size_bytes: u64) -> Result<()> {
        self.check_device(device)?;
        call!(self, Status::E_DRIVER, release(device, handle.0, size_bytes))?;
        let created = &mut self.book.lock().created_bytes[device as usize];
        *created = created.saturating_sub(size_bytes);
        Ok(())
    }

    fn map(&self, device: u32, addr: u64, size_bytes: u64, handle: PhysHandle) -> Result<()> {
        self.check_device(device)?;
        self.check_size(size_bytes, "vtable map: the size is not a multiple of the page")?;
        call!(self, Status::E_DRIVER, map(device, addr, size_bytes, handle.0))?;
        self.book.lock().mappings.insert(addr, (size_bytes, device));
        Ok(())
    }

    /// The table's `map` made the memory accessible already.
    fn set_access(&self, device: u32, addr: u64, size_bytes: u64) -> Result<()> {
        self.check_device(device)?;
        self.mappings(device, addr, size_bytes).map(|_| ())
    }

    fn unmap(&self, device: u32, addr: u64, size_bytes: u64) -> Result<()> {
        self.check_device(device)?;
        for (start, length) in self.mappings(device, addr, size_bytes)? {
            call!(self, Status::E_DRIVER, unmap(device, start, length))?;
            self.book.lock().mappings.remove(&start);
        }
        Ok(())
    }

    fn fixed_address(&self, _device: u32, _handle: PhysHandle) -> Result<u64> {
        Err(Error::new(Status::E_NOT_SUPPORTED, "vtable: memory has no address until it is mapped"))
    }

    fn export_fd(&self, _device: u32, _handle: PhysHandle) -> Result<i32> {
        Err(Error::new(Status::E_NOT_SUPPORTED, "vtable: handles cannot be exported"))
    }

    fn identify(&self, device: u32, stream: u64) -> Result<StreamIdentity> {
        self.check_device(device)?;
        Ok(StreamIdentity { id: stream, device, capture: None })
    }

    fn capture(&self, _device: u32, _stream: u64) -> Result<Option<CaptureInfo>> {
        Ok(None)
    }

    fn event_create(&self, device: u32) -> Result<EventHandle> {
        self.check_device(device)?;
        let mut event = 0;
        if self.asynchronous() {
            call!(self, Status::E_DRIVER, event_create(device, &mut event))?;
        }
        Ok(EventHandle(event))
    }

    fn event_destroy(&self, device: u32, event: EventHandle) -> Result<()> {
        self.check_device(device)?;
        if !self.asynchronous() {
            return Ok(());
        }
        call!(self, Status::E_DRIVER, event_destroy(device, event.0))
    }

    fn event_record(&self, device: u32, event: EventHandle, stream: u64) -> Result<()> {
        self.check_device(device)?;
        if !self.asynchronous() {
            return Ok(());
        }
        call!(self, Status::E_DRIVER, event_record(device, event.0, stream))
    }

    fn event_record_context(&self, device: u32, _event: EventHandle) -> Result<()> {
        self.check_device(device)?;
        if !self.asynchronous() {
            return Ok(());
        }
        Err(Error::new(Status::E_NOT_SUPPORTED, "vtable: no event covers all streams"))
    }

    fn event_query(&self, device: u32, event: EventHandle) -> Result<bool> {
        self.check_device(device)?;
        if !self.asynchronous() {
            return Ok(true);
        }
        let mut done = 0;
        call!(self, Status::E_DRIVER, event_query(device, event.0, &mut done))?;
        Ok(done != 0)
    }

    fn event_wait(&self, device: u32, event: EventHandle, timeout_ms: u64) -> Result<bool> {
        wait::poll(timeout_ms, || self.event_query(device, event))
    }

    fn stream_wait(&self, device: u32, _stream: u64, _event: EventHandle) -> Result<()> {
        self.check_device(device)?;
        if !self.asynchronous() {
            return Ok(());
        }
        Err(Error::new(Status::E_NOT_SUPPORTED, "vtable: streams cannot wait for events"))
    }

    fn graph_retain(
        &self,
        _device: u32,
        _graph: u64,
        _gone: GraphGone,
        _cookie: *mut c_void,
    ) -> Result<()> {
        Err(Error::new(Status::E_NOT_SUPPORTED, "vtable: there are no graphs"))
    }

    fn copy(&self, device: u32, dst: u64, src: u64, size_bytes: u64, _stream: u64) -> Result<()> {
        self.cpu_access(device)?;
        // SAFETY: the CPU may use the addresses, all work is finished, and the caller promises that
        // both ranges are accessible; they may overlap.
        unsafe { std::ptr::copy(src as *const u8, dst as *mut u8, size_bytes as usize) };
        Ok(())
    }

    fn fill(&self, device: u32, dst: u64, value: u8, size_bytes: u64, _stream: u64) -> Result<()> {
        self.cpu_access(device)?;
        // SAFETY: as for `copy`.
        unsafe { std::ptr::write_bytes(dst as *mut u8, value, size_bytes as usize) };
        Ok(())
    }

    fn synchronize(&self, device: u32) -> Result<()> {
        self.check_device(device)?;
        if !self.asynchronous() {
            return Ok(());
        }
        call!(self, Status::E_DRIVER, synchronize(device))
    }

    fn sticky(&self) -> Option<Error> {
        None
    }

    fn driver_version(&self) -> u32 {
        0
    }
}
