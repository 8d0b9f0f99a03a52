//! A backend around another that can watch every call, and break one rule on purpose.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use cenote::base::{Error, Result, Status};
use cenote::device::{
    Backend, BackendKind, Caps, CaptureInfo, DeviceInfo, EventHandle, GraphGone, MemInfo,
    PhysHandle, StreamIdentity,
};
use parking_lot::Mutex;

/// One broken rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    None,
    OddPage,
    AnyDevice,
    WrongCurrentDevice,
    ConstantFree,
    NoAlignment,
    MapsACopy,
    AllowsAnyMap,
    AllowsAnyAccess,
    UnmapsNothing,
    UnmapsAnyPart,
    ReleaseUnmaps,
    ReleasesTwice,
    CreatesAnySize,
    WrongOutOfMemory,
    WrongAddressSpace,
    NotThreadSafe,
    FixedAddress,
    ShortFill,
    NeverComplete,
    NewIdentityEachTime,
    OneIdentityForAll,
    AlwaysCaptured,
    ExportsNothing,
}

/// The wrapper.
pub struct Spy {
    pub inner: Box<dyn Backend>,
    pub flaw: Flaw,
    /// Told of each call's name after it.
    pub after: Box<dyn Fn(&'static str) + Send + Sync>,
    count: AtomicU64,
    /// The newest mapping, as address and length by handle.
    mapped: Mutex<HashMap<u64, (u64, u64)>>,
}

impl Spy {
    pub fn new(inner: Box<dyn Backend>, flaw: Flaw) -> Spy {
        let after = Box::new(|_| ());
        Spy { inner, flaw, after, count: AtomicU64::new(0), mapped: Mutex::default() }
    }

    fn is(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    fn next(&self) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed)
    }

    fn seen<T>(&self, name: &'static str, result: T) -> T {
        (self.after)(name);
        result
    }

    /// A result in which one flaw hides every refusal.
    fn hide(&self, flaw: Flaw, result: Result<()>) -> Result<()> {
        if self.is(flaw) {
            return Ok(());
        }
        result
    }
}

impl Backend for Spy {
    fn kind(&self) -> BackendKind {
        self.inner.kind()
    }

    fn device_count(&self) -> u32 {
        self.seen("device_count", self.inner.device_count())
    }

    fn device_info(&self, device: u32) -> Result<DeviceInfo> {
        let device = if self.is(Flaw::AnyDevice) { 0 } else { device };
        let mut info = self.seen("device_info", self.inner.device_info(device))?;
        if self.is(Flaw::OddPage) {
            info.page_bytes += 1;
        }
        info.caps =
            Caps { export_fd: info.caps.export_fd || self.is(Flaw::ExportsNothing), ..info.caps };
        Ok(info)
    }

    fn current_device(&self, fallback: u32) -> Result<u32> {
        let current = self.seen("current_device", self.inner.current_device(fallback))?;
        Ok(current + u32::from(self.is(Flaw::WrongCurrentDevice)))
    }

    fn activate(&self, device: u32) -> Result<()> {
        self.seen("activate", self.inner.activate(device))
    }

    fn mem_info(&self, device: u32) -> Result<MemInfo> {
        let info = self.seen("mem_info", self.inner.mem_info(device))?;
        if self.is(Flaw::ConstantFree) {
            return Ok(MemInfo { free_bytes: info.total_bytes, ..info });
        }
        Ok(info)
    }

    fn reserve(&self, device: u32, size_bytes: u64, align_bytes: u64) -> Result<u64> {
        let align = if self.is(Flaw::NoAlignment) { 0 } else { align_bytes };
        let mut result = self.seen("reserve", self.inner.reserve(device, size_bytes, align));
        if let (Err(error), true) = (&mut result, self.is(Flaw::WrongAddressSpace)) {
            error.status = Status::E_DRIVER;
        }
        result
    }

    fn unreserve(&self, device: u32, addr: u64, size_bytes: u64) -> Result<()> {
        self.seen("unreserve", self.inner.unreserve(device, addr, size_bytes))
    }

    fn create(&self, device: u32, size_bytes: u64) -> Result<PhysHandle> {
        let page = self.inner.device_info(device)?.page_bytes;
        let size = match self.flaw {
            Flaw::CreatesAnySize => size_bytes.max(1).next_multiple_of(page),
            _ => size_bytes,
        };
        let mut result = self.seen("create", self.inner.create(device, size));
        if let (Err(error), true) = (&mut result, self.is(Flaw::WrongOutOfMemory)) {
            error.status = Status::E_DRIVER;
        }
        result
    }

    fn release(&self, device: u32, handle: PhysHandle, size_bytes: u64) -> Result<()> {
        let result = self.seen("release", self.inner.release(device, handle, size_bytes));
        if let (true, Some((addr, length))) =
            (self.is(Flaw::ReleaseUnmaps), self.mapped.lock().remove(&handle.0))
        {
            self.inner.unmap(device, addr, length)?;
            self.inner.map(device, addr, length, self.inner.create(device, length)?)?;
            self.inner.set_access(device, addr, length)?;
        }
        self.hide(Flaw::ReleasesTwice, result)
    }

    fn map(&self, device: u32, addr: u64, size_bytes: u64, handle: PhysHandle) -> Result<()> {
        let handle = match self.flaw {
            Flaw::MapsACopy => self.inner.create(device, size_bytes)?,
            _ => handle,
        };
        let result = self.seen("map", self.inner.map(device, addr, size_bytes, handle));
        self.mapped.lock().insert(handle.0, (addr, size_bytes));
        self.hide(Flaw::AllowsAnyMap, result)
    }

    fn set_access(&self, device: u32, addr: u64, size_bytes: u64) -> Result<()> {
        let result = self.seen("set_access", self.inner.set_access(device, addr, size_bytes));
        self.hide(Flaw::AllowsAnyAccess, result)
    }

    fn unmap(&self, device: u32, addr: u64, size_bytes: u64) -> Result<()> {
        if self.is(Flaw::UnmapsNothing) {
            return Ok(());
        }
        let result = self.seen("unmap", self.inner.unmap(device, addr, size_bytes));
        self.hide(Flaw::UnmapsAnyPart, result)
    }

    fn fixed_address(&self, device: u32, handle: PhysHandle) -> Result<u64> {
        if self.is(Flaw::FixedAddress) {
            return Ok(1 << 21);
        }
        self.seen("fixed_address", self.inner.fixed_address(device, handle))
    }

    fn export_fd(&self, device: u32, handle: PhysHandle) -> Result<i32> {
        self.seen("export_fd", self.inner.export_fd(device, handle))
    }

    fn identify(&self, device: u32, stream: u64) -> Result<StreamIdentity> {
        let mut identity = self.seen("identify", self.inner.identify(device, stream))?;
        match self.flaw {
            Flaw::NewIdentityEachTime => identity.id = 1000 + self.next(),
            Flaw::OneIdentityForAll => identity.id = 1,
            Flaw::AlwaysCaptured => identity.capture = Some(CaptureInfo { id: 1, graph: 1 }),
            _ => {}
        }
        Ok(identity)
    }

    fn capture(&self, device: u32, stream: u64) -> Result<Option<CaptureInfo>> {
        self.seen("capture", self.inner.capture(device, stream))
    }

    fn event_create(&self, device: u32) -> Result<EventHandle> {
        self.seen("event_create", self.inner.event_create(device))
    }

    fn event_destroy(&self, device: u32, event: EventHandle) -> Result<()> {
        self.seen("event_destroy", self.inner.event_destroy(device, event))
    }

    fn event_record(&self, device: u32, event: EventHandle, stream: u64) -> Result<()> {
        self.seen("event_record", self.inner.event_record(device, event, stream))
    }

    fn event_record_context(&self, device: u32, event: EventHandle) -> Result<()> {
        self.seen("event_record_context", self.inner.event_record_context(device, event))
    }

    fn event_query(&self, device: u32, event: EventHandle) -> Result<bool> {
        let done = self.seen("event_query", self.inner.event_query(device, event))?;
        Ok(done && !self.is(Flaw::NeverComplete))
    }

    fn event_wait(&self, device: u32, event: EventHandle, timeout_ms: u64) -> Result<bool> {
        self.seen("event_wait", self.inner.event_wait(device, event, timeout_ms))
    }

    fn stream_wait(&self, device: u32, stream: u64, event: EventHandle) -> Result<()> {
        self.seen("stream_wait", self.inner.stream_wait(device, stream, event))
    }

    fn graph_retain(
        &self,
        device: u32,
        graph: u64,
        gone: GraphGone,
        cookie: *mut c_void,
    ) -> Result<()> {
        self.seen("graph_retain", self.inner.graph_retain(device, graph, gone, cookie))
    }

    fn copy(&self, device: u32, dst: u64, src: u64, size_bytes: u64, stream: u64) -> Result<()> {
        if self.is(Flaw::NotThreadSafe) && std::thread::current().name().is_none() {
            return self.inner.copy(device, dst, src, size_bytes / 2, stream);
        }
        self.seen("copy", self.inner.copy(device, dst, src, size_bytes, stream))
    }

    fn fill(&self, device: u32, dst: u64, value: u8, size_bytes: u64, stream: u64) -> Result<()> {
        let size = size_bytes.saturating_sub(u64::from(self.is(Flaw::ShortFill)));
        self.seen("fill", self.inner.fill(device, dst, value, size, stream))
    }

    fn synchronize(&self, device: u32) -> Result<()> {
        self.seen("synchronize", self.inner.synchronize(device))
    }

    fn sticky(&self) -> Option<Error> {
        self.inner.sticky()
    }

    fn driver_version(&self) -> u32 {
        self.inner.driver_version()
    }
}
