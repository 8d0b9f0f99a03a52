//! Every driver function by name: its number, its address and its counters.

use std::ffi::{c_void, CString};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one driver function. Relaxed: they are read at rest.
pub struct Site {
    /// All calls.
    pub calls: AtomicU64,
    /// Calls made while the thread's capture mode was RELAXED.
    pub relaxed: AtomicU64,
    /// Calls that did not return SUCCESS or NOT_READY.
    pub failed: AtomicU64,
}

impl Site {
    const fn new() -> Site {
        Site { calls: AtomicU64::new(0), relaxed: AtomicU64::new(0), failed: AtomicU64::new(0) }
    }
}

macro_rules! functions {
    ($($name:ident)*) => {
        /// A driver function; the variant is named as the symbol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(non_camel_case_types, reason = "the variants are the symbols' names")]
        pub enum Fun { $(#[doc = stringify!($name)] $name,)* }

        /// Names in the order of the enum.
        pub static NAMES: &[&str] = &[$(stringify!($name),)*];

        static SITES: [Site; NAMES.len()] = [const { Site::new() }; NAMES.len()];
    };
}

functions! {
    cuInit cuDriverGetVersion cuDeviceGet cuDeviceGetCount cuDeviceGetName
        cuDeviceGetUuid cuDeviceGetUuid_v2 cuDeviceTotalMem_v2 cuDeviceGetAttribute
        cuDeviceGetPCIBusId cuGetErrorName cuGetErrorString cuGetProcAddress_v2
    cuDevicePrimaryCtxRetain cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxGetState
        cuDevicePrimaryCtxReset_v2 cuCtxCreate_v2 cuCtxDestroy_v2 cuCtxGetCurrent
        cuCtxSetCurrent cuCtxPushCurrent_v2 cuCtxPopCurrent_v2 cuCtxGetDevice cuCtxGetId
        cuCtxSynchronize cuCtxRecordEvent cuCtxGetStreamPriorityRange
    cuMemGetInfo_v2 cuMemAlloc_v2 cuMemFree_v2 cuMemAllocManaged cuMemHostAlloc
        cuMemFreeHost cuMemHostRegister_v2 cuMemHostUnregister cuMemHostGetDevicePointer_v2
        cuPointerGetAttribute cuMemGetAddressRange_v2
    cuMemGetAllocationGranularity cuMemAddressReserve cuMemAddressFree cuMemCreate
        cuMemRelease cuMemRetainAllocationHandle cuMemMap cuMemUnmap cuMemSetAccess
        cuMemGetAccess cuMemExportToShareableHandle cuMemImportFromShareableHandle
        cuMemGetAllocationPropertiesFromHandle
    cuStreamCreate cuStreamCreateWithPriority cuStreamDestroy_v2 cuStreamGetId
        cuStreamGetCtx cuStreamGetDevice cuStreamGetFlags cuStreamGetPriority cuStreamQuery
        cuStreamSynchronize cuStreamWaitEvent cuEventCreate cuEventDestroy_v2 cuEventRecord
        cuEventQuery cuEventSynchronize cuLaunchHostFunc
    cuMemcpyAsync cuMemcpyDtoHAsync_v2 cuMemcpyHtoDAsync_v2 cuMemcpyDtoDAsync_v2
        cuMemcpyDtoH_v2 cuMemcpyHtoD_v2 cuMemsetD8Async
    cuStreamIsCapturing cuStreamGetCaptureInfo_v2 cuStreamGetCaptureInfo_v3
        cuStreamBeginCapture_v2 cuStreamEndCapture cuThreadExchangeStreamCaptureMode
        cuUserObjectCreate cuUserObjectRetain cuUserObjectRelease cuGraphRetainUserObject
        cuGraphReleaseUserObject cuGraphDestroy cuGraphInstantiateWithFlags cuGraphLaunch
        cuGraphExecDestroy
}

impl Fun {
    /// The symbol's name.
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }

    /// The function's counters.
    pub fn site(self) -> &'static Site {
        &SITES[self as usize]
    }
}

/// Number of the function with this name.
pub fn index_of(name: &str) -> Option<usize> {
    NAMES.iter().position(|known| *known == name)
}

/// Counters by number.
pub fn site_at(index: usize) -> Option<&'static Site> {
    SITES.get(index)
}

/// Set all counters to zero.
pub fn reset_counts() {
    for site in &SITES {
        for counter in [&site.calls, &site.relaxed, &site.failed] {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

/// Address of an exported function. Asked of the loader, not of the linker: a test may take a
/// symbol away from a copy of this library, which must still load then.
pub fn address(name: &str) -> Option<*const c_void> {
    index_of(name)?;
    let name = CString::new(name).ok()?;
    // SAFETY: the handle names this library, which is loaded; the name is a valid string.
    let address = unsafe { libc::dlsym(own_library(), name.as_ptr()) };
    (!address.is_null()).then_some(address.cast_const())
}

/// A reference to this library that is never given back: handlers and threads live in it.
pub fn own_library() -> *mut c_void {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr fills the struct for an address of this library, whose file name is then a
    // valid string; opening it again only adds a reference.
    unsafe {
        if libc::dladdr(own_library as *const c_void, info.as_mut_ptr()) == 0 {
            return std::ptr::null_mut();
        }
        libc::dlopen(info.assume_init().dli_fname, libc::RTLD_NOW | libc::RTLD_NODELETE)
    }
}

/// Versions in which the variants of a base name appeared, newest first: what
/// `cuGetProcAddress_v2` chooses from.
static VARIANTS: &[(&str, u32, &str)] = &[
    ("cuDeviceGetUuid", 11040, "cuDeviceGetUuid_v2"),
    ("cuDeviceGetUuid", 9020, "cuDeviceGetUuid"),
    ("cuStreamGetCaptureInfo", 12030, "cuStreamGetCaptureInfo_v3"),
    ("cuStreamGetCaptureInfo", 11030, "cuStreamGetCaptureInfo_v2"),
    ("cuStreamBeginCapture", 10010, "cuStreamBeginCapture_v2"),
    ("cuGetProcAddress", 12000, "cuGetProcAddress_v2"),
    ("cuDevicePrimaryCtxRelease", 11000, "cuDevicePrimaryCtxRelease_v2"),
    ("cuDevicePrimaryCtxReset", 11000, "cuDevicePrimaryCtxReset_v2"),
    ("cuStreamGetId", 12000, "cuStreamGetId"),
    ("cuStreamGetDevice", 12080, "cuStreamGetDevice"),
    ("cuCtxGetId", 12000, "cuCtxGetId"),
    ("cuCtxRecordEvent", 12050, "cuCtxRecordEvent"),
];

/// Outcome of a search by base name and version.
pub enum Found {
    /// The function to call.
    Yes(*const c_void),
    /// It exists, in a newer version than asked for.
    TooNew,
    /// There is none.
    No,
}

/// The newest variant of `base` that a caller built for `version` can call.
pub fn find(base: &str, version: u32) -> Found {
    let mut seen = false;
    for (name, since, symbol) in VARIANTS.iter().filter(|entry| entry.0 == base) {
        debug_assert_eq!(*name, base);
        seen = true;
        if version >= *since {
            return address(symbol).map_or(Found::No, Found::Yes);
        }
    }
    if seen {
        return Found::TooNew;
    }
    let plain = [base.to_owned(), format!("{base}_v2")];
    plain.iter().find_map(|name| address(name)).map_or(Found::No, Found::Yes)
}
