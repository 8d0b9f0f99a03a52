//! What the engine needs of an allocator. The command drives cenote through its C ABI; tests drive
//! a model whose answers are known.

use serde::Serialize;
use std::fmt;
use std::ops::Sub;

/// An allocator that a trace can be replayed on.
pub trait Allocator {
    /// Allocate on a stream of the trace; 0 bytes may give address 0.
    fn alloc(&mut self, size_bytes: u64, stream: u16) -> Result<u64, Refused>;
    /// Free on a stream of the trace.
    fn free(&mut self, address: u64, stream: u16) -> Result<(), Refused>;
    /// One operation has passed: time for a device that lags behind.
    fn tick(&mut self);
    /// Let the device catch up with what was queued so far.
    fn settle(&mut self) -> Result<(), Refused>;
    /// Current figures.
    fn stats(&mut self) -> Result<Stats, Refused>;
    /// Set the peaks to the current values.
    fn reset_peaks(&mut self) -> Result<(), Refused>;
    /// Give every idle byte back, as soon as the device is done with it.
    fn empty_cache(&mut self) -> Result<(), Refused>;
    /// Whether the CPU may touch the blocks.
    fn host_visible(&self) -> bool;
    /// What is known about the call that was refused last.
    fn explain(&self, refused: Refused) -> String;
}

/// A call that was refused, by its status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused(pub i32);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {}", self.0)
    }
}

/// Figures of an allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes requested and not freed.
    pub live_bytes: u64,
    /// Bytes taken from the driver and not released.
    pub held_bytes: u64,
    /// Most bytes live since the last reset.
    pub peak_live_bytes: u64,
    /// Most bytes held since the last reset.
    pub peak_held_bytes: u64,
    /// Driver calls since the start.
    pub driver_calls: DriverCalls,
    /// Time in them.
    pub driver_time_ns: u64,
}

/// Driver calls by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DriverCalls {
    /// Physical memory created.
    pub create: u64,
    /// Handles mapped.
    pub map: u64,
    /// Access set.
    pub set_access: u64,
    /// Ranges unmapped.
    pub unmap: u64,
    /// Handles released.
    pub release: u64,
}

impl DriverCalls {
    /// The kinds with their names, in the order in which they are shown.
    pub fn by_kind(&self) -> [(&'static str, u64); 5] {
        [
            ("create", self.create),
            ("map", self.map),
            ("set access", self.set_access),
            ("unmap", self.unmap),
            ("release", self.release),
        ]
    }

    /// All kinds together.
    pub fn total(&self) -> u64 {
        self.by_kind().iter().map(|(_, count)| count).sum()
    }
}

impl Sub for DriverCalls {
    type Output = DriverCalls;

    fn sub(self, earlier: DriverCalls) -> DriverCalls {
        DriverCalls {
            create: self.create - earlier.create,
            map: self.map - earlier.map,
            set_access: self.set_access - earlier.set_access,
            unmap: self.unmap - earlier.unmap,
            release: self.release - earlier.release,
        }
    }
}
