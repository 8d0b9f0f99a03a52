//! Events, and the work that is ordered on a stream.
//!
//! The driver records an event only on streams of the event's own context. Nearly all streams are
//! of the primary context; for one of another context the event is made anew there, so an event
//! handle of this backend is a cell that holds the driver's.

use std::ffi::c_void;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use super::context::Inside;
use super::loader::Handle;
use super::result::{CAPTURE_IMPLICIT, INVALID_HANDLE, NOT_READY};
use super::structs::{EVENT_NO_TIMING, USER_OBJECT_MOVE, USER_OBJECT_NO_SYNC};
use super::{call, is_legacy, is_special, Cuda};
use crate::base::{Error, Result, Status};
use crate::device::{EventHandle, GraphGone};

/// What an `EventHandle` of this backend points to.
struct Cell {
    event: AtomicUsize,
    context: AtomicUsize,
}

impl Cell {
    /// # Safety
    /// The handle came from `new_event` and was not destroyed: the contract of the backend.
    unsafe fn of<'a>(event: EventHandle) -> &'a Cell {
        // SAFETY: as the caller promises.
        unsafe { &*(event.0 as *const Cell) }
    }
}

fn event_of(event: EventHandle) -> Handle {
    // SAFETY: the caller of the backend gives live events only.
    unsafe { Cell::of(event) }.event.load(Acquire)
}

impl Cuda {
    fn create_event(&self) -> Result<Handle> {
        let mut event = 0;
        call!(self, cuEventCreate(&mut event, EVENT_NO_TIMING))?;
        Ok(event)
    }

    pub(super) fn new_event(&self, device: u32) -> Result<EventHandle> {
        let inside = self.enter(device)?;
        let event = AtomicUsize::new(self.create_event()?);
        let cell = Cell { event, context: AtomicUsize::new(inside.context) };
        Ok(EventHandle(Box::into_raw(Box::new(cell)) as u64))
    }

    pub(super) fn destroy_event(&self, device: u32, event: EventHandle) -> Result<()> {
        let _inside = self.enter(device)?;
        // SAFETY: the pointer came from `new_event`; the caller gives it up.
        let cell = unsafe { Box::from_raw(event.0 as *mut Cell) };
        call!(self, cuEventDestroy(cell.event.load(Acquire)))
    }

    pub(super) fn record(&self, device: u32, event: EventHandle, stream: u64) -> Result<()> {
        let inside = self.enter_for_stream(device)?;
        self.check_legacy(stream)?;
        let stream = stream as Handle;
        // SAFETY: cuda.h declares this signature; the driver checks both handles.
        let code = unsafe { (self.api.cuEventRecord)(event_of(event), stream) };
        if code != INVALID_HANDLE {
            return self.lost.result("cuEventRecord", code);
        }
        let moved = self.move_event(event, self.context_of_stream(&inside, stream)?)?;
        if !moved {
            return self.lost.result("cuEventRecord", code);
        }
        call!(self, cuEventRecord(event_of(event), stream))
    }

    fn context_of_stream(&self, inside: &Inside<'_>, stream: Handle) -> Result<Handle> {
        if is_special(stream as u64) {
            return Ok(inside.context);
        }
        let mut context = 0;
        call!(self, cuStreamGetCtx(stream, &mut context))?;
        Ok(context)
    }

    /// Makes the event anew in a context; false if it is of that context already.
    fn move_event(&self, event: EventHandle, context: Handle) -> Result<bool> {
        // SAFETY: the caller of the backend gives live events only.
        let cell = unsafe { Cell::of(event) };
        if cell.context.load(Relaxed) == context {
            return Ok(false);
        }
        let inside = self.enter_context(context)?;
        let old = cell.event.swap(self.create_event()?, AcqRel);
        cell.context.store(context, Relaxed);
        call!(self, cuEventDestroy(old))?;
        drop(inside);
        Ok(true)
    }

    pub(super) fn record_context(&self, device: u32, event: EventHandle) -> Result<()> {
        let inside = self.enter(device)?;
        if self.api.cuCtxRecordEvent.is_some() {
            self.move_event(event, inside.context)?;
        }
        let result = call!(self, optional cuCtxRecordEvent(inside.context, event_of(event)));
        let lacking = Error::new(Status::E_NOT_SUPPORTED, "cuCtxRecordEvent needs CUDA 12.5");
        result.unwrap_or(Err(lacking))
    }

    pub(super) fn query(&self, device: u32, event: EventHandle) -> Result<bool> {
        let _inside = self.enter(device)?;
        // SAFETY: cuda.h declares this signature; the driver checks the handle.
        match unsafe { (self.api.cuEventQuery)(event_of(event)) } {
            NOT_READY => Ok(false),
            code => self.lost.result("cuEventQuery", code).map(|()| true),
        }
    }

    pub(super) fn wait_on_stream(
        &self,
        device: u32,
        stream: u64,
        event: EventHandle,
    ) -> Result<()> {
        let _inside = self.enter_for_stream(device)?;
        self.check_legacy(stream)?;
        call!(self, cuStreamWaitEvent(stream as Handle, event_of(event), 0))
    }

    /// Refuses to use the legacy stream while a blocking stream of its context captures: the use
    /// would break that capture, the question does not.
    fn check_legacy(&self, stream: u64) -> Result<()> {
        if !is_legacy(stream) {
            return Ok(());
        }
        let mut status = 0;
        // SAFETY: cuda.h declares this signature; the pointer is to a local.
        match unsafe { (self.api.cuStreamIsCapturing)(stream as Handle, &mut status) } {
            CAPTURE_IMPLICIT => {
                let what = "the legacy stream is barred while a blocking stream captures";
                Err(Error::backend(Status::E_CAPTURE, what, CAPTURE_IMPLICIT as i32))
            }
            code => self.lost.result("cuStreamIsCapturing", code),
        }
    }

    pub(super) fn copy_bytes(
        &self,
        device: u32,
        (dst, src): (u64, u64),
        size: u64,
        stream: u64,
    ) -> Result<()> {
        let _inside = self.enter_for_stream(device)?;
        self.check_legacy(stream)?;
        call!(self, cuMemcpyAsync(dst, src, size as usize, stream as Handle))
    }

    pub(super) fn fill_bytes(
        &self,
        device: u32,
        dst: u64,
        value: u8,
        size: u64,
        stream: u64,
    ) -> Result<()> {
        let _inside = self.enter_for_stream(device)?;
        self.check_legacy(stream)?;
        call!(self, cuMemsetD8Async(dst, value, size as usize, stream as Handle))
    }

    /// Ties a user object to a graph. If the graph refuses it, the object is left to the process:
    /// its destructor would call `gone` at a time when the caller has forgotten the cookie.
    pub(super) fn retain_on_graph(
        &self,
        device: u32,
        graph: u64,
        gone: GraphGone,
        cookie: *mut c_void,
    ) -> Result<()> {
        let lacking = Error::new(Status::E_NOT_SUPPORTED, "user objects need CUDA 11.3");
        if self.api.cuGraphRetainUserObject.is_none() {
            return Err(lacking);
        }
        let _inside = self.enter(device)?;
        let mut object = 0;
        let flags = USER_OBJECT_NO_SYNC;
        call!(self, optional cuUserObjectCreate(&mut object, cookie, gone, 1, flags))
            .unwrap_or(Err(lacking))?;
        let graph = graph as Handle;
        call!(self, optional cuGraphRetainUserObject(graph, object, 1, USER_OBJECT_MOVE))
            .unwrap_or(Err(lacking))
    }

    pub(super) fn synchronize_context(&self, device: u32) -> Result<()> {
        let _inside = self.enter(device)?;
        call!(self, cuCtxSynchronize())
    }
}
