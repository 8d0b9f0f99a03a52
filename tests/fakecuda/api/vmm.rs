//! Virtual memory management.

use crate::abi::{code, AccessDesc, AllocProp, Code, In, Location, Out};
use crate::function::Fun;
use crate::gate::{call, Need};
use crate::phys::PAGE_BYTES;

const MOST_DESCS: usize = 64;

#[no_mangle]
pub extern "C" fn cuMemGetAllocationGranularity(
    granularity: Out<usize>,
    prop: In<AllocProp>,
    option: u32,
) -> Code {
    let args = [u64::from(option), 0, 0];
    call(Fun::cuMemGetAllocationGranularity, Need::Init, args, |st| {
        let prop = prop.get()?;
        if option > 1 {
            return Err(code::INVALID_VALUE);
        }
        st.check_prop(&prop)?;
        granularity.put(PAGE_BYTES as usize)
    })
}

#[no_mangle]
pub extern "C" fn cuMemAddressReserve(
    addr: Out<u64>,
    size: usize,
    align: usize,
    hint: u64,
    flags: u64,
) -> Code {
    call(Fun::cuMemAddressReserve, Need::Vmm, [size as u64, align as u64, hint], |st| {
        addr.required()?;
        addr.put(st.vmm_reserve(size as u64, align as u64, hint, flags)?)
    })
}

#[no_mangle]
pub extern "C" fn cuMemAddressFree(addr: u64, size: usize) -> Code {
    call(Fun::cuMemAddressFree, Need::Vmm, [addr, size as u64, 0], |st| {
        st.vmm_unreserve(addr, size as u64)
    })
}

#[no_mangle]
pub extern "C" fn cuMemCreate(
    handle: Out<u64>,
    size: usize,
    prop: In<AllocProp>,
    flags: u64,
) -> Code {
    call(Fun::cuMemCreate, Need::Vmm, [size as u64, flags, 0], |st| {
        handle.required()?;
        let prop = prop.get()?;
        handle.put(st.vmm_create(size as u64, &prop, flags)?)
    })
}

#[no_mangle]
pub extern "C" fn cuMemRelease(handle: u64) -> Code {
    call(Fun::cuMemRelease, Need::Vmm, [handle, 0, 0], |st| st.vmm_release(handle))
}

#[no_mangle]
pub extern "C" fn cuMemRetainAllocationHandle(handle: Out<u64>, addr: u64) -> Code {
    call(Fun::cuMemRetainAllocationHandle, Need::Vmm, [addr, 0, 0], |st| {
        handle.required()?;
        handle.put(st.vmm_retain(addr)?)
    })
}

#[no_mangle]
pub extern "C" fn cuMemMap(addr: u64, size: usize, offset: usize, handle: u64, flags: u64) -> Code {
    call(Fun::cuMemMap, Need::Vmm, [addr, size as u64, handle], |st| {
        st.vmm_map(addr, size as u64, offset as u64, handle, flags)
    })
}

#[no_mangle]
pub extern "C" fn cuMemUnmap(addr: u64, size: usize) -> Code {
    call(Fun::cuMemUnmap, Need::Vmm, [addr, size as u64, 0], |st| st.vmm_unmap(addr, size as u64))
}

#[no_mangle]
pub extern "C" fn cuMemSetAccess(
    addr: u64,
    size: usize,
    desc: In<AccessDesc>,
    count: usize,
) -> Code {
    call(Fun::cuMemSetAccess, Need::Vmm, [addr, size as u64, count as u64], |st| {
        if count > MOST_DESCS {
            return Err(code::INVALID_VALUE);
        }
        let descs: Vec<AccessDesc> = (0..count).map(|i| desc.at(i)).collect::<Result<_, _>>()?;
        st.vmm_set_access(addr, size as u64, &descs)
    })
}

#[no_mangle]
pub extern "C" fn cuMemGetAccess(flags: Out<u64>, location: In<Location>, addr: u64) -> Code {
    call(Fun::cuMemGetAccess, Need::Vmm, [addr, 0, 0], |st| {
        flags.put(st.vmm_get_access(addr, location.get()?)?)
    })
}

#[no_mangle]
pub extern "C" fn cuMemExportToShareableHandle(
    shareable: Out<i32>,
    handle: u64,
    kind: u32,
    flags: u64,
) -> Code {
    let args = [handle, u64::from(kind), flags];
    call(Fun::cuMemExportToShareableHandle, Need::Vmm, args, |st| {
        shareable.required()?;
        shareable.put(st.vmm_export(handle, kind, flags)?)
    })
}

#[no_mangle]
pub extern "C" fn cuMemImportFromShareableHandle(
    handle: Out<u64>,
    shareable: usize,
    kind: u32,
) -> Code {
    let args = [shareable as u64, u64::from(kind), 0];
    call(Fun::cuMemImportFromShareableHandle, Need::Vmm, args, |st| {
        handle.required()?;
        handle.put(st.vmm_import(shareable as i32, kind)?)
    })
}

#[no_mangle]
pub extern "C" fn cuMemGetAllocationPropertiesFromHandle(
    prop: Out<AllocProp>,
    handle: u64,
) -> Code {
    call(Fun::cuMemGetAllocationPropertiesFromHandle, Need::Vmm, [handle, 0, 0], |st| {
        prop.put(st.vmm_prop(handle)?)
    })
}
