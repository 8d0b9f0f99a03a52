//! Contexts: the primary context of each device, and guards that leave the thread as they found it.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::loader::Handle;
use super::result::{CONTEXT_IS_DESTROYED, INVALID_CONTEXT};
use super::structs::CAPTURE_RELAXED;
use super::{call, Cuda, Device};
use crate::base::{Error, Result, Status};

/// A thread inside the driver: the right context is current, and no capture can be broken by the
/// call. Dropping it restores both.
pub struct Inside<'a> {
    cuda: &'a Cuda,
    /// The context that is current now.
    pub context: Handle,
    /// The context that was current, if it is another one.
    previous: Option<Handle>,
    capture_mode: u32,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        // Nobody can be told of a failure here. A thread is led out after a fatal error too, but
        // not while the driver is shutting down.
        if self.cuda.lost.get().is_some_and(|error| error.status == Status::E_DRIVER_EXIT) {
            return;
        }
        let _ = call!(self.cuda, cuThreadExchangeStreamCaptureMode(&mut self.capture_mode));
        if let Some(previous) = self.previous {
            let _ = call!(self.cuda, cuCtxSetCurrent(previous));
        }
    }
}

impl Cuda {
    /// The calling thread's current context, 0 if none.
    pub(super) fn current_context(&self) -> Result<Handle> {
        let mut context = 0;
        call!(self, cuCtxGetCurrent(&mut context))?;
        Ok(context)
    }

    /// Index of the device whose context is current on the calling thread.
    pub(super) fn device_of_current(&self, current: Handle) -> Result<u32> {
        let known = |device: &Device| device.context.load(Relaxed) == current;
        if let Some(index) = self.devices.iter().position(known) {
            return Ok(index as u32);
        }
        let mut ordinal = 0;
        call!(self, cuCtxGetDevice(&mut ordinal))?;
        self.index_of(ordinal)
    }

    /// Index of a device by the driver's number.
    pub(super) fn index_of(&self, ordinal: i32) -> Result<u32> {
        let index = self.devices.iter().position(|device| device.ordinal == ordinal);
        let unknown = Error::new(Status::E_DEVICE, "the context belongs to no device of cuInit");
        index.map(|index| index as u32).ok_or(unknown)
    }

    /// The primary context of a device that was activated.
    fn primary(&self, device: u32) -> Result<Handle> {
        match self.device(device)?.context.load(Acquire) {
            0 => Err(Error::new(Status::E_DRIVER, "the device was not activated")),
            context => Ok(context),
        }
    }

    /// Makes the primary context of a device current.
    pub(super) fn enter(&self, device: u32) -> Result<Inside<'_>> {
        self.lost.check()?;
        let primary = self.primary(device)?;
        self.check_alive(device, primary)?;
        self.switch(self.current_context()?, primary)
    }

    /// Makes a context current in which a stream handle of the caller means what the caller means:
    /// 0, 1 and 2 name streams of the current context, if that belongs to the device.
    pub(super) fn enter_for_stream(&self, device: u32) -> Result<Inside<'_>> {
        self.lost.check()?;
        let primary = self.primary(device)?;
        self.check_alive(device, primary)?;
        let current = self.current_context()?;
        let stays =
            current != 0 && current != primary && self.device_of_current(current) == Ok(device);
        self.switch(current, if stays { current } else { primary })
    }

    /// Makes a context current that no table knows, to ask it something.
    pub(super) fn enter_context(&self, context: Handle) -> Result<Inside<'_>> {
        let current = self.current_context()?;
        self.switch(current, context)
    }

    fn switch(&self, current: Handle, wanted: Handle) -> Result<Inside<'_>> {
        if current != wanted {
            call!(self, cuCtxSetCurrent(wanted)).map_err(|error| self.destroyed(error))?;
        }
        let previous = (current != wanted).then_some(current);
        let mut inside =
            Inside { cuda: self, context: wanted, previous, capture_mode: CAPTURE_RELAXED };
        call!(self, cuThreadExchangeStreamCaptureMode(&mut inside.capture_mode))?;
        Ok(inside)
    }

    /// A primary context that cannot be entered was destroyed by somebody else, with all memory.
    fn destroyed(&self, error: Error) -> Error {
        let code = error.backend_code as u32;
        if code != INVALID_CONTEXT && code != CONTEXT_IS_DESTROYED {
            return error;
        }
        self.lost.remember(Error { status: Status::E_CONTEXT_LOST, ..error })
    }

    /// Notices a primary context that was reset: the handle is the same, the id is not.
    fn check_alive(&self, device: u32, primary: Handle) -> Result<()> {
        let mut id = 0;
        let Some(result) = call!(self, optional cuCtxGetId(primary, &mut id)) else {
            return Ok(());
        };
        result.map_err(|error| self.destroyed(error))?;
        if id == self.device(device)?.context_id.load(Relaxed) {
            return Ok(());
        }
        let what = "the primary context was reset by another library";
        let error = Error::backend(Status::E_CONTEXT_LOST, what, CONTEXT_IS_DESTROYED as i32);
        Err(self.lost.remember(error))
    }

    /// Retains the primary context of a device, once.
    pub(super) fn retain(&self, device: u32) -> Result<()> {
        self.lost.check()?;
        let slot = self.device(device)?;
        if slot.context.load(Acquire) != 0 {
            return Ok(());
        }
        let _one_at_a_time = slot.activating.lock();
        if slot.context.load(Acquire) != 0 {
            return Ok(());
        }
        let _inside = self.switch(0, 0)?;
        let (mut context, mut id) = (0, 0);
        call!(self, cuDevicePrimaryCtxRetain(&mut context, slot.ordinal))?;
        if let Some(result) = call!(self, optional cuCtxGetId(context, &mut id)) {
            result?;
        }
        slot.context_id.store(id, Relaxed);
        slot.context.store(context, Release);
        Ok(())
    }
}
