//! Structs and scalar types of the C ABI. Fixed-width fields only; `struct_size` first.

/// Result of every fallible call: 0 is success. Families: 1000 argument, 2000 memory, 3000 device
/// and driver, 4000 state, 9000 internal. Numbers are never changed and never reused.
#[allow(non_camel_case_types, reason = "C name")]
pub type cenote_status = i32;

/// A pool: a 64-bit id with a generation, so that a stale or foreign handle is a status and not a
/// crash. 0 is CENOTE_DEFAULT_POOL.
#[allow(non_camel_case_types, reason = "C name")]
pub type cenote_pool_t = u64;

/// A stream in one of two forms. Raw: a CUstream uncast, the special values 0 (legacy default
/// stream), 1 (CU_STREAM_LEGACY) and 2 (CU_STREAM_PER_THREAD) included; code compiled for the
/// per-thread default stream must pass 2 where it means its default stream. Registered: a value
/// from cenote_stream_register, which is never a valid pointer.
#[allow(non_camel_case_types, reason = "C name")]
pub type cenote_stream_t = *mut std::ffi::c_void;

/// A captured graph's private memory, as cenote_capture_end names it. 0 is none.
#[allow(non_camel_case_types, reason = "C name")]
pub type cenote_graph_t = u64;

/// The default pool of the current device.
pub const CENOTE_DEFAULT_POOL: u64 = 0;
/// ABI generation of this header; cenote_abi_version() must give the same.
pub const CENOTE_ABI_VERSION: u32 = 1;

/// Kind: memory of the device (the host's memory on the host backend).
pub const CENOTE_KIND_DEVICE: u32 = 0;
/// Kind: plain host memory, the same interface where there is no GPU.
pub const CENOTE_KIND_HOST: u32 = 1;

/// Pool flag: pages of live blocks never change their physical memory, and idle ones are never
/// taken over: for consumers that register whole segments (NCCL, RDMA).
pub const CENOTE_POOL_STABLE: u32 = 1;

/// Alloc flag: never wait for the device; CENOTE_E_WOULD_BLOCK if only waiting could help.
pub const CENOTE_ALLOC_NOWAIT: u32 = 1;
/// Alloc flag: never take new memory from the driver; CENOTE_E_WOULD_GROW if only that could help.
pub const CENOTE_ALLOC_NO_GROW: u32 = 2;
/// Alloc flag: do nothing about memory that other streams freed and may still use: no event is
/// recorded for it and nothing waits for it. What is known to be finished serves every stream.
pub const CENOTE_ALLOC_NO_CROSS_STREAM: u32 = 4;

/// Stream promise: the stream lives until cenote_stream_retire; the library may use its handle in
/// later calls.
pub const CENOTE_STREAM_PERSISTENT: u32 = 1;
/// Stream promise: captures of this stream are told by cenote_capture_begin and cenote_capture_end,
/// so that no call has to ask the driver.
pub const CENOTE_STREAM_CAPTURE_TOLD: u32 = 2;

/// Slack chosen by the library.
pub const CENOTE_SLACK_AUTO: u32 = 0xFFFF_FFFF;
/// Decay off: idle pages stay until a trim.
pub const CENOTE_DECAY_OFF: u32 = 0xFFFF_FFFF;

/// Backend numbers in cenote_runtime_info.backend.
pub const CENOTE_BACKEND_HOST: u32 = 0;
/// The CUDA driver.
pub const CENOTE_BACKEND_CUDA: u32 = 1;
/// A table given by the caller.
pub const CENOTE_BACKEND_VTABLE: u32 = 2;

/// Details of the last failure on the calling thread.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types, reason = "C name")]
pub struct cenote_error {
    /// sizeof(cenote_error), set by the caller.
    pub struct_size: u32,
    /// The status that was returned.
    pub status: cenote_status,
    /// The driver's own code (CUresult or errno), 0 if none.
    pub backend_code: i32,
    /// Zero.
    pub reserved: u32,
    /// Bytes wanted, 0 if that says nothing here.
    pub wanted_bytes: u64,
    /// Bytes available, or the limit that refused; 0 if that says nothing here.
    pub available_bytes: u64,
    /// One line: what, where and what to do. NUL-terminated.
    pub message: [std::ffi::c_char; 256],
}

/// The library and the backend that serves it.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types, reason = "C name")]
pub struct cenote_runtime_info_t {
    /// sizeof(cenote_runtime_info_t), set by the caller.
    pub struct_size: u32,
    /// CENOTE_ABI_VERSION of the library.
    pub abi_version: u32,
    /// CENOTE_BACKEND_*.
    pub backend: u32,
    /// Driver version as it counts (13000 is CUDA 13.0), 0 on other backends.
    pub driver_version: u32,
    /// Number of devices.
    pub device_count: u32,
    /// Zero.
    pub reserved: u32,
}

/// One option with its effective value and where that value came from.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types, reason = "C name")]
pub struct cenote_option_t {
    /// sizeof(cenote_option_t), set by the caller.
    pub struct_size: u32,
    /// 0 default, 1 environment, 2 cenote_configure.
    pub source: u32,
    /// Option name, for example "limit"; the environment variable is CENOTE_ and the name in
    /// capitals.
    pub name: [std::ffi::c_char; 32],
    /// Effective value as text.
    pub value: [std::ffi::c_char; 256],
    /// One line that says what the option does, its unit and range.
    pub help: [std::ffi::c_char; 256],
}

/// A device.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types, reason = "C name")]
pub struct cenote_device_info_t {
    /// sizeof(cenote_device_info_t), set by the caller.
    pub struct_size: u32,
    /// Compute capability, major * 10 + minor; 0 where there is none.
    pub compute_capability: u32,
    /// Bytes of memory in all.
    pub total_bytes: u64,
    /// Bytes free as the driver says; UINT64_MAX where unknown (no context on the device yet).
    pub free_bytes: u64,
    /// Bytes of the smallest unit that goes back to the driver.
    pub page_bytes: u64,
    /// Limit in force for this process on the device, UINT64_MAX for none.
    pub limit_bytes: u64,
    /// 1 if the CPU can use the addresses that allocation returns, else 0.
    pub host_visible: u32,
    /// 1 if handles can be exported as file descriptors, else 0.
    pub export_fd: u32,
    /// 1 if memory is made reachable by RDMA, else 0.
    pub rdma: u32,
    /// 1 if pages are mapped by virtual memory management, else 0 (whole driver allocations).
    pub virtual_memory: u32,
    /// Name, NUL-terminated.
    pub name: [std::ffi::c_char; 256],
    /// "GPU-…" as NVIDIA's tools print it, or empty.
    pub uuid: [std::ffi::c_char; 64],
}

/// What a pool is made of. Zeroed fields take the defaults.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types, reason = "C name")]
pub struct cenote_pool_desc {
    /// sizeof(cenote_pool_desc), set by the caller.
    pub struct_size: u32,
    /// CENOTE_KIND_*.
    pub kind: u32,
    /// Device index; -1 for the current device.
    pub device: i32,
    /// CENOTE_POOL_*.
    pub flags: u32,
    /// Most bytes the pool may hold, 0 for no limit of its own.
    pub limit_bytes: u64,
    /// Bytes to take from the driver at creation, 0 for none.
    pub initial_bytes: u64,
    /// Parts per million by which held bytes may exceed peak live bytes before idle memory is taken
    /// over instead of new memory created; 0 takes the option "slack", CENOTE_SLACK_AUTO chooses.
    pub slack_ppm: u32,
    /// Milliseconds after which finished idle pages go back to the driver; 0 takes the option
    /// "decay", CENOTE_DECAY_OFF keeps them.
    pub decay_ms: u32,
    /// Name for reports, NUL-terminated; empty for none.
    pub name: [std::ffi::c_char; 32],
}

/// What a trim did.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types, reason = "C name")]
pub struct cenote_trim_result {
    /// sizeof(cenote_trim_result), set by the caller.
    pub struct_size: u32,
    /// Zero.
    pub reserved: u32,
    /// Bytes given back to the driver.
    pub returned_bytes: u64,
    /// Bytes that stay because frees of other streams are not finished on the device.
    pub pending_bytes: u64,
    /// Bytes that stay because live or pinned blocks use their handles.
    pub kept_bytes: u64,
}

/// Settings of one allocation.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types, reason = "C name")]
pub struct cenote_alloc_desc {
    /// sizeof(cenote_alloc_desc), set by the caller.
    pub struct_size: u32,
    /// CENOTE_ALLOC_*.
    pub flags: u32,
    /// Bytes wanted; 0 gives NULL.
    pub size_bytes: u64,
    /// A power of two up to 2 MiB; 0 for the default of 512.
    pub align_bytes: u64,
}

/// A block, found by its address.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types, reason = "C name")]
pub struct cenote_block_info_t {
    /// sizeof(cenote_block_info_t), set by the caller.
    pub struct_size: u32,
    /// CENOTE_KIND_*.
    pub kind: u32,
    /// Device index.
    pub device: i32,
    /// Number of pins.
    pub pin_count: u32,
    /// The pool that owns the block.
    pub pool: cenote_pool_t,
    /// Start of the block.
    pub base: u64,
    /// Offset of the address asked about from the start.
    pub offset_bytes: u64,
    /// Bytes asked for when it was allocated.
    pub requested_bytes: u64,
    /// Bytes that may be used: the request rounded up.
    pub usable_bytes: u64,
    /// The same memory for the CPU; NULL where the CPU cannot use it.
    pub host_ptr: *mut std::ffi::c_void,
    /// Start of the reservation that contains the block.
    pub reservation_base: u64,
    /// Bytes of that reservation.
    pub reservation_bytes: u64,
    /// Number of physical handles under the block: see cenote_block_segments.
    pub segment_count: u32,
    /// 1 if the block belongs to a captured graph's private memory, else 0.
    pub captured: u32,
}

/// One physical handle under a block.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types, reason = "C name")]
pub struct cenote_segment_t {
    /// Address at which the handle is mapped.
    pub base: u64,
    /// Bytes of the handle.
    pub size_bytes: u64,
    /// The driver's handle (CUmemGenericAllocationHandle), 0 on backends without one.
    pub handle: u64,
}

/// Statistics of a pool. Current values are exact at rest; UINT64_MAX means unknown, never 0.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types, reason = "C name")]
pub struct cenote_pool_stats_t {
    /// sizeof(cenote_pool_stats_t), set by the caller.
    pub struct_size: u32,
    /// 1 once the device context is lost: the figures are the last known, and say nothing of the
    /// device any more. Else 0.
    pub untrusted: u32,
    /// Bytes requested and not yet freed.
    pub live_bytes: u64,
    /// The same, rounded up to what the blocks occupy.
    pub used_bytes: u64,
    /// Bytes of freed blocks whose last use is not yet known to be finished on the device.
    pub pending_bytes: u64,
    /// Bytes held for later use: held less used and pending.
    pub cached_bytes: u64,
    /// Every byte taken from the driver and not released, mapped or not.
    pub held_bytes: u64,
    /// Bytes of address space reserved.
    pub reserved_bytes: u64,
    /// Peak of live_bytes since creation or the last reset.
    pub peak_live_bytes: u64,
    /// Peak of held_bytes since creation or the last reset.
    pub peak_held_bytes: u64,
    /// Largest single request that mapped idle memory could serve now, on an idle device.
    pub largest_free_bytes: u64,
    /// Live blocks.
    pub live_blocks: u64,
    /// Allocations since creation.
    pub alloc_count: u64,
    /// Frees since creation.
    pub free_count: u64,
    /// Driver calls: physical memory created.
    pub driver_create_count: u64,
    /// Driver calls: handles mapped.
    pub driver_map_count: u64,
    /// Driver calls: access set.
    pub driver_access_count: u64,
    /// Driver calls: ranges unmapped.
    pub driver_unmap_count: u64,
    /// Driver calls: handles released.
    pub driver_release_count: u64,
    /// Time in those five kinds of call, nanoseconds.
    pub driver_time_ns: u64,
    /// Events recorded.
    pub event_record_count: u64,
    /// Event queries.
    pub event_query_count: u64,
    /// Allocations that needed a step of the out-of-memory ladder and then succeeded.
    pub retry_count: u64,
    /// Allocations refused for lack of memory or by a limit.
    pub oom_count: u64,
    /// Blocks that were found live when a cache handed them out, and dropped (a racing double
    /// free).
    pub dropped_count: u64,
    /// Idle handles moved to another address instead of creating memory.
    pub takeover_count: u64,
}

/// One change of a mapping, as cenote_mapping_observe reports it.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types, reason = "C name")]
pub struct cenote_mapping_event {
    /// sizeof(cenote_mapping_event) of the library.
    pub struct_size: u32,
    /// 1 mapped, 0 about to be unmapped.
    pub mapped: u32,
    /// Device index.
    pub device: i32,
    /// Zero.
    pub reserved: u32,
    /// Address of the mapping.
    pub base: u64,
    /// Bytes of the mapping.
    pub size_bytes: u64,
    /// The driver's handle, 0 on backends without one.
    pub handle: u64,
}

/// Told of each mapping change, on the thread that makes it, with no lock held. It may not call
/// cenote (CENOTE_E_REENTRANT) and must not unwind.
#[allow(non_camel_case_types, reason = "C name")]
pub type cenote_mapping_fn =
    Option<unsafe extern "C" fn(event: *const cenote_mapping_event, user: *mut std::ffi::c_void)>;

pub use crate::device::vtable::cenote_backend_vtable;
