//! The CUDA backend: the contract of a device in calls of NVIDIA's driver.
//!
//! - `loader` finds the driver's functions; `structs` has its types; `result` its errors.
//! - `context` makes a context current and hides the thread from captures, and undoes both.
//! - `vmm` is memory, `events` what is ordered on streams, `streams` what a raw stream is.
//!
//! Nothing here is undone when a process ends: the driver may be gone by then.

use std::ffi::c_void;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use parking_lot::Mutex;

use super::{
    wait, Backend, BackendKind, Caps, CaptureInfo, DeviceInfo, EventHandle, GraphGone, MemInfo,
    PhysHandle, StreamIdentity,
};
use crate::base::{Error, Result, Status};

mod context;
mod events;
mod loader;
mod probe;
mod result;
mod streams;
mod structs;
mod vmm;

use loader::{Api, VmmApi};
use result::Lost;
use streams::DeviceOfStream;

/// Calls a function of the driver's table; `optional` gives `None` where the driver lacks it.
macro_rules! call {
    ($self:expr, optional $name:ident($($arg:expr),*)) => {
        $self.api.$name.map(|function| {
            $self.lost.result(stringify!($name), {
                // SAFETY: cuda.h declares this signature; pointers are to locals that outlive the
                // call, and the driver itself checks handles and addresses.
                unsafe { function($($arg),*) }
            })
        })
    };
    ($self:expr, $name:ident($($arg:expr),*)) => {
        $self.lost.result(stringify!($name), {
            // SAFETY: as above.
            unsafe { ($self.api.$name)($($arg),*) }
        })
    };
}
use call;

/// Whether a handle is one of the two names of the legacy default stream.
fn is_legacy(stream: u64) -> bool {
    stream <= 1
}

/// Whether a handle names a default stream of the current context.
fn is_special(stream: u64) -> bool {
    stream <= 2
}

/// A device and what was learnt of it when the driver was opened.
struct Device {
    /// CUdevice.
    ordinal: i32,
    name: String,
    uuid: String,
    total_bytes: u64,
    page_bytes: u64,
    compute_capability: u32,
    virtual_memory: bool,
    /// New handles are created exportable; cleared if the driver refuses that.
    export_fd: AtomicBool,
    /// New handles are created for RDMA; cleared if the driver refuses that.
    rdma: AtomicBool,
    /// The primary context, 0 until the device is activated.
    context: AtomicUsize,
    /// Id of that context, 0 where the driver has none.
    context_id: AtomicU64,
    activating: Mutex<()>,
}

/// The CUDA driver as a backend.
pub struct Cuda {
    api: Api,
    vmm: Option<VmmApi>,
    devices: Vec<Device>,
    driver_version: u32,
    lost: Lost,
    device_of_stream: DeviceOfStream,
    /// For stream ids where the driver has none.
    next_id: AtomicU64,
}

impl Cuda {
    /// Opens and initialises the driver and reads what its devices are; creates no context.
    pub fn open() -> Result<Cuda> {
        let (api, vmm) = loader::load()?;
        let mut cuda = Cuda {
            api,
            vmm,
            devices: Vec::new(),
            driver_version: 0,
            lost: Lost::default(),
            device_of_stream: DeviceOfStream::new(),
            next_id: AtomicU64::new(1),
        };
        cuda.initialise()?;
        cuda.devices = cuda.probe()?;
        Ok(cuda)
    }

    fn device(&self, device: u32) -> Result<&Device> {
        let unknown = Error::new(Status::E_DEVICE, "cuda: no device of this index");
        self.devices.get(device as usize).ok_or(unknown)
    }
}

impl Backend for Cuda {
    fn kind(&self) -> BackendKind {
        BackendKind::Cuda
    }

    fn device_count(&self) -> u32 {
        self.devices.len() as u32
    }

    fn device_info(&self, device: u32) -> Result<DeviceInfo> {
        let slot = self.device(device)?;
        Ok(DeviceInfo {
            name: slot.name.clone(),
            uuid: slot.uuid.clone(),
            total_bytes: slot.total_bytes,
            page_bytes: slot.page_bytes,
            compute_capability: slot.compute_capability,
            caps: Caps {
                virtual_memory: slot.virtual_memory,
                export_fd: slot.virtual_memory && slot.export_fd.load(Relaxed),
                rdma: slot.virtual_memory && slot.rdma.load(Relaxed),
                host_visible: false,
                asynchronous: true,
                alias: slot.virtual_memory,
            },
        })
    }

    fn current_device(&self, fallback: u32) -> Result<u32> {
        self.lost.check()?;
        match self.current_context()? {
            0 => self.device(fallback).map(|_| fallback),
            current => self.device_of_current(current),
        }
    }

    fn activate(&self, device: u32) -> Result<()> {
        self.retain(device)
    }

    fn mem_info(&self, device: u32) -> Result<MemInfo> {
        self.memory(device)
    }

    fn reserve(&self, device: u32, size_bytes: u64, align_bytes: u64) -> Result<u64> {
        self.reserve_range(device, size_bytes, align_bytes)
    }

    fn unreserve(&self, device: u32, addr: u64, size_bytes: u64) -> Result<()> {
        self.free_range(device, addr, size_bytes)
    }

    fn create(&self, device: u32, size_bytes: u64) -> Result<PhysHandle> {
        self.create_memory(device, size_bytes)
    }

    fn release(&self, device: u32, handle: PhysHandle, _size_bytes: u64) -> Result<()> {
        self.release_memory(device, handle)
    }

    fn map(&self, device: u32, addr: u64, size_bytes: u64, handle: PhysHandle) -> Result<()> {
        self.map_handle(device, addr, size_bytes, handle.0)
    }

    fn set_access(&self, device: u32, addr: u64, size_bytes: u64) -> Result<()> {
        self.allow_access(device, addr, size_bytes)
    }

    fn unmap(&self, device: u32, addr: u64, size_bytes: u64) -> Result<()> {
        self.unmap_range(device, addr, size_bytes)
    }

    fn fixed_address(&self, device: u32, handle: PhysHandle) -> Result<u64> {
        if self.device(device)?.virtual_memory {
            let what = "cuda: memory has no address until it is mapped";
            return Err(Error::new(Status::E_NOT_SUPPORTED, what));
        }
        Ok(handle.0)
    }

    fn export_fd(&self, device: u32, handle: PhysHandle) -> Result<i32> {
        self.export(device, handle.0)
    }

    fn identify(&self, device: u32, stream: u64) -> Result<StreamIdentity> {
        self.identity(device, stream)
    }

    fn capture(&self, device: u32, stream: u64) -> Result<Option<CaptureInfo>> {
        self.capture_of(device, stream)
    }

    fn event_create(&self, device: u32) -> Result<EventHandle> {
        self.new_event(device)
    }

    fn event_destroy(&self, device: u32, event: EventHandle) -> Result<()> {
        self.destroy_event(device, event)
    }

    fn event_record(&self, device: u32, event: EventHandle, stream: u64) -> Result<()> {
        self.record(device, event, stream)
    }

    fn event_record_context(&self, device: u32, event: EventHandle) -> Result<()> {
        self.record_context(device, event)
    }

    fn event_query(&self, device: u32, event: EventHandle) -> Result<bool> {
        self.query(device, event)
    }

    fn event_wait(&self, device: u32, event: EventHandle, timeout_ms: u64) -> Result<bool> {
        wait::poll(timeout_ms, || self.query(device, event))
    }

    fn stream_wait(&self, device: u32, stream: u64, event: EventHandle) -> Result<()> {
        self.wait_on_stream(device, stream, event)
    }

    fn graph_retain(
        &self,
        device: u32,
        graph: u64,
        gone: GraphGone,
        cookie: *mut c_void,
    ) -> Result<()> {
        self.retain_on_graph(device, graph, gone, cookie)
    }

    fn copy(&self, device: u32, dst: u64, src: u64, size_bytes: u64, stream: u64) -> Result<()> {
        self.copy_bytes(device, (dst, src), size_bytes, stream)
    }

    fn fill(&self, device: u32, dst: u64, value: u8, size_bytes: u64, stream: u64) -> Result<()> {
        self.fill_bytes(device, dst, value, size_bytes, stream)
    }

    fn synchronize(&self, device: u32) -> Result<()> {
        self.synchronize_context(device)
    }

    fn sticky(&self) -> Option<Error> {
        self.lost.get()
    }

    fn driver_version(&self) -> u32 {
        self.driver_version
    }
}
