//! Contexts: one counted primary context a device, others on request.

use std::collections::HashMap;

use crate::abi::{code, Code, Res};
use crate::engine::StreamKind;
use crate::handle::HandleSpace;
use crate::state::State;
use crate::thread;

/// A context that was created.
pub struct Context {
    /// Number of the context, never reused.
    pub id: u64,
    /// Its device.
    pub device: usize,
    /// False once destroyed; a primary context comes alive again with a new id.
    pub alive: bool,
    /// First error that broke it.
    pub sticky: Code,
    /// Its legacy default stream.
    pub legacy: u64,
    /// Its default streams by thread.
    pub per_thread: HashMap<u64, u64>,
}

/// The primary context of a device.
struct Primary {
    handle: usize,
    refs: u64,
}

/// All contexts.
pub struct Contexts {
    by_handle: HashMap<usize, Context>,
    primaries: Vec<Primary>,
    created: Vec<u64>,
    handles: HandleSpace,
    next_id: u64,
}

impl Contexts {
    /// No context on any of `devices` devices.
    pub fn new(devices: u32) -> Contexts {
        let mut handles = HandleSpace::new();
        let primaries = (0..devices)
            .map(|_| Primary { handle: handles.take().unwrap_or_default(), refs: 0 })
            .collect();
        Contexts {
            by_handle: HashMap::new(),
            primaries,
            created: vec![0; devices as usize],
            handles,
            next_id: 1,
        }
    }

    /// Number of devices.
    pub fn devices(&self) -> usize {
        self.primaries.len()
    }

    /// Contexts ever created on a device.
    pub fn created(&self, device: usize) -> u64 {
        self.created.get(device).copied().unwrap_or(0)
    }

    /// Contexts that are alive.
    pub fn alive(&self) -> usize {
        self.by_handle.values().filter(|context| context.alive).count()
    }

    /// Whether the device's primary context is alive.
    pub fn primary_active(&self, device: usize) -> bool {
        self.primaries[device].refs > 0
    }

    /// The context with this handle, alive or not.
    pub fn get(&self, handle: usize) -> Option<&Context> {
        self.by_handle.get(&handle)
    }

    /// The context with this handle, for a change.
    pub fn get_mut(&mut self, handle: usize) -> Option<&mut Context> {
        self.by_handle.get_mut(&handle)
    }
}

impl State {
    /// Check a CUdevice.
    pub fn device(&self, device: i32) -> Res<usize> {
        usize::try_from(device)
            .ok()
            .filter(|index| *index < self.contexts.devices())
            .ok_or(code::INVALID_DEVICE)
    }

    /// The current context, alive and unbroken.
    pub fn current_context(&self) -> Res<usize> {
        let handle = thread::current().ok_or(code::INVALID_CONTEXT)?;
        self.live_context(handle)
    }

    /// Check a context's handle.
    pub fn live_context(&self, handle: usize) -> Res<usize> {
        let context = self.contexts.get(handle).ok_or(code::INVALID_CONTEXT)?;
        if !context.alive {
            return Err(code::CONTEXT_IS_DESTROYED);
        }
        if context.sticky != 0 {
            return Err(context.sticky);
        }
        Ok(handle)
    }

    /// Device of the current context.
    pub fn current_device(&self) -> Res<usize> {
        let handle = self.current_context()?;
        self.contexts.get(handle).map(|context| context.device).ok_or(code::INVALID_CONTEXT)
    }

    /// Break a context, as a fault of its work does.
    pub fn break_context(&mut self, handle: usize, error: Code, why: String) {
        if let Some(context) = self.contexts.get_mut(handle) {
            if context.sticky == 0 {
                context.sticky = error;
            }
        }
        self.violation(why);
    }

    fn bring_alive(&mut self, handle: usize, device: usize) {
        let legacy = self.engine.new_stream(0, handle, device, StreamKind::Legacy, 0);
        let id = self.contexts.next_id;
        self.contexts.next_id += 1;
        self.contexts.created[device] += 1;
        let context =
            Context { id, device, alive: true, sticky: 0, legacy, per_thread: HashMap::new() };
        self.contexts.by_handle.insert(handle, context);
    }

    /// Take a reference to the primary context of a device, creating it for the first.
    pub fn retain_primary(&mut self, device: usize) -> usize {
        let primary = &mut self.contexts.primaries[device];
        primary.refs += 1;
        let (handle, first) = (primary.handle, primary.refs == 1);
        if first {
            self.bring_alive(handle, device);
        }
        handle
    }

    /// Give a reference back; the last destroys the context.
    pub fn release_primary(&mut self, device: usize) -> Res {
        let primary = &mut self.contexts.primaries[device];
        if primary.refs == 0 {
            self.violation("a primary context was released more often than retained".into());
            return Err(code::INVALID_CONTEXT);
        }
        primary.refs -= 1;
        let (handle, last) = (primary.handle, primary.refs == 0);
        if last {
            self.kill_context(handle);
        }
        Ok(())
    }

    /// Destroy everything of the primary context; who retained it has a new one afterwards.
    pub fn reset_primary(&mut self, device: usize) {
        let handle = self.contexts.primaries[device].handle;
        if self.contexts.primaries[device].refs > 0 {
            self.kill_context(handle);
            self.bring_alive(handle, device);
        }
        self.sticky = 0;
    }

    /// Create a context that is not the primary one.
    pub fn create_context(&mut self, device: usize) -> Res<usize> {
        let handle = self.contexts.handles.take().ok_or(code::OUT_OF_MEMORY)?;
        self.bring_alive(handle, device);
        Ok(handle)
    }

    /// Destroy a context that `create_context` made.
    pub fn destroy_context(&mut self, handle: usize) -> Res {
        if self.contexts.primaries.iter().any(|primary| primary.handle == handle) {
            return Err(code::INVALID_CONTEXT);
        }
        let alive = self.contexts.get(handle).is_some_and(|context| context.alive);
        if !alive {
            return Err(code::INVALID_CONTEXT);
        }
        self.kill_context(handle);
        Ok(())
    }

    /// End a context: its captures, streams, events and plain allocations go, its work is dropped.
    fn kill_context(&mut self, handle: usize) {
        self.abort_captures_of(handle);
        self.drop_context_work(handle);
        self.memory.free_of_context(handle);
        if let Some(context) = self.contexts.get_mut(handle) {
            context.alive = false;
            context.per_thread.clear();
        }
    }
}
