//! A wrapper that lets events complete late: a GPU behind its CPU, on any backend.
//!
//! Time is counted in operations. An event is complete once the inner event is and `lag` operations
//! have passed since it was recorded. Waiting on the host lets the time pass at once.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{
    Backend, BackendKind, Caps, CaptureInfo, DeviceInfo, EventHandle, GraphGone, MemInfo,
    PhysHandle, StreamIdentity,
};
use crate::base::{Error, Result, Status};

/// Advances the time of a `Delayed` backend.
#[derive(Clone, Debug)]
pub struct Ticker(Arc<AtomicU64>);

impl Ticker {
    /// One operation has passed.
    pub fn tick(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A backend whose events complete `lag` operations late.
pub struct Delayed {
    inner: Box<dyn Backend>,
    lag: u64,
    clock: Arc<AtomicU64>,
    /// The time at which each event of this wrapper completes; 0 before it is recorded.
    due: Mutex<HashMap<u64, u64>>,
}

impl Delayed {
    /// Wraps a backend; the ticker tells it that an operation has passed.
    pub fn new(inner: Box<dyn Backend>, lag: u64) -> (Delayed, Ticker) {
        let clock = Arc::new(AtomicU64::new(0));
        let ticker = Ticker(Arc::clone(&clock));
        (Delayed { inner, lag, clock, due: Mutex::default() }, ticker)
    }

    fn due(&self, event: EventHandle) -> Result<u64> {
        let unknown = Error::new(Status::E_DRIVER, "delayed: no event of this handle");
        self.due.lock().get(&event.0).copied().ok_or(unknown)
    }

    fn recorded(&self, event: EventHandle) {
        let due = self.clock.load(Ordering::Relaxed).saturating_add(self.lag);
        self.due.lock().insert(event.0, due);
    }
}

impl Backend for Delayed {
    fn kind(&self) -> BackendKind {
        self.inner.kind()
    }

    fn device_count(&self) -> u32 {
        self.inner.device_count()
    }

    fn device_info(&self, device: u32) -> Result<DeviceInfo> {
        let info = self.inner.device_info(device)?;
        Ok(DeviceInfo { caps: Caps { asynchronous: true, ..info.caps }, ..info })
    }

    fn current_device(&self, fallback: u32) -> Result<u32> {
        self.inner.current_device(fallback)
    }

    fn activate(&self, device: u32) -> Result<()> {
        self.inner.activate(device)
    }

    fn mem_info(&self, device: u32) -> Result<MemInfo> {
        self.inner.mem_info(device)
    }

    fn reserve(&self, device: u32, size_bytes: u64, align_bytes: u64) -> Result<u64> {
        self.inner.reserve(device, size_bytes, align_bytes)
    }

    fn unreserve(&self, device: u32, addr: u64, size_bytes: u64) -> Result<()> {
        self.inner.unreserve(device, addr, size_bytes)
    }

    fn create(&self, device: u32, size_bytes: u64) -> Result<PhysHandle> {
        self.inner.create(device, size_bytes)
    }

    fn release(&self, device: u32, handle: PhysHandle, size_bytes: u64) -> Result<()> {
        self.inner.release(device, handle, size_bytes)
    }

    fn map(&self, device: u32, addr: u64, size_bytes: u64, handle: PhysHandle) -> Result<()> {
        self.inner.map(device, addr, size_bytes, handle)
    }

    fn set_access(&self, device: u32, addr: u64, size_bytes: u64) -> Result<()> {
        self.inner.set_access(device, addr, size_bytes)
    }

    fn unmap(&self, device: u32, addr: u64, size_bytes: u64) -> Result<()> {
        self.inner.unmap(device, addr, size_bytes)
    }

    fn fixed_address(&self, device: u32, handle: PhysHandle) -> Result<u64> {
        self.inner.fixed_address(device, handle)
    }

    fn export_fd(&self, device: u32, handle: PhysHandle) -> Result<i32> {
        self.inner.export_fd(device, handle)
    }

    fn identify(&self, device: u32, stream: u64) -> Result<StreamIdentity> {
        self.inner.identify(device, stream)
    }

    fn capture(&self, device: u32, stream: u64) -> Result<Option<CaptureInfo>> {
        self.inner.capture(device, stream)
    }

    fn event_create(&self, device: u32) -> Result<EventHandle> {
        let event = self.inner.event_create(device)?;
        self.due.lock().insert(event.0, 0);
        Ok(event)
    }

    fn event_destroy(&self, device: u32, event: EventHandle) -> Result<()> {
        self.due(event)?;
        self.inner.event_destroy(device, event)?;
        self.due.lock().remove(&event.0);
        Ok(())
    }

    fn event_record(&self, device: u32, event: EventHandle, stream: u64) -> Result<()> {
        self.due(event)?;
        self.inner.event_record(device, event, stream)?;
        self.recorded(event);
        Ok(())
    }

    fn event_record_context(&self, device: u32, event: EventHandle) -> Result<()> {
        self.due(event)?;
        self.inner.event_record_context(device, event)?;
        self.recorded(event);
        Ok(())
    }

    fn event_query(&self, device: u32, event: EventHandle) -> Result<bool> {
        let due = self.due(event)?;
        Ok(self.inner.event_query(device, event)? && self.clock.load(Ordering::Relaxed) >= due)
    }

    fn event_wait(&self, device: u32, event: EventHandle, timeout_ms: u64) -> Result<bool> {
        let due = self.due(event)?;
        if timeout_ms == 0 {
            return self.event_query(device, event);
        }
        let done = self.inner.event_wait(device, event, timeout_ms)?;
        if done {
            self.clock.fetch_max(due, Ordering::Relaxed);
        }
        Ok(done)
    }

    fn stream_wait(&self, device: u32, stream: u64, event: EventHandle) -> Result<()> {
        self.due(event)?;
        self.inner.stream_wait(device, stream, event)
    }

    fn graph_retain(
        &self,
        device: u32,
        graph: u64,
        gone: GraphGone,
        cookie: *mut c_void,
    ) -> Result<()> {
        self.inner.graph_retain(device, graph, gone, cookie)
    }

    fn copy(&self, device: u32, dst: u64, src: u64, size_bytes: u64, stream: u64) -> Result<()> {
        self.inner.copy(device, dst, src, size_bytes, stream)
    }

    fn fill(&self, device: u32, dst: u64, value: u8, size_bytes: u64, stream: u64) -> Result<()> {
        self.inner.fill(device, dst, value, size_bytes, stream)
    }

    fn synchronize(&self, device: u32) -> Result<()> {
        self.inner.synchronize(device)?;
        self.clock.fetch_add(self.lag, Ordering::Relaxed);
        Ok(())
    }

    fn sticky(&self) -> Option<Error> {
        self.inner.sticky()
    }

    fn driver_version(&self) -> u32 {
        self.inner.driver_version()
    }
}

#[cfg(test)]
mod tests {
    use super::super::host::{Host, HostOptions};
    use super::*;

    fn delayed(lag: u64) -> (Delayed, Ticker) {
        Delayed::new(Box::new(Host::new(HostOptions::default()).expect("a host backend")), lag)
    }

    #[test]
    fn an_event_completes_after_the_lag_and_not_before() {
        let (backend, ticker) = delayed(3);
        let event = backend.event_create(0).unwrap();
        assert_eq!(backend.event_query(0, event), Ok(true), "complete before it is recorded");
        backend.event_record(0, event, 0).unwrap();
        for _ in 0..3 {
            assert_eq!(backend.event_query(0, event), Ok(false));
            ticker.tick();
        }
        assert_eq!(backend.event_query(0, event), Ok(true));
        backend.event_record(0, event, 0).unwrap();
        assert_eq!(backend.event_query(0, event), Ok(false), "a new record counts anew");
    }

    #[test]
    fn waiting_lets_the_time_pass() {
        let (backend, _ticker) = delayed(2000);
        let first = backend.event_create(0).unwrap();
        let second = backend.event_create(0).unwrap();
        backend.event_record(0, first, 0).unwrap();
        backend.event_record(0, second, 1).unwrap();
        assert_eq!(backend.event_wait(0, second, 0), Ok(false), "no time, no waiting");
        assert_eq!(backend.event_wait(0, second, 1), Ok(true));
        assert_eq!(backend.event_query(0, first), Ok(true), "what was recorded before is done");
        backend.event_record(0, first, 0).unwrap();
        backend.synchronize(0).unwrap();
        assert_eq!(backend.event_query(0, first), Ok(true));
    }

    #[test]
    fn unknown_events_are_refused() {
        let (backend, _ticker) = delayed(1);
        let event = backend.event_create(0).unwrap();
        backend.event_destroy(0, event).unwrap();
        assert!(backend.event_query(0, event).is_err());
        assert!(backend.event_destroy(0, event).is_err());
    }
}
