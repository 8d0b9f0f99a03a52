//! Starting the driver and reading what its devices are.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use parking_lot::Mutex;

use super::result::{NO_DEVICE, STUB_LIBRARY, SUCCESS};
use super::structs::{
    AllocationProp, Uuid, ATTRIBUTE_MAJOR, ATTRIBUTE_MINOR, ATTRIBUTE_POSIX_FD, ATTRIBUTE_RDMA_VMM,
    ATTRIBUTE_VMM, GRANULARITY_MINIMUM,
};
use super::{call, Cuda, Device};
use crate::base::{Error, Result, Status};

/// Unit of memory where the device has no virtual memory management: what the driver rounds to.
const PLAIN_PAGE_BYTES: u64 = 2 << 20;
/// Longest device name, its terminator included.
const NAME_BYTES: usize = 256;

impl Cuda {
    /// Starts the driver and reads its version.
    pub(super) fn initialise(&mut self) -> Result<()> {
        // SAFETY: cuda.h declares this signature.
        match unsafe { (self.api.cuInit)(0) } {
            SUCCESS => {}
            NO_DEVICE => {
                return Err(Error::backend(Status::E_NO_DEVICE, "cuInit", NO_DEVICE as i32));
            }
            STUB_LIBRARY => {
                let what =
                    "libcuda.so is the toolkit's stub: install the driver, or take the stub \
                            off the library path";
                return Err(Error::backend(Status::E_NO_DRIVER, what, STUB_LIBRARY as i32));
            }
            code => return Err(Error::backend(Status::E_DRIVER_INIT, "cuInit", code as i32)),
        }
        let mut version = 0;
        call!(self, cuDriverGetVersion(&mut version))?;
        self.driver_version = u32::try_from(version).unwrap_or(0);
        Ok(())
    }

    /// Reads all devices; E_NO_DEVICE if there is none.
    pub(super) fn probe(&self) -> Result<Vec<Device>> {
        let mut count = 0;
        call!(self, cuDeviceGetCount(&mut count))?;
        if count <= 0 {
            return Err(Error::new(Status::E_NO_DEVICE, "cuDeviceGetCount"));
        }
        (0..count).map(|index| self.probe_device(index)).collect()
    }

    fn probe_device(&self, index: i32) -> Result<Device> {
        let (mut ordinal, mut total) = (0, 0);
        call!(self, cuDeviceGet(&mut ordinal, index))?;
        call!(self, cuDeviceTotalMem(&mut total, ordinal))?;
        let page_bytes = match self.attribute(ordinal, ATTRIBUTE_VMM) {
            Ok(1) => self.granularity(ordinal)?,
            _ => None,
        };
        let has = |attribute| AtomicBool::new(self.attribute(ordinal, attribute) == Ok(1));
        let (major, minor) =
            (self.attribute(ordinal, ATTRIBUTE_MAJOR)?, self.attribute(ordinal, ATTRIBUTE_MINOR)?);
        Ok(Device {
            ordinal,
            name: self.name(ordinal)?,
            uuid: self.uuid(ordinal),
            total_bytes: total as u64,
            page_bytes: page_bytes.unwrap_or(PLAIN_PAGE_BYTES),
            compute_capability: u32::try_from(major * 10 + minor).unwrap_or(0),
            virtual_memory: page_bytes.is_some(),
            export_fd: has(ATTRIBUTE_POSIX_FD),
            rdma: has(ATTRIBUTE_RDMA_VMM),
            context: AtomicUsize::new(0),
            context_id: AtomicU64::new(0),
            activating: Mutex::new(()),
        })
    }

    fn attribute(&self, ordinal: i32, attribute: u32) -> Result<i32> {
        let mut value = 0;
        call!(self, cuDeviceGetAttribute(&mut value, attribute, ordinal))?;
        Ok(value)
    }

    /// Smallest unit of virtual memory management; `None` where the driver lacks its functions.
    fn granularity(&self, ordinal: i32) -> Result<Option<u64>> {
        let Some(vmm) = &self.vmm else { return Ok(None) };
        let prop = AllocationProp::of_device(ordinal, false, false);
        let mut bytes = 0;
        // SAFETY: cuda.h declares this signature; both pointers are to locals.
        let code =
            unsafe { (vmm.cuMemGetAllocationGranularity)(&mut bytes, &prop, GRANULARITY_MINIMUM) };
        self.lost.result("cuMemGetAllocationGranularity", code)?;
        if !bytes.is_power_of_two() {
            return Err(Error::new(Status::E_DRIVER, "cuMemGetAllocationGranularity"));
        }
        Ok(Some(bytes as u64))
    }

    fn name(&self, ordinal: i32) -> Result<String> {
        let mut text = [0u8; NAME_BYTES];
        call!(self, cuDeviceGetName(text.as_mut_ptr(), NAME_BYTES as i32, ordinal))?;
        let length = text.iter().position(|&byte| byte == 0).unwrap_or(NAME_BYTES - 1);
        Ok(String::from_utf8_lossy(&text[..length]).into_owned())
    }

    /// Empty where the driver does not tell.
    fn uuid(&self, ordinal: i32) -> String {
        let mut uuid = Uuid::default();
        let result = call!(self, optional cuDeviceGetUuid(&mut uuid, ordinal))
            .or_else(|| call!(self, optional cuDeviceGetUuidOld(&mut uuid, ordinal)));
        match result {
            Some(Ok(())) => uuid.text(),
            _ => String::new(),
        }
    }
}
