//! The calls that take and give physical memory: counted, timed, told, and undone when one fails.

use super::Pool;
use crate::base::Result;
use crate::device::PhysHandle;
use crate::heap::grow::Step;
use crate::heap::reclaim::{Return, Unmap};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Driver calls by kind.
#[derive(Debug, Default)]
pub struct DriverCounts {
    /// Physical memory created.
    pub create: AtomicU64,
    /// Handles mapped.
    pub map: AtomicU64,
    /// Access set.
    pub access: AtomicU64,
    /// Ranges unmapped.
    pub unmap: AtomicU64,
    /// Handles released.
    pub release: AtomicU64,
    /// Time in all of them, nanoseconds.
    pub time_ns: AtomicU64,
}

impl Pool {
    fn timed<T>(&self, counter: &AtomicU64, call: impl FnOnce() -> Result<T>) -> Result<T> {
        counter.fetch_add(1, Relaxed);
        let start = Instant::now();
        let result = call();
        self.driver.time_ns.fetch_add(start.elapsed().as_nanos() as u64, Relaxed);
        result
    }

    /// Create, map and give access. The driver's handles of all steps on success; on failure
    /// everything is undone.
    pub(super) fn map_steps(&self, steps: &[Step]) -> Result<Vec<PhysHandle>> {
        let mut handles = Vec::with_capacity(steps.len());
        for step in steps {
            match self.map_step(step) {
                Ok(handle) => handles.push(handle),
                Err(e) => {
                    for (step, &handle) in steps.iter().zip(&handles) {
                        (self.hooks.mapping)(
                            false,
                            self.desc.device,
                            step.addr,
                            step.bytes,
                            handle.0,
                        );
                        self.unmap_step(step, handle);
                    }
                    return Err(e);
                }
            }
        }
        // Last, because it cannot be undone: nothing fails after it.
        for (step, &handle) in steps.iter().zip(&handles) {
            if let Some(place) = &step.unmap {
                self.unmap_place(place, handle);
            }
        }
        Ok(handles)
    }

    /// Create memory that is not mapped by us.
    pub(super) fn create_counted(&self, bytes: u64) -> Result<PhysHandle> {
        self.timed(&self.driver.create, || self.backend.create(self.desc.device, bytes))
    }

    fn map_step(&self, step: &Step) -> Result<PhysHandle> {
        let (device, counts) = (self.desc.device, &self.driver);
        let handle = match step.phys {
            Some(handle) => handle,
            None => self.timed(&counts.create, || self.backend.create(device, step.bytes))?,
        };
        let mapped =
            self.timed(&counts.map, || self.backend.map(device, step.addr, step.bytes, handle));
        if let Err(e) = mapped {
            if step.phys.is_none() {
                self.release(handle, step.bytes);
            }
            return Err(e);
        }
        let access =
            self.timed(&counts.access, || self.backend.set_access(device, step.addr, step.bytes));
        if let Err(e) = access {
            self.unmap_step(step, handle);
            return Err(e);
        }
        (self.hooks.mapping)(true, device, step.addr, step.bytes, handle.0);
        Ok(handle)
    }

    fn unmap_step(&self, step: &Step, handle: PhysHandle) {
        self.unmap(step.addr, step.bytes);
        if step.phys.is_none() {
            self.release(handle, step.bytes);
        }
    }

    // Errors of unmap and release are not the caller's: a lost context makes them fail, which the
    // backend remembers and answers to every later call. Any other refusal would leave memory and
    // an address that nobody knows, so such a call is made once more.
    fn unmap(&self, addr: u64, bytes: u64) {
        let device = self.desc.device;
        self.insist(&self.driver.unmap, || self.backend.unmap(device, addr, bytes));
    }

    fn release(&self, handle: PhysHandle, bytes: u64) {
        let device = self.desc.device;
        self.insist(&self.driver.release, || self.backend.release(device, handle, bytes));
    }

    fn insist(&self, counter: &AtomicU64, call: impl Fn() -> Result<()>) {
        if self.timed(counter, &call).is_err() && self.backend.sticky().is_none() {
            let _ = self.timed(counter, &call);
        }
    }

    /// Unmap every place of a handle and release it.
    pub(super) fn give_back(&self, item: &Return) {
        for place in &item.unmaps {
            if self.virtual_memory {
                self.unmap_place(place, item.phys);
            } else {
                // Before the driver can give the address to somebody else.
                crate::base::addr_map::set_part(place.addr, place.bytes, None);
            }
        }
        self.release(item.phys, item.bytes);
    }

    /// Unmap one place.
    pub(super) fn unmap_place(&self, place: &Unmap, handle: PhysHandle) {
        (self.hooks.mapping)(false, self.desc.device, place.addr, place.bytes, handle.0);
        self.unmap(place.addr, place.bytes);
    }
}
