//! Registered streams, and what a stream argument means.

use super::Runtime;
use crate::base::{Error, Result, Status};
use crate::device::{Backend, CaptureInfo};
use crate::stream::StreamRef;
use parking_lot::{Mutex, RwLock};
use std::sync::atomic::{AtomicU64, Ordering};

/// Promise: the stream lives until it is retired.
pub const PERSISTENT: u32 = 1;
/// Promise: captures are told.
pub const CAPTURE_TOLD: u32 = 2;

/// Top byte of registered values: no valid address of the CPU or the GPU has it.
const TAG: u64 = 0xCE << 56;
/// Told captures are numbered apart from the driver's.
const TOLD_GRAPH: u64 = 1 << 62;

#[derive(Clone, Copy)]
struct Entry {
    generation: u32,
    live: bool,
    device: u32,
    stream: StreamRef,
}

/// The table of registered streams.
#[derive(Default)]
pub struct Registry {
    entries: RwLock<Vec<Entry>>,
    unused: Mutex<Vec<u32>>,
    graphs: AtomicU64,
    open_graphs: Mutex<Vec<u64>>,
}

const UNKNOWN: Error = Error::new(Status::E_STREAM, "stream value");

/// True for a value that only `register` makes.
#[inline]
pub fn is_registered(value: u64) -> bool {
    value & (0xFF << 56) == TAG
}

fn parts(value: u64) -> (usize, u32) {
    ((value & 0xFF_FFFF) as usize, ((value >> 24) & 0xFFFF_FFFF) as u32)
}

impl Registry {
    fn insert(&self, device: u32, stream: StreamRef) -> u64 {
        let reuse = self.unused.lock().pop();
        let mut entries = self.entries.write();
        let index = match reuse {
            Some(index) => index as usize,
            None => {
                let blank =
                    StreamRef { key: 0, raw: 0, persistent: false, told: false, capture: None };
                entries.push(Entry { generation: 0, live: false, device: 0, stream: blank });
                entries.len() - 1
            }
        };
        let generation = entries[index].generation.wrapping_add(1);
        entries[index] = Entry { generation, live: true, device, stream };
        TAG | (u64::from(generation) << 24) | index as u64
    }

    /// The device and stream of a registered value.
    pub fn find(&self, value: u64) -> Result<(u32, StreamRef)> {
        let (index, generation) = parts(value);
        let entries = self.entries.read();
        match entries.get(index) {
            Some(e) if e.live && e.generation == generation => Ok((e.device, e.stream)),
            _ => Err(UNKNOWN),
        }
    }

    fn change(&self, value: u64, change: impl FnOnce(&mut Entry) -> Result<()>) -> Result<()> {
        let (index, generation) = parts(value);
        let mut entries = self.entries.write();
        match entries.get_mut(index) {
            Some(e) if is_registered(value) && e.live && e.generation == generation => change(e),
            _ => Err(UNKNOWN),
        }
    }

    /// Register a live stream.
    pub fn register(
        &self,
        backend: &dyn Backend,
        device: u32,
        raw: u64,
        promises: u32,
    ) -> Result<u64> {
        if is_registered(raw) {
            return Err(Error::new(Status::E_STREAM, "the value is registered already"));
        }
        if promises & !(PERSISTENT | CAPTURE_TOLD) != 0 {
            return Err(Error::new(Status::E_FLAGS, "promises"));
        }
        let identity = backend.identify(device, raw)?;
        if identity.device != device {
            return Err(Error::new(Status::E_STREAM, "the stream belongs to another device"));
        }
        let stream = StreamRef {
            key: identity.id,
            raw,
            // The per-thread default stream is another stream on every thread.
            persistent: promises & PERSISTENT != 0 && raw != 2,
            told: promises & CAPTURE_TOLD != 0,
            capture: None,
        };
        Ok(self.insert(device, stream))
    }

    /// End a registration.
    pub fn retire(&self, value: u64) -> Result<(u32, StreamRef)> {
        let found = self.find(value)?;
        self.change(value, |e| {
            e.live = false;
            Ok(())
        })?;
        self.unused.lock().push(parts(value).0 as u32);
        Ok(found)
    }

    /// A told capture begins.
    pub fn capture_begin(&self, value: u64) -> Result<()> {
        self.change(value, |e| {
            if !e.stream.told {
                return Err(Error::new(
                    Status::E_STREAM,
                    "the stream did not promise CAPTURE_TOLD",
                ));
            }
            if e.stream.capture.is_some() {
                return Err(Error::new(Status::E_CAPTURE, "a capture of the stream is running"));
            }
            let id = TOLD_GRAPH | (self.graphs.fetch_add(1, Ordering::Relaxed) + 1);
            e.stream.capture = Some(CaptureInfo { id, graph: 0 });
            Ok(())
        })
    }

    /// A told capture ends: its graph's id, the device and the stream's handle.
    pub fn capture_end(&self, value: u64) -> Result<(u64, u32, u64)> {
        let mut ended = None;
        self.change(value, |e| match e.stream.capture.take() {
            Some(c) => {
                ended = Some((c.id, e.device, e.stream.raw));
                Ok(())
            }
            None => Err(Error::new(Status::E_CAPTURE, "no capture of the stream is running")),
        })?;
        let ended = ended.ok_or(UNKNOWN)?;
        self.open_graphs.lock().push(ended.0);
        Ok(ended)
    }

    /// Forget a graph id; E_GRAPH if it was never issued or is released, E_CAPTURE while it runs.
    pub fn graph_release(&self, graph: u64) -> Result<()> {
        let mut open = self.open_graphs.lock();
        if let Some(at) = open.iter().position(|&g| g == graph) {
            open.swap_remove(at);
            return Ok(());
        }
        let runs =
            self.entries.read().iter().any(|e| e.stream.capture.is_some_and(|c| c.id == graph));
        let status = if runs { Status::E_CAPTURE } else { Status::E_GRAPH };
        Err(Error::new(status, "graph"))
    }
}

impl Runtime {
    /// What a stream argument means for a pool's device and backend.
    #[inline]
    pub fn resolve(&self, backend: &dyn Backend, device: u32, value: u64) -> Result<StreamRef> {
        if is_registered(value) {
            let (of, mut stream) = self.streams.find(value)?;
            if of != device {
                return Err(Error::new(Status::E_STREAM, "the stream belongs to another device"));
            }
            if !stream.told {
                stream.capture = backend.capture(device, stream.raw)?;
            }
            return Ok(stream);
        }
        let identity = backend.identify(device, value)?;
        if identity.device != device {
            return Err(Error::new(Status::E_STREAM, "the stream belongs to another device"));
        }
        Ok(StreamRef {
            key: identity.id,
            raw: value,
            // The two default streams live as long as their context.
            persistent: value < 2,
            told: false,
            capture: identity.capture,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(raw: u64) -> StreamRef {
        StreamRef { key: raw, raw, persistent: true, told: true, capture: None }
    }

    #[test]
    fn a_retired_value_is_never_valid_again() {
        let registry = Registry::default();
        let a = registry.insert(0, stream(5));
        assert!(is_registered(a));
        assert_eq!(registry.find(a).unwrap().1.raw, 5);
        registry.retire(a).unwrap();
        assert_eq!(registry.find(a).unwrap_err().status, Status::E_STREAM);
        let b = registry.insert(0, stream(6));
        assert_ne!(a, b);
        assert_eq!(registry.retire(a).unwrap_err().status, Status::E_STREAM);
        assert_eq!(registry.find(b).unwrap().1.raw, 6);
    }

    #[test]
    fn told_captures_begin_end_and_are_released_once() {
        let registry = Registry::default();
        let a = registry.insert(0, stream(5));
        assert_eq!(registry.capture_end(a).unwrap_err().status, Status::E_CAPTURE);
        registry.capture_begin(a).unwrap();
        assert_eq!(registry.capture_begin(a).unwrap_err().status, Status::E_CAPTURE);
        let id = registry.find(a).unwrap().1.capture.unwrap().id;
        assert_eq!(registry.graph_release(id).unwrap_err().status, Status::E_CAPTURE);
        assert_eq!(registry.capture_end(a).unwrap().0, id);
        registry.graph_release(id).unwrap();
        assert_eq!(registry.graph_release(id).unwrap_err().status, Status::E_GRAPH);
    }
}
