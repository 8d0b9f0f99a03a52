//! The driver's functions as a test calls them: raw, by name, with integers for handles.

#![allow(dead_code, reason = "each test uses a part")]
#![allow(clippy::too_many_arguments, reason = "the driver's signatures")]
#![allow(non_snake_case, reason = "fields have the symbols' names")]

use std::ffi::{c_char, c_void, CString};

/// CUmemLocation.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// 1 device, 3 host NUMA node.
    pub kind: u32,
    /// Device or node.
    pub id: i32,
}

/// CUmemAllocationProp.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prop {
    /// 1 = pinned.
    pub kind: u32,
    /// 1 = POSIX file descriptor.
    pub handle_types: u32,
    /// Where.
    pub location: Location,
    /// Windows only.
    pub win32: usize,
    /// Compression.
    pub compression: u8,
    /// Reachable by RDMA.
    pub rdma: u8,
    /// Usage.
    pub usage: u16,
    /// Zero.
    pub reserved: [u8; 4],
}

impl Prop {
    /// Exportable memory of a device.
    pub fn device(id: i32) -> Prop {
        let location = Location { kind: 1, id };
        Prop { kind: 1, handle_types: 1, location, ..Prop::default() }
    }
}

/// CUmemAccessDesc.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Desc {
    /// Who.
    pub location: Location,
    /// 0 none, 1 read, 3 read and write.
    pub flags: u32,
}

impl Desc {
    /// Access of a device.
    pub fn device(id: i32, flags: u32) -> Desc {
        Desc { location: Location { kind: 1, id }, flags }
    }
}

/// A callback.
pub type HostFn = unsafe extern "C" fn(*mut c_void);

/// A handle to an opened library.
#[derive(Clone, Copy)]
pub struct Library(*mut c_void);

// SAFETY: a dlopen handle may be used from any thread.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// Open a library by name or path; the text of dlerror if that fails.
    pub fn open(name: &str) -> Result<Library, String> {
        let name = CString::new(name).map_err(|error| error.to_string())?;
        // SAFETY: the name is a valid string; dlerror gives a valid string after a failure.
        unsafe {
            let handle = libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            if handle.is_null() {
                let text = std::ffi::CStr::from_ptr(libc::dlerror());
                return Err(text.to_string_lossy().into_owned());
            }
            Ok(Library(handle))
        }
    }

    /// Address of a symbol, NULL if there is none.
    pub fn symbol(&self, name: &str) -> *mut c_void {
        let Ok(name) = CString::new(name) else { return std::ptr::null_mut() };
        // SAFETY: the handle is open for the life of the process and the name is a valid string.
        unsafe { libc::dlsym(self.0, name.as_ptr()) }
    }
}

/// Make a struct of function pointers with one method for each function.
#[macro_export]
macro_rules! function_table {
    ($table:ident { $($name:ident($($arg:ident: $ty:ty),*) -> $ret:ty;)* }) => {
        /// Functions found by name.
        pub struct $table {
            $($name: unsafe extern "C" fn($($ty),*) -> $ret,)*
        }

        impl $table {
            /// Find all functions; panics with the name of one that is missing.
            pub fn load(library: &$crate::driver::Library) -> $table {
                $(
                    let address = library.symbol(stringify!($name));
                    assert!(!address.is_null(), "the library has no {}", stringify!($name));
                    // SAFETY: the symbol has this signature in every library that has it.
                    let $name = unsafe {
                        std::mem::transmute::<
                            *mut std::ffi::c_void,
                            unsafe extern "C" fn($($ty),*) -> $ret,
                        >(address)
                    };
                )*
                $table { $($name,)* }
            }

            $(
                /// Call the function; the test answers for its arguments.
                pub fn $name(&self, $($arg: $ty),*) -> $ret {
                    // SAFETY: tests pass live out-pointers, or NULL on purpose.
                    unsafe { (self.$name)($($arg),*) }
                }
            )*
        }
    };
}

function_table! { Driver {
    cuInit(flags: u32) -> u32;
    cuDriverGetVersion(version: &mut i32) -> u32;
    cuDeviceGetCount(count: &mut i32) -> u32;
    cuDeviceGetName(name: *mut c_char, len: i32, device: i32) -> u32;
    cuDeviceGetUuid_v2(uuid: &mut [u8; 16], device: i32) -> u32;
    cuDeviceTotalMem_v2(bytes: &mut usize, device: i32) -> u32;
    cuDeviceGetAttribute(value: &mut i32, attribute: i32, device: i32) -> u32;
    cuGetErrorName(code: u32, text: &mut *const c_char) -> u32;
    cuGetProcAddress_v2(
        symbol: *const c_char, address: &mut *mut c_void, version: i32, flags: u64,
        status: &mut u32
    ) -> u32;
    cuDevicePrimaryCtxRetain(context: &mut usize, device: i32) -> u32;
    cuDevicePrimaryCtxRelease_v2(device: i32) -> u32;
    cuDevicePrimaryCtxGetState(device: i32, flags: &mut u32, active: &mut i32) -> u32;
    cuDevicePrimaryCtxReset_v2(device: i32) -> u32;
    cuCtxCreate_v2(context: &mut usize, flags: u32, device: i32) -> u32;
    cuCtxDestroy_v2(context: usize) -> u32;
    cuCtxGetCurrent(context: &mut usize) -> u32;
    cuCtxSetCurrent(context: usize) -> u32;
    cuCtxPushCurrent_v2(context: usize) -> u32;
    cuCtxPopCurrent_v2(context: &mut usize) -> u32;
    cuCtxGetDevice(device: &mut i32) -> u32;
    cuCtxGetId(context: usize, id: &mut u64) -> u32;
    cuCtxSynchronize() -> u32;
    cuCtxRecordEvent(context: usize, event: usize) -> u32;
    cuMemGetInfo_v2(free: &mut usize, total: &mut usize) -> u32;
    cuMemAlloc_v2(addr: &mut u64, size: usize) -> u32;
    cuMemFree_v2(addr: u64) -> u32;
    cuMemAllocManaged(addr: &mut u64, size: usize, flags: u32) -> u32;
    cuMemHostAlloc(addr: &mut u64, size: usize, flags: u32) -> u32;
    cuMemFreeHost(addr: u64) -> u32;
    cuMemHostRegister_v2(addr: u64, size: usize, flags: u32) -> u32;
    cuMemHostUnregister(addr: u64) -> u32;
    cuPointerGetAttribute(data: *mut c_void, attribute: u32, addr: u64) -> u32;
    cuMemGetAllocationGranularity(size: &mut usize, prop: *const Prop, option: u32) -> u32;
    cuMemAddressReserve(
        addr: &mut u64, size: usize, align: usize, hint: u64, flags: u64
    ) -> u32;
    cuMemAddressFree(addr: u64, size: usize) -> u32;
    cuMemCreate(handle: &mut u64, size: usize, prop: *const Prop, flags: u64) -> u32;
    cuMemRelease(handle: u64) -> u32;
    cuMemRetainAllocationHandle(handle: &mut u64, addr: u64) -> u32;
    cuMemMap(addr: u64, size: usize, offset: usize, handle: u64, flags: u64) -> u32;
    cuMemUnmap(addr: u64, size: usize) -> u32;
    cuMemSetAccess(addr: u64, size: usize, desc: *const Desc, count: usize) -> u32;
    cuMemGetAccess(flags: &mut u64, location: *const Location, addr: u64) -> u32;
    cuMemExportToShareableHandle(fd: &mut i32, handle: u64, kind: u32, flags: u64) -> u32;
    cuMemImportFromShareableHandle(handle: &mut u64, fd: usize, kind: u32) -> u32;
    cuMemGetAllocationPropertiesFromHandle(prop: &mut Prop, handle: u64) -> u32;
    cuStreamCreate(stream: &mut usize, flags: u32) -> u32;
    cuStreamDestroy_v2(stream: usize) -> u32;
    cuStreamGetId(stream: usize, id: &mut u64) -> u32;
    cuStreamGetCtx(stream: usize, context: &mut usize) -> u32;
    cuStreamQuery(stream: usize) -> u32;
    cuStreamSynchronize(stream: usize) -> u32;
    cuStreamWaitEvent(stream: usize, event: usize, flags: u32) -> u32;
    cuStreamIsCapturing(stream: usize, status: &mut u32) -> u32;
    cuStreamGetCaptureInfo_v2(
        stream: usize, status: &mut u32, id: &mut u64, graph: &mut usize, deps: *mut usize,
        count: *mut usize
    ) -> u32;
    cuStreamGetCaptureInfo_v3(
        stream: usize, status: &mut u32, id: &mut u64, graph: &mut usize, deps: *mut usize,
        edges: *mut usize, count: *mut usize
    ) -> u32;
    cuStreamBeginCapture_v2(stream: usize, mode: u32) -> u32;
    cuStreamEndCapture(stream: usize, graph: &mut usize) -> u32;
    cuThreadExchangeStreamCaptureMode(mode: &mut u32) -> u32;
    cuEventCreate(event: &mut usize, flags: u32) -> u32;
    cuEventDestroy_v2(event: usize) -> u32;
    cuEventRecord(event: usize, stream: usize) -> u32;
    cuEventQuery(event: usize) -> u32;
    cuEventSynchronize(event: usize) -> u32;
    cuLaunchHostFunc(stream: usize, func: Option<HostFn>, data: *mut c_void) -> u32;
    cuUserObjectCreate(
        object: &mut usize, data: *mut c_void, destroy: Option<HostFn>, count: u32, flags: u32
    ) -> u32;
    cuUserObjectRetain(object: usize, count: u32) -> u32;
    cuUserObjectRelease(object: usize, count: u32) -> u32;
    cuGraphRetainUserObject(graph: usize, object: usize, count: u32, flags: u32) -> u32;
    cuGraphReleaseUserObject(graph: usize, object: usize, count: u32) -> u32;
    cuGraphDestroy(graph: usize) -> u32;
    cuGraphInstantiateWithFlags(exec: &mut usize, graph: usize, flags: u64) -> u32;
    cuGraphLaunch(exec: usize, stream: usize) -> u32;
    cuGraphExecDestroy(exec: usize) -> u32;
    cuMemcpyAsync(dst: u64, src: u64, len: usize, stream: usize) -> u32;
    cuMemcpyDtoHAsync_v2(dst: *mut c_void, src: u64, len: usize, stream: usize) -> u32;
    cuMemcpyHtoDAsync_v2(dst: u64, src: *const c_void, len: usize, stream: usize) -> u32;
    cuMemcpyDtoDAsync_v2(dst: u64, src: u64, len: usize, stream: usize) -> u32;
    cuMemcpyDtoH_v2(dst: *mut c_void, src: u64, len: usize) -> u32;
    cuMemcpyHtoD_v2(dst: u64, src: *const c_void, len: usize) -> u32;
    cuMemsetD8Async(dst: u64, value: u8, len: usize, stream: usize) -> u32;
} }

/// One page, the granularity of device memory.
pub const PAGE: usize = 2 << 20;

/// Shorthands over the raw functions; each panics where the driver refuses.
impl Driver {
    /// Initialise, retain the primary context of a device and make it current.
    pub fn start(&self, device: i32) -> usize {
        let mut context = 0;
        assert_eq!(self.cuInit(0), 0);
        assert_eq!(self.cuDevicePrimaryCtxRetain(&mut context, device), 0);
        assert_eq!(self.cuCtxSetCurrent(context), 0);
        context
    }

    /// A new stream; non-blocking on request.
    pub fn stream(&self, non_blocking: bool) -> usize {
        let mut stream = 0;
        assert_eq!(self.cuStreamCreate(&mut stream, u32::from(non_blocking)), 0);
        stream
    }

    /// Id of a stream.
    pub fn stream_id(&self, stream: usize) -> u64 {
        let mut id = 0;
        assert_eq!(self.cuStreamGetId(stream, &mut id), 0);
        id
    }

    /// A new event without timing.
    pub fn event(&self) -> usize {
        let mut event = 0;
        assert_eq!(self.cuEventCreate(&mut event, 2), 0);
        event
    }

    /// An event recorded now.
    pub fn recorded(&self, stream: usize) -> usize {
        let event = self.event();
        assert_eq!(self.cuEventRecord(event, stream), 0);
        event
    }

    /// Reserved addresses.
    pub fn reserve(&self, size: usize) -> u64 {
        let mut addr = 0;
        assert_eq!(self.cuMemAddressReserve(&mut addr, size, 0, 0, 0), 0);
        addr
    }

    /// Physical memory of device 0.
    pub fn create(&self, size: usize) -> u64 {
        let mut handle = 0;
        assert_eq!(self.cuMemCreate(&mut handle, size, &Prop::device(0), 0), 0);
        handle
    }

    /// Map a whole handle and give device 0 access.
    pub fn map(&self, addr: u64, size: usize, handle: u64) {
        assert_eq!(self.cuMemMap(addr, size, 0, handle, 0), 0);
        assert_eq!(self.cuMemSetAccess(addr, size, &Desc::device(0, 3), 1), 0);
    }

    /// Reserved, mapped and accessible memory of device 0, in pages.
    pub fn mapped(&self, pages: usize) -> u64 {
        let addr = self.reserve(pages * PAGE);
        for page in 0..pages {
            let handle = self.create(PAGE);
            self.map(addr + (page * PAGE) as u64, PAGE, handle);
            assert_eq!(self.cuMemRelease(handle), 0);
        }
        addr
    }

    /// Exchange the thread's capture mode; the mode before.
    pub fn capture_mode(&self, mode: u32) -> u32 {
        let mut mode = mode;
        assert_eq!(self.cuThreadExchangeStreamCaptureMode(&mut mode), 0);
        mode
    }
}
