//! The backends under test, and what the checks need of any of them.

use cenote::base::Error;
#[cfg(feature = "cuda")]
use cenote::base::Status;
use cenote::device::delayed::Delayed;
use cenote::device::host::{Host, HostOptions};
use cenote::device::vtable::Vtable;
#[cfg(feature = "cuda")]
use cenote::device::BackendKind;
use cenote::device::{Backend, Caps, PhysHandle};

use crate::table;

/// Why a check failed.
pub type Outcome<T = ()> = Result<T, String>;

/// Fails a check with a reason unless a condition holds.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($reason:tt)*) => {
        if !$condition {
            return Err(format!($($reason)*));
        }
    };
}

/// Backend results as outcomes.
pub trait Must<T> {
    /// The value, or what went wrong where.
    fn must(self, what: &str) -> Outcome<T>;
    /// The error of a call that has to fail.
    fn refused(self, what: &str) -> Outcome<Error>;
}

impl<T> Must<T> for Result<T, Error> {
    fn must(self, what: &str) -> Outcome<T> {
        self.map_err(|error| format!("{what}: {error}, code {}", error.backend_code))
    }

    fn refused(self, what: &str) -> Outcome<Error> {
        match self {
            Ok(_) => Err(format!("{what} was not refused")),
            Err(error) => Ok(error),
        }
    }
}

/// A backend and the device of it that is tested.
pub struct Subject {
    pub backend: Box<dyn Backend>,
    pub device: u32,
    pub page: u64,
    pub caps: Caps,
    /// Keeps other tests off a device that all share.
    _alone: Option<parking_lot::MutexGuard<'static, ()>>,
}

impl Subject {
    pub fn new(backend: Box<dyn Backend>) -> Subject {
        let info = backend.device_info(0).expect("every backend here has a device");
        backend.activate(0).expect("the device can be made usable");
        Subject { backend, device: 0, page: info.page_bytes, caps: info.caps, _alone: None }
    }

    /// Whether NVIDIA's driver answers: what it allows beyond the contract cannot be changed here.
    pub fn on_real_driver(&self) -> bool {
        #[cfg(feature = "cuda")]
        return self.backend.kind() == BackendKind::Cuda && crate::raw::fake().is_none();
        #[cfg(not(feature = "cuda"))]
        return false;
    }

    /// Physical memory at an address, accessible.
    pub fn region(&self, pages: u64) -> Outcome<Region> {
        let size = pages * self.page;
        let base = self.backend.reserve(self.device, size, 0).must("reserve")?;
        let handle = self.backend.create(self.device, size).must("create")?;
        self.attach(base, size, handle)?;
        Ok(Region { base, size, handle })
    }

    /// Maps a handle and makes it accessible.
    pub fn attach(&self, base: u64, size: u64, handle: PhysHandle) -> Outcome {
        self.backend.map(self.device, base, size, handle).must("map")?;
        self.backend.set_access(self.device, base, size).must("set_access")
    }

    /// Undoes `region`.
    pub fn give_back(&self, region: &Region) -> Outcome {
        self.backend.unmap(self.device, region.base, region.size).must("unmap")?;
        self.backend.release(self.device, region.handle, region.size).must("release")?;
        self.backend.unreserve(self.device, region.base, region.size).must("unreserve")
    }

    /// Copies bytes to the device's memory.
    pub fn write(&self, addr: u64, bytes: &[u8]) -> Outcome {
        let (from, size) = (bytes.as_ptr() as u64, bytes.len() as u64);
        self.backend.copy(self.device, addr, from, size, 0).must("copy to the device")?;
        self.backend.synchronize(self.device).must("synchronize")
    }

    /// Copies bytes from the device's memory.
    pub fn read(&self, addr: u64, length: usize) -> Outcome<Vec<u8>> {
        let mut bytes = vec![0u8; length];
        let to = bytes.as_mut_ptr() as u64;
        self.backend.copy(self.device, to, addr, length as u64, 0).must("copy from the device")?;
        self.backend.synchronize(self.device).must("synchronize")?;
        Ok(bytes)
    }

    /// Fails unless the memory holds these bytes.
    pub fn expect(&self, addr: u64, bytes: &[u8], what: &str) -> Outcome {
        let found = self.read(addr, bytes.len())?;
        if found == bytes {
            return Ok(());
        }
        let wrong = found.iter().zip(bytes).position(|(a, b)| a != b);
        Err(format!("{what}: byte {wrong:?} differs"))
    }
}

/// Memory that `Subject::region` made.
pub struct Region {
    pub base: u64,
    pub size: u64,
    pub handle: PhysHandle,
}

/// Memory of the host subjects: small, so that running out is quick.
const TOTAL_BYTES: u64 = 256 << 20;

pub fn small_host(overcommit: bool) -> Box<dyn Backend> {
    let options = HostOptions { device_count: 2, total_bytes: Some(TOTAL_BYTES), overcommit };
    Box::new(Host::new(options).expect("the host backend works on Linux"))
}

pub fn host() -> Outcome<Subject> {
    Ok(Subject::new(small_host(false)))
}

pub fn delayed() -> Outcome<Subject> {
    Ok(Subject::new(Box::new(Delayed::new(small_host(false), 200).0)))
}

pub fn vtable() -> Outcome<Subject> {
    let table = Vtable::new(table::table(TOTAL_BYTES, false)).expect("a complete table");
    Ok(Subject::new(Box::new(table)))
}

pub fn vtable_asynchronous() -> Outcome<Subject> {
    let table = Vtable::new(table::table(TOTAL_BYTES, true)).expect("a complete table");
    Ok(Subject::new(Box::new(table)))
}

#[cfg(not(feature = "cuda"))]
pub fn cuda_device() -> Outcome<Subject> {
    Err("built without the feature \"cuda\"".into())
}

/// The CUDA backend, alone: contexts and device memory are shared by the whole process.
#[cfg(feature = "cuda")]
pub fn cuda_device() -> Outcome<Subject> {
    static ALONE: parking_lot::Mutex<()> = parking_lot::Mutex::new(());
    let alone = ALONE.lock();
    let forced = std::env::var_os("CENOTE_TEST_CUDA").is_some_and(|value| value == "1");
    match cenote::device::cuda::Cuda::open() {
        Ok(backend) => Ok(Subject { _alone: Some(alone), ..Subject::new(Box::new(backend)) }),
        Err(error) if error.status == Status::E_NO_DRIVER && !forced => {
            Err(format!("{error}; put the fake driver or a real one on the library path"))
        }
        Err(error) if error.status == Status::E_NO_DEVICE && !forced => Err(error.to_string()),
        Err(error) => panic!("the CUDA driver is there and does not work: {error}"),
    }
}
