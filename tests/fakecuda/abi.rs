//! What crosses the C boundary: result codes, structs and out-pointers of the driver's ABI.

use std::ffi::{c_char, c_void};

/// A CUresult.
pub type Code = u32;
/// Result of a driver function.
pub type Res<T = ()> = Result<T, Code>;

/// An out-pointer as a C caller passes it: a pointer in the ABI, checked for NULL in one place.
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Write a required result; `INVALID_VALUE` if the caller gave NULL.
    pub fn put(&self, value: T) -> Res {
        if self.0.is_null() {
            return Err(code::INVALID_VALUE);
        }
        self.put_if(value);
        Ok(())
    }

    /// Write an optional result.
    pub fn put_if(&self, value: T) {
        if !self.0.is_null() {
            // SAFETY: not NULL, and the C contract of every driver function says that an
            // out-pointer points to a writable value of this type.
            unsafe { self.0.write_unaligned(value) }
        }
    }

    /// Read what an in-out pointer holds.
    pub fn get(&self) -> Res<T>
    where
        T: Copy,
    {
        if self.0.is_null() {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: not NULL; the C contract says that it points to a readable value.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Refuse NULL before anything has an effect.
    pub fn required(&self) -> Res {
        if self.0.is_null() {
            return Err(code::INVALID_VALUE);
        }
        Ok(())
    }

    /// The address itself, for a log or for raw bytes.
    pub fn addr(&self) -> usize {
        self.0 as usize
    }
}

/// An array or struct that a C caller passes in.
#[repr(transparent)]
pub struct In<T>(*const T);

impl<T: Copy> In<T> {
    /// The value pointed to; `INVALID_VALUE` for NULL.
    pub fn get(&self) -> Res<T> {
        self.at(0)
    }

    /// Element `index` of the array.
    pub fn at(&self, index: usize) -> Res<T> {
        if self.0.is_null() {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: not NULL; the C contract says that it points to as many values as the call's
        // count argument tells, and callers of this function stay below that count.
        Ok(unsafe { self.0.add(index).read_unaligned() })
    }
}

/// A zero-terminated text that a C caller passes in.
pub fn text(ptr: *const c_char) -> Res<String> {
    if ptr.is_null() {
        return Err(code::INVALID_VALUE);
    }
    // SAFETY: not NULL; the C contract says that it is a zero-terminated string.
    Ok(unsafe { std::ffi::CStr::from_ptr(ptr) }.to_string_lossy().into_owned())
}

/// Copy a text into a C buffer of `len` bytes, cut to fit, always terminated.
pub fn put_text(buffer: *mut c_char, len: usize, value: &str) -> Res {
    if buffer.is_null() || len == 0 {
        return Err(code::INVALID_VALUE);
    }
    let count = value.len().min(len - 1);
    // SAFETY: the caller's buffer holds `len` bytes by contract, and count + 1 is at most len.
    unsafe {
        std::ptr::copy_nonoverlapping(value.as_ptr().cast(), buffer, count);
        buffer.add(count).write(0);
    }
    Ok(())
}

/// A callback of the driver (CUhostFn).
pub type HostFn = Option<unsafe extern "C" fn(*mut c_void)>;

/// CUmemLocation.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// 1 device, 2 host, 3 host NUMA node.
    pub kind: u32,
    /// Device or node.
    pub id: i32,
}

/// CUmemAllocationProp.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AllocProp {
    /// 1 = pinned.
    pub kind: u32,
    /// Bit 0 = POSIX file descriptor.
    pub handle_types: u32,
    /// Where the memory lives.
    pub location: Location,
    /// Windows only.
    pub win32: usize,
    /// Compressible memory (1) or not (0).
    pub compression: u8,
    /// Reachable by RDMA.
    pub rdma: u8,
    /// Usage bits.
    pub usage: u16,
    /// Must be zero.
    pub reserved: [u8; 4],
}

/// CUmemAccessDesc.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AccessDesc {
    /// Who gets access.
    pub location: Location,
    /// 0 none, 1 read, 3 read and write.
    pub flags: u32,
}

const _: () = assert!(size_of::<AllocProp>() == 32 && size_of::<AccessDesc>() == 12);

macro_rules! codes {
    ($($name:ident = $value:literal, $says:literal;)*) => {
        /// The driver's result codes.
        #[allow(dead_code, reason = "the table names them all, the code needs some")]
        pub mod code {
            $(#[doc = $says] pub const $name: super::Code = $value;)*
        }
        /// Code, name and description of every result, sorted by code.
        pub static CODES: &[(Code, &str, &str)] = &[
            $(($value, concat!("CUDA_ERROR_", stringify!($name), "\0"), concat!($says, "\0")),)*
        ];
    };
}

codes! {
    SUCCESS = 0, "no error";
    INVALID_VALUE = 1, "invalid argument";
    OUT_OF_MEMORY = 2, "out of memory";
    NOT_INITIALIZED = 3, "initialization error";
    DEINITIALIZED = 4, "driver shutting down";
    STUB_LIBRARY = 34, "the library is a stub";
    DEVICE_UNAVAILABLE = 46, "device is busy or unavailable";
    NO_DEVICE = 100, "no CUDA-capable device is detected";
    INVALID_DEVICE = 101, "invalid device ordinal";
    INVALID_CONTEXT = 201, "invalid device context";
    MAP_FAILED = 205, "mapping failed";
    UNMAP_FAILED = 206, "unmapping failed";
    ALREADY_MAPPED = 208, "resource already mapped";
    NOT_MAPPED = 211, "resource not mapped";
    ECC_UNCORRECTABLE = 214, "uncorrectable ECC error";
    PEER_ACCESS_UNSUPPORTED = 217, "peer access is not supported between these devices";
    CONTAINED = 226, "a contained error was reported";
    OPERATING_SYSTEM = 304, "a call of the operating system failed";
    INVALID_HANDLE = 400, "invalid resource handle";
    ILLEGAL_STATE = 401, "the operation is not legal in this state";
    NOT_FOUND = 500, "named symbol not found";
    NOT_READY = 600, "device not ready";
    ILLEGAL_ADDRESS = 700, "an illegal memory access was encountered";
    LAUNCH_OUT_OF_RESOURCES = 701, "too many resources requested for launch";
    LAUNCH_TIMEOUT = 702, "the launch timed out and was terminated";
    PRIMARY_CONTEXT_ACTIVE = 708, "the primary context is already active";
    CONTEXT_IS_DESTROYED = 709, "context is destroyed";
    ASSERT = 710, "device-side assert triggered";
    HOST_MEMORY_ALREADY_REGISTERED = 712, "host memory is already registered";
    HOST_MEMORY_NOT_REGISTERED = 713, "host memory is not registered";
    HARDWARE_STACK_ERROR = 714, "hardware stack error";
    ILLEGAL_INSTRUCTION = 715, "an illegal instruction was encountered";
    MISALIGNED_ADDRESS = 716, "misaligned address";
    INVALID_ADDRESS_SPACE = 717, "operation not supported on this address space";
    INVALID_PC = 718, "invalid program counter";
    LAUNCH_FAILED = 719, "unspecified launch failure";
    NOT_PERMITTED = 800, "operation not permitted";
    NOT_SUPPORTED = 801, "operation not supported";
    SYSTEM_NOT_READY = 802, "system not yet initialized";
    SYSTEM_DRIVER_MISMATCH = 803, "display driver and CUDA driver do not match";
    MPS_CONNECTION_FAILED = 805, "the MPS client failed to connect";
    MPS_SERVER_NOT_READY = 807, "the MPS server is not ready";
    MPS_CLIENT_TERMINATED = 810, "the MPS client was terminated";
    STREAM_CAPTURE_UNSUPPORTED = 900, "operation not permitted when a stream is capturing";
    STREAM_CAPTURE_INVALIDATED = 901, "the capture was invalidated by an earlier error";
    STREAM_CAPTURE_MERGE = 902, "the operation would merge two captures";
    STREAM_CAPTURE_UNMATCHED = 903, "the capture was not begun in this stream";
    STREAM_CAPTURE_UNJOINED = 904, "the capture has a fork that never joined the first stream";
    STREAM_CAPTURE_ISOLATION = 905, "a dependency crosses the boundary of the capture";
    STREAM_CAPTURE_IMPLICIT = 906, "the legacy stream would depend on a capturing stream";
    CAPTURED_EVENT = 907, "operation not permitted on an event last recorded in a capture";
    STREAM_CAPTURE_WRONG_THREAD = 908, "the capture was begun by another thread";
    TIMEOUT = 909, "the operation timed out";
    UNKNOWN = 999, "unknown error";
}
