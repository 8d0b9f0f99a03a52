//! The driver's functions, found once at run time.
//!
//! cudarc only finds the library and its symbols: its own wrappers panic when one is missing, and
//! its enums make a newer driver's code undefined behaviour. Here a result is an integer, handles
//! are plain integers of pointer size, and a missing symbol is a status.

use cudarc::driver::sys;

use super::structs::{AccessDesc, AllocationProp, Uuid};
use crate::base::{Error, Result, Status};

/// CUcontext, CUstream, CUevent, CUgraph and CUuserObject: never dereferenced here.
pub type Handle = usize;
/// CUdevice.
pub type Ordinal = i32;
/// A destructor of a user object, or a host function.
pub type HostFn = unsafe extern "C" fn(*mut std::ffi::c_void);

/// Declares a table of the driver's functions under their names in cuda.h.
macro_rules! table {
    (
        $(#[$doc:meta])* $table:ident
        needed { $($name:ident = $symbol:literal ($($arg:ty),*);)* }
        optional { $($extra:ident = $extra_symbol:literal ($($extra_arg:ty),*);)* }
    ) => {
        $(#[$doc])*
        #[allow(non_snake_case, reason = "the driver's own names, to be found by search")]
        pub struct $table {
            $(pub $name: unsafe extern "C" fn($($arg),*) -> u32,)*
            $(pub $extra: Option<unsafe extern "C" fn($($extra_arg),*) -> u32>,)*
        }

        impl $table {
            fn find() -> Result<$table> {
                Ok($table {
                    $($name: {
                        // SAFETY: cuda.h declares the symbol with this signature.
                        unsafe { symbol(concat!($symbol, "\0")) }
                            .ok_or(Error::new(Status::E_DRIVER_SYMBOL, $symbol))?
                    },)*
                    $($extra: {
                        // SAFETY: cuda.h declares the symbol with this signature.
                        unsafe { symbol(concat!($extra_symbol, "\0")) }
                    },)*
                })
            }
        }
    };
}

table! {
    /// What every driver must have, and what a newer one may have.
    Api
    needed {
        cuInit = "cuInit"(u32);
        cuDriverGetVersion = "cuDriverGetVersion"(*mut i32);
        cuDeviceGetCount = "cuDeviceGetCount"(*mut i32);
        cuDeviceGet = "cuDeviceGet"(*mut Ordinal, i32);
        cuDeviceGetName = "cuDeviceGetName"(*mut u8, i32, Ordinal);
        cuDeviceTotalMem = "cuDeviceTotalMem_v2"(*mut usize, Ordinal);
        cuDeviceGetAttribute = "cuDeviceGetAttribute"(*mut i32, u32, Ordinal);
        cuDevicePrimaryCtxRetain = "cuDevicePrimaryCtxRetain"(*mut Handle, Ordinal);
        cuCtxGetCurrent = "cuCtxGetCurrent"(*mut Handle);
        cuCtxSetCurrent = "cuCtxSetCurrent"(Handle);
        cuCtxGetDevice = "cuCtxGetDevice"(*mut Ordinal);
        cuCtxSynchronize = "cuCtxSynchronize"();
        cuMemGetInfo = "cuMemGetInfo_v2"(*mut usize, *mut usize);
        cuMemAlloc = "cuMemAlloc_v2"(*mut u64, usize);
        cuMemFree = "cuMemFree_v2"(u64);
        cuMemcpyAsync = "cuMemcpyAsync"(u64, u64, usize, Handle);
        cuMemsetD8Async = "cuMemsetD8Async"(u64, u8, usize, Handle);
        cuEventCreate = "cuEventCreate"(*mut Handle, u32);
        cuEventDestroy = "cuEventDestroy_v2"(Handle);
        cuEventRecord = "cuEventRecord"(Handle, Handle);
        cuEventQuery = "cuEventQuery"(Handle);
        cuStreamGetCtx = "cuStreamGetCtx"(Handle, *mut Handle);
        cuStreamIsCapturing = "cuStreamIsCapturing"(Handle, *mut u32);
        cuStreamWaitEvent = "cuStreamWaitEvent"(Handle, Handle, u32);
        cuThreadExchangeStreamCaptureMode = "cuThreadExchangeStreamCaptureMode"(*mut u32);
    }
    optional {
        // 11.4; tells the parts of a divided device apart, which the older one does not.
        cuDeviceGetUuid = "cuDeviceGetUuid_v2"(*mut Uuid, Ordinal);
        cuDeviceGetUuidOld = "cuDeviceGetUuid"(*mut Uuid, Ordinal);
        // 12.0
        cuCtxGetId = "cuCtxGetId"(Handle, *mut u64);
        // 12.0
        cuStreamGetId = "cuStreamGetId"(Handle, *mut u64);
        // 12.5
        cuCtxRecordEvent = "cuCtxRecordEvent"(Handle, Handle);
        // 12.3: has a pointer for edge data that version 2 lacks.
        cuStreamGetCaptureInfoV3 = "cuStreamGetCaptureInfo_v3"(
            Handle, *mut u32, *mut u64, *mut Handle, *mut usize, *mut usize, *mut usize
        );
        // 11.3
        cuStreamGetCaptureInfoV2 = "cuStreamGetCaptureInfo_v2"(
            Handle, *mut u32, *mut u64, *mut Handle, *mut usize, *mut usize
        );
        // 11.3
        cuUserObjectCreate = "cuUserObjectCreate"(
            *mut Handle, *mut std::ffi::c_void, HostFn, u32, u32
        );
        // 11.3
        cuGraphRetainUserObject = "cuGraphRetainUserObject"(Handle, Handle, u32, u32);
    }
}

table! {
    /// Virtual memory management (10.2); used only if the driver has all of it.
    VmmApi
    needed {
        cuMemGetAllocationGranularity =
            "cuMemGetAllocationGranularity"(*mut usize, *const AllocationProp, u32);
        cuMemAddressReserve = "cuMemAddressReserve"(*mut u64, usize, usize, u64, u64);
        cuMemAddressFree = "cuMemAddressFree"(u64, usize);
        cuMemCreate = "cuMemCreate"(*mut u64, usize, *const AllocationProp, u64);
        cuMemRelease = "cuMemRelease"(u64);
        cuMemMap = "cuMemMap"(u64, usize, usize, u64, u64);
        cuMemUnmap = "cuMemUnmap"(u64, usize);
        cuMemSetAccess = "cuMemSetAccess"(u64, usize, *const AccessDesc, usize);
        cuMemExportToShareableHandle =
            "cuMemExportToShareableHandle"(*mut i32, u64, u32, u64);
    }
    optional {}
}

/// The address of a symbol as a function pointer.
///
/// # Safety
/// The library is present, `name` ends in NUL, and `F` is the symbol's function pointer type.
unsafe fn symbol<F: Copy>(name: &str) -> Option<F> {
    // SAFETY: as the caller promises; the library is never closed.
    unsafe { sys::culib().get::<F>(name.as_bytes()).ok().map(|symbol| *symbol) }
}

/// Opens the driver's library and finds its functions.
pub fn load() -> Result<(Api, Option<VmmApi>)> {
    // SAFETY: opening the driver's library runs its initialisers, which is what the caller wants.
    if !unsafe { sys::is_culib_present() } {
        return Err(Error::new(Status::E_NO_DRIVER, "libcuda.so.1 was not found"));
    }
    Ok((Api::find()?, VmmApi::find().ok()))
}
