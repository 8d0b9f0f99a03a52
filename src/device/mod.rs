//! Layer 1: the contract of a backend, and the backends.
//!
//! A backend hands out addresses, physical memory and events of one or more devices. It keeps no
//! policy: what to create, map or release, and when, is decided above. Every method may be called
//! from any thread at the same time; none may be called while a pool lock is held except the event
//! methods, the identity and capture queries (sub-microsecond host calls).
//!
//! A backend leaves the calling thread's current device and context as it found them, and never
//! creates a context on a device that the caller did not name.

use crate::base::Result;

#[cfg(feature = "cuda")]
pub mod cuda;
pub mod delayed;
pub mod host;
mod meminfo;
pub mod select;
pub mod vtable;
mod wait;

/// Which backend serves a runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendKind {
    /// Host memory by mmap: a full stand-in where there is no GPU.
    Host,
    /// NVIDIA's driver.
    Cuda,
    /// Given by the caller as a table of C function pointers.
    Vtable,
}

/// What a device can do; a missing capability is a documented fallback or a status, never a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    /// Reserve, create, map and unmap are separate (virtual memory management). Without it `create`
    /// returns memory at a fixed address (`fixed_address`) and `map` is not called.
    pub virtual_memory: bool,
    /// Handles can be exported as POSIX file descriptors.
    pub export_fd: bool,
    /// Handles can be made reachable by RDMA.
    pub rdma: bool,
    /// The CPU can read and write the memory at the device address.
    pub host_visible: bool,
    /// Work is asynchronous, so frees need events. False on the host: everything is done at once.
    pub asynchronous: bool,
    /// One handle may be mapped at several addresses at once.
    pub alias: bool,
}

/// A device, as `cenote_device_info` shows it.
#[derive(Clone, Debug, Default)]
pub struct DeviceInfo {
    /// Human-readable name, at most 255 bytes.
    pub name: String,
    /// "GPU-…" as NVIDIA's tools print it; empty where there is none.
    pub uuid: String,
    /// Memory of the device in bytes.
    pub total_bytes: u64,
    /// Smallest unit of physical memory, a power of two (2 MiB on current GPUs).
    pub page_bytes: u64,
    /// Compute capability major * 10 + minor; 0 where that says nothing.
    pub compute_capability: u32,
    /// Capabilities.
    pub caps: Caps,
}

/// Physical memory of one device, `create`d and `release`d whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PhysHandle(pub u64);

/// An event of the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventHandle(pub u64);

/// What a raw stream is at the moment of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamIdentity {
    /// Unique for the life of the process, never reused (unlike the handle).
    pub id: u64,
    /// Device whose context the stream belongs to.
    pub device: u32,
    /// Set while the stream is being captured.
    pub capture: Option<CaptureInfo>,
}

/// A running stream capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureInfo {
    /// Unique id of the capture in the process. 0, with graph 0, for a capture that was broken and
    /// waits for its end: nothing can be added to it.
    pub id: u64,
    /// The graph being built (CUgraph), 0 where the backend has none.
    pub graph: u64,
}

/// Free and total bytes of a device as the driver reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemInfo {
    /// Bytes free now; advisory.
    pub free_bytes: u64,
    /// Bytes in all.
    pub total_bytes: u64,
}

/// Called by the backend when the last user of a captured graph is gone. It runs on a driver thread
/// and may only set a flag: no driver call, no lock, no allocation.
pub type GraphGone = unsafe extern "C" fn(cookie: *mut std::ffi::c_void);

/// The contract of a backend. See the module head for threads and contexts.
pub trait Backend: Send + Sync {
    /// Which backend this is.
    fn kind(&self) -> BackendKind;
    /// Number of devices; 0 is legal for a driver without a device.
    fn device_count(&self) -> u32;
    /// Facts of a device, read without creating a context. E_DEVICE if there is none.
    fn device_info(&self, device: u32) -> Result<DeviceInfo>;
    /// Device of the calling thread's current context; device 0 (or CENOTE_DEVICE, given as
    /// `fallback`) where no context is current. Never creates a context.
    fn current_device(&self, fallback: u32) -> Result<u32>;
    /// Make the device usable (retain its primary context). Called once before the first pool of
    /// the device; later calls are cheap.
    fn activate(&self, device: u32) -> Result<()>;
    /// Free and total memory.
    fn mem_info(&self, device: u32) -> Result<MemInfo>;

    /// Reserve an address range; E_ADDRESS_SPACE if refused.
    fn reserve(&self, device: u32, size_bytes: u64, align_bytes: u64) -> Result<u64>;
    /// Give back a whole reservation with nothing mapped in it.
    fn unreserve(&self, device: u32, addr: u64, size_bytes: u64) -> Result<()>;
    /// Create physical memory, a multiple of the page size; E_OUT_OF_MEMORY if there is none.
    /// Exportable and RDMA-capable where the device can (it cannot be changed later).
    fn create(&self, device: u32, size_bytes: u64) -> Result<PhysHandle>;
    /// Give physical memory back. Legal while mappings remain: the last one keeps the memory.
    fn release(&self, device: u32, handle: PhysHandle, size_bytes: u64) -> Result<()>;
    /// Map a whole handle at an address with nothing mapped. Not accessible until `set_access`.
    fn map(&self, device: u32, addr: u64, size_bytes: u64, handle: PhysHandle) -> Result<()>;
    /// Give the device (and the host where it can) read and write access to a wholly mapped range.
    fn set_access(&self, device: u32, addr: u64, size_bytes: u64) -> Result<()>;
    /// Unmap whole mappings. The caller has proved that nothing uses them any more.
    fn unmap(&self, device: u32, addr: u64, size_bytes: u64) -> Result<()>;
    /// Address of memory from `create` where `Caps::virtual_memory` is false.
    fn fixed_address(&self, device: u32, handle: PhysHandle) -> Result<u64>;
    /// Export a handle as a file descriptor that the caller owns.
    fn export_fd(&self, device: u32, handle: PhysHandle) -> Result<i32>;

    /// Identity of a raw stream of the calling thread's view (0 = legacy default, 1 = legacy,
    /// 2 = per-thread default stream of the caller).
    fn identify(&self, device: u32, stream: u64) -> Result<StreamIdentity>;
    /// Capture state alone (cheaper than `identify`).
    fn capture(&self, device: u32, stream: u64) -> Result<Option<CaptureInfo>>;
    /// An event without timing. Legal in captures.
    fn event_create(&self, device: u32) -> Result<EventHandle>;
    /// Destroy an event; legal while it is pending.
    fn event_destroy(&self, device: u32, event: EventHandle) -> Result<()>;
    /// Record an event on a live raw stream that is not being captured.
    fn event_record(&self, device: u32, event: EventHandle, stream: u64) -> Result<()>;
    /// Record an event that covers all streams of the device's context, destroyed ones included.
    /// It would break a capture anywhere in the context: only when the caller knows of none.
    fn event_record_context(&self, device: u32, event: EventHandle) -> Result<()>;
    /// Whether the event is complete.
    fn event_query(&self, device: u32, event: EventHandle) -> Result<bool>;
    /// Wait on the host until the event is complete or the time is over (false).
    fn event_wait(&self, device: u32, event: EventHandle, timeout_ms: u64) -> Result<bool>;
    /// Let a stream wait for an event (no host wait).
    fn stream_wait(&self, device: u32, stream: u64, event: EventHandle) -> Result<()>;
    /// Ask to be told when the last graph or executable made from a capturing graph is gone, also
    /// when the capture is aborted. `E_NOT_SUPPORTED` where the backend cannot.
    fn graph_retain(
        &self,
        device: u32,
        graph: u64,
        gone: GraphGone,
        cookie: *mut std::ffi::c_void,
    ) -> Result<()>;

    /// Copy bytes in stream order between any two addresses that the backend knows.
    fn copy(&self, device: u32, dst: u64, src: u64, size_bytes: u64, stream: u64) -> Result<()>;
    /// Fill with a byte in stream order.
    fn fill(&self, device: u32, dst: u64, value: u8, size_bytes: u64, stream: u64) -> Result<()>;
    /// Wait on the host for everything queued on the device's context.
    fn synchronize(&self, device: u32) -> Result<()>;

    /// A context-lost error is remembered: the first sticky error, if there was one.
    fn sticky(&self) -> Option<crate::base::Error>;
    /// The driver's version as it counts (13000 for CUDA 13.0), 0 where that says nothing.
    fn driver_version(&self) -> u32;
}
