//! Memory: virtual memory management, and whole allocations where a device lacks it.

use std::sync::atomic::Ordering::Relaxed;

use super::loader::VmmApi;
use super::result::{INVALID_VALUE, NOT_PERMITTED, NOT_SUPPORTED, SUCCESS};
use super::structs::{AccessDesc, AllocationProp, HANDLE_POSIX_FD};
use super::{call, Cuda, Device};
use crate::base::{Error, Result, Status};
use crate::device::{MemInfo, PhysHandle};

/// Calls a function of virtual memory management.
macro_rules! call_vmm {
    ($self:expr, $vmm:expr, $name:ident($($arg:expr),*)) => {
        $self.lost.result(stringify!($name), {
            // SAFETY: cuda.h declares this signature; pointers are to locals that outlive the call,
            // and the driver itself checks addresses and handles.
            unsafe { ($vmm.$name)($($arg),*) }
        })
    };
}

/// The driver has no code of its own for exhausted addresses.
fn refused(error: Error, size: u64) -> Error {
    let full = error.status == Status::E_OUT_OF_MEMORY || error.backend_code == INVALID_VALUE;
    let status = if full { Status::E_ADDRESS_SPACE } else { error.status };
    Error { status, ..error }.bytes(size, 0)
}

impl Cuda {
    fn vmm(&self, device: u32) -> Result<&VmmApi> {
        let lacking = Error::new(Status::E_NOT_SUPPORTED, "the device has no virtual memory calls");
        let has = self.device(device)?.virtual_memory;
        self.vmm.as_ref().filter(|_| has).ok_or(lacking)
    }

    pub(super) fn reserve_range(&self, device: u32, size: u64, align: u64) -> Result<u64> {
        let vmm = self.vmm(device)?;
        let _inside = self.enter(device)?;
        let mut addr = 0;
        let (length, align) = (size as usize, align as usize);
        call_vmm!(self, vmm, cuMemAddressReserve(&mut addr, length, align, 0, 0))
            .map_err(|error| refused(error, size))?;
        Ok(addr)
    }

    pub(super) fn free_range(&self, device: u32, addr: u64, size: u64) -> Result<()> {
        let vmm = self.vmm(device)?;
        let _inside = self.enter(device)?;
        call_vmm!(self, vmm, cuMemAddressFree(addr, size as usize))
    }

    pub(super) fn create_memory(&self, device: u32, size: u64) -> Result<PhysHandle> {
        let slot = self.device(device)?;
        let inside = self.enter(device)?;
        let created = if slot.virtual_memory {
            self.create_handle(self.vmm(device)?, slot, size)
        } else {
            let mut addr = 0;
            call!(self, cuMemAlloc(&mut addr, size as usize)).map(|()| addr)
        };
        drop(inside);
        created.map(PhysHandle).map_err(|error| error.bytes(size, 0))
    }

    /// Creates a handle with all that the device says it can; what it then refuses is not asked for
    /// again.
    fn create_handle(&self, vmm: &VmmApi, slot: &Device, size: u64) -> Result<u64> {
        loop {
            let (export, rdma) = (slot.export_fd.load(Relaxed), slot.rdma.load(Relaxed));
            let prop = AllocationProp::of_device(slot.ordinal, export, rdma);
            let mut handle = 0;
            // SAFETY: cuda.h declares this signature; both pointers are to locals.
            let code = unsafe { (vmm.cuMemCreate)(&mut handle, size as usize, &prop, 0) };
            match code {
                SUCCESS => return Ok(handle),
                NOT_SUPPORTED | NOT_PERMITTED if rdma => slot.rdma.store(false, Relaxed),
                NOT_SUPPORTED | NOT_PERMITTED if export => slot.export_fd.store(false, Relaxed),
                _ => return self.lost.result("cuMemCreate", code).map(|()| handle),
            }
        }
    }

    pub(super) fn release_memory(&self, device: u32, handle: PhysHandle) -> Result<()> {
        let _inside = self.enter(device)?;
        if !self.device(device)?.virtual_memory {
            return call!(self, cuMemFree(handle.0));
        }
        call_vmm!(self, self.vmm(device)?, cuMemRelease(handle.0))
    }

    pub(super) fn map_handle(&self, device: u32, addr: u64, size: u64, handle: u64) -> Result<()> {
        let vmm = self.vmm(device)?;
        let _inside = self.enter(device)?;
        call_vmm!(self, vmm, cuMemMap(addr, size as usize, 0, handle, 0))
    }

    pub(super) fn allow_access(&self, device: u32, addr: u64, size: u64) -> Result<()> {
        let vmm = self.vmm(device)?;
        let access = AccessDesc::of_device(self.device(device)?.ordinal);
        let _inside = self.enter(device)?;
        call_vmm!(self, vmm, cuMemSetAccess(addr, size as usize, &access, 1))
    }

    pub(super) fn unmap_range(&self, device: u32, addr: u64, size: u64) -> Result<()> {
        let vmm = self.vmm(device)?;
        let _inside = self.enter(device)?;
        call_vmm!(self, vmm, cuMemUnmap(addr, size as usize))
    }

    pub(super) fn export(&self, device: u32, handle: u64) -> Result<i32> {
        let vmm = self.vmm(device)?;
        if !self.device(device)?.export_fd.load(Relaxed) {
            return Err(Error::new(Status::E_NOT_SUPPORTED, "handles of this device are private"));
        }
        let _inside = self.enter(device)?;
        let mut fd = -1;
        let kind = HANDLE_POSIX_FD;
        call_vmm!(self, vmm, cuMemExportToShareableHandle(&mut fd, handle, kind, 0))?;
        Ok(fd)
    }

    pub(super) fn memory(&self, device: u32) -> Result<MemInfo> {
        let _inside = self.enter(device)?;
        let (mut free, mut total) = (0, 0);
        call!(self, cuMemGetInfo(&mut free, &mut total))?;
        Ok(MemInfo { free_bytes: free as u64, total_bytes: total as u64 })
    }
}
