//! What a raw stream is: its id, its device, its capture.
//!
//! This is asked on every call that brings a raw stream, so it takes no lock, allocates nothing and
//! asks the driver as little as possible: twice for an ordinary stream, once for the legacy stream.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::loader::Handle;
use super::result::INVALID_CONTEXT;
use super::structs::{CAPTURE_ACTIVE, CAPTURE_NONE};
use super::{call, is_legacy, is_special, Cuda};
use crate::base::{Error, Result, Status};
use crate::device::{CaptureInfo, StreamIdentity};

/// Ids that this backend makes up where the driver has none. The driver counts from below.
const OWN_IDS: u64 = 1 << 63;
/// Mark of the legacy stream among them.
const LEGACY: u64 = 1 << 62;
/// Slots of the table of devices by stream id.
const SLOTS: usize = 1024;
/// Bits of a slot that hold the device plus one; the id is above them.
const DEVICE_BITS: u32 = 8;

/// Devices by stream id. An id is never reused, so an entry is never wrong, only displaced.
pub struct DeviceOfStream([AtomicU64; SLOTS]);

impl DeviceOfStream {
    pub fn new() -> DeviceOfStream {
        DeviceOfStream(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    fn slot(&self, id: u64) -> &AtomicU64 {
        &self.0[id as usize % SLOTS]
    }

    /// The device of a stream, if it is known.
    pub fn get(&self, id: u64) -> Option<u32> {
        let entry = self.slot(id).load(Relaxed);
        let device = entry & ((1 << DEVICE_BITS) - 1);
        (device != 0 && entry >> DEVICE_BITS == id).then(|| device as u32 - 1)
    }

    /// Notes the device of a stream.
    pub fn set(&self, id: u64, device: u32) {
        if id >> (64 - DEVICE_BITS) == 0 && device < (1 << DEVICE_BITS) - 1 {
            self.slot(id).store(id << DEVICE_BITS | u64::from(device + 1), Relaxed);
        }
    }
}

fn captured_identity(device: u32, stream: u64, capture: CaptureInfo) -> StreamIdentity {
    let id = OWN_IDS | (capture.id << 48) ^ stream;
    StreamIdentity { id, device, capture: Some(capture) }
}

impl Cuda {
    /// Identity of a raw stream as the calling thread means it.
    pub(super) fn identity(&self, device: u32, stream: u64) -> Result<StreamIdentity> {
        self.lost.check()?;
        if is_special(stream) {
            return self.identity_of_special(device, stream);
        }
        self.with_context(device, || self.identity_of_ordinary(device, stream))
    }

    /// The capture of a stream, if it is being captured.
    pub(super) fn capture_of(&self, device: u32, stream: u64) -> Result<Option<CaptureInfo>> {
        self.lost.check()?;
        self.with_context(device, || self.ask_capture(stream))
    }

    /// Asks once as the thread is, and again inside the device's context if that was what lacked.
    fn with_context<T>(&self, device: u32, ask: impl Fn() -> Result<T>) -> Result<T> {
        match ask() {
            Err(error) if error.backend_code == INVALID_CONTEXT as i32 => {
                let _inside = self.enter(device)?;
                ask()
            }
            answer => answer,
        }
    }

    /// Identity of an ordinary stream. Its capture is asked first: the driver refuses the id of a
    /// stream while it is captured (900). Then the capture and the handle name it: a stream cannot
    /// end, nor its handle come back, within one capture.
    fn identity_of_ordinary(&self, device: u32, stream: u64) -> Result<StreamIdentity> {
        if let Some(capture) = self.ask_capture(stream)? {
            return Ok(captured_identity(device, stream, capture));
        }
        let id = self.id_of(stream)?;
        let device = match self.device_of_stream.get(id) {
            Some(known) => known,
            None => {
                let found = self.find_device(stream)?;
                self.device_of_stream.set(id, found);
                found
            }
        };
        Ok(StreamIdentity { id, device, capture: None })
    }

    /// The default streams belong to the current context; where there is none, to the device's.
    fn identity_of_special(&self, device: u32, stream: u64) -> Result<StreamIdentity> {
        let current = self.current_context()?;
        if current == 0 {
            let inside = self.enter(device)?;
            return self.identity_in(inside.context, device, stream);
        }
        let device = self.device_of_current(current)?;
        self.identity_in(current, device, stream)
    }

    /// Identity of a default stream of the current context.
    fn identity_in(&self, context: Handle, device: u32, stream: u64) -> Result<StreamIdentity> {
        if !is_legacy(stream) {
            if let Some(capture) = self.ask_capture(stream)? {
                return Ok(captured_identity(device, stream, capture));
            }
            return Ok(StreamIdentity { id: self.id_of(stream)?, device, capture: None });
        }
        // The legacy stream cannot be captured, and a context has one for all its life. The driver
        // refuses its id (906) while any blocking stream is captured, so it gets its name from its
        // context.
        Ok(StreamIdentity { id: OWN_IDS | LEGACY | context as u64, device, capture: None })
    }

    /// The driver's id of a stream. A driver without ids (before 12.0) gets a new one each time:
    /// then no two calls seem to name one stream, which is slow and safe.
    fn id_of(&self, stream: u64) -> Result<u64> {
        let mut id = 0;
        match call!(self, optional cuStreamGetId(stream as Handle, &mut id)) {
            Some(result) => result.map(|()| id),
            None => Ok(OWN_IDS | self.next_id.fetch_add(1, Relaxed)),
        }
    }

    /// Asks the driver for the device of an ordinary stream.
    fn find_device(&self, stream: u64) -> Result<u32> {
        let mut context = 0;
        call!(self, cuStreamGetCtx(stream as Handle, &mut context))?;
        let known = self.devices.iter().position(|d| d.context.load(Relaxed) == context);
        if let Some(index) = known {
            return Ok(index as u32);
        }
        let _inside = self.enter_context(context)?;
        self.device_of_current(context)
    }

    /// The legacy stream is not asked: it cannot be captured, and while a blocking stream captures
    /// it cannot even answer.
    fn ask_capture(&self, stream: u64) -> Result<Option<CaptureInfo>> {
        if is_legacy(stream) {
            return Ok(None);
        }
        let mut status = CAPTURE_NONE;
        call!(self, cuStreamIsCapturing(stream as Handle, &mut status))?;
        if status == CAPTURE_NONE {
            return Ok(None);
        }
        self.capture_info(stream)
    }

    /// Id and graph of a capture; both 0 if the capture was broken and waits for its end.
    fn capture_info(&self, stream: u64) -> Result<Option<CaptureInfo>> {
        let stream = stream as Handle;
        let (mut status, mut id, mut graph) = (CAPTURE_NONE, 0, 0);
        let none = std::ptr::null_mut;
        let newer = call!(self, optional cuStreamGetCaptureInfoV3(
            stream, &mut status, &mut id, &mut graph, none(), none(), none()
        ));
        let result = newer.or_else(|| {
            call!(self, optional cuStreamGetCaptureInfoV2(
                stream, &mut status, &mut id, &mut graph, none(), none()
            ))
        });
        let what = "captures need CUDA 11.3 (cuStreamGetCaptureInfo_v2)";
        result.unwrap_or(Err(Error::new(Status::E_NOT_SUPPORTED, what)))?;
        Ok(match status {
            CAPTURE_NONE => None,
            CAPTURE_ACTIVE => Some(CaptureInfo { id, graph: graph as u64 }),
            _ => Some(CaptureInfo { id: 0, graph: 0 }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_by_stream_id() {
        let table = DeviceOfStream::new();
        assert_eq!(table.get(7), None);
        assert_eq!(table.get(0), None);
        table.set(7, 0);
        table.set(8, 63);
        assert_eq!((table.get(7), table.get(8)), (Some(0), Some(63)));
        table.set(7 + SLOTS as u64, 1);
        assert_eq!(table.get(7), None, "displaced, not wrong");
        assert_eq!(table.get(7 + SLOTS as u64), Some(1));
        table.set(OWN_IDS | 9, 1);
        assert_eq!(table.get(OWN_IDS | 9), None, "an id that does not fit is not kept");
    }
}
