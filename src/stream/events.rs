//! Events, pooled and shared: one event may close the epochs of many streams.

use crate::base::Result;
use crate::device::{Backend, EventHandle};

/// Index of an event.
pub type EventId = u32;

/// Pool of events of one device.
#[derive(Default)]
pub struct Events {
    handles: Vec<(EventHandle, u32)>,
    unused: Vec<EventId>,
}

impl Events {
    /// An event with one user.
    pub fn get(&mut self, device: u32, backend: &dyn Backend) -> Result<EventId> {
        if let Some(id) = self.unused.pop() {
            self.handles[id as usize].1 = 1;
            return Ok(id);
        }
        let handle = backend.event_create(device)?;
        self.handles.push((handle, 1));
        Ok((self.handles.len() - 1) as EventId)
    }

    /// One more user.
    pub fn share(&mut self, id: EventId) {
        self.handles[id as usize].1 += 1;
    }

    /// One user less; the last one makes it free for the next epoch.
    pub fn put(&mut self, id: EventId) {
        let users = &mut self.handles[id as usize].1;
        *users -= 1;
        if *users == 0 {
            self.unused.push(id);
        }
    }

    /// The backend's handle.
    pub fn handle(&self, id: EventId) -> EventHandle {
        self.handles[id as usize].0
    }

    /// Destroy all; errors mean the driver is gone, and so are its events.
    pub fn destroy(&mut self, device: u32, backend: &dyn Backend) {
        for (handle, _) in self.handles.drain(..) {
            let _ = backend.event_destroy(device, handle);
        }
        self.unused.clear();
    }
}
