//! Plain memory and what the driver says about addresses.

use crate::abi::{code, Code, Out, Res};
use crate::function::Fun;
use crate::gate::{call, Need};
use crate::memory::Owner;
use crate::plain::PlainKind;
use crate::state::{Held, State};

#[no_mangle]
pub extern "C" fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) -> Code {
    call(Fun::cuMemGetInfo_v2, Need::Context, [0; 3], |st| {
        let device = st.current_device()?;
        free.put(st.memory.free_bytes(device) as usize)?;
        total.put(st.memory.devices[device].total as usize)
    })
}

/// Allocate; forbidden where a capture could depend on it.
fn alloc(st: &mut State, size: usize, kind: PlainKind) -> Res<u64> {
    st.unsafe_in_capture()?;
    st.plain_alloc(size as u64, kind)
}

/// Free, as the driver does: after all work of the context is done.
fn free(st: &mut Held, addr: u64, kinds: &[PlainKind]) -> Res {
    if addr == 0 {
        return Ok(());
    }
    if !st.is_plain(addr, kinds) {
        return Err(code::INVALID_VALUE);
    }
    st.unsafe_in_capture()?;
    let context = st.memory.plain.get(&addr).map_or(0, |plain| plain.context);
    st.synchronize(context)?;
    st.plain_free(addr);
    Ok(())
}

#[no_mangle]
pub extern "C" fn cuMemAlloc_v2(addr: Out<u64>, size: usize) -> Code {
    call(Fun::cuMemAlloc_v2, Need::Context, [size as u64, 0, 0], |st| {
        addr.required()?;
        addr.put(alloc(st, size, PlainKind::Device)?)
    })
}

#[no_mangle]
pub extern "C" fn cuMemFree_v2(addr: u64) -> Code {
    call(Fun::cuMemFree_v2, Need::Context, [addr, 0, 0], |st| {
        free(st, addr, &[PlainKind::Device, PlainKind::Managed])
    })
}

#[no_mangle]
pub extern "C" fn cuMemAllocManaged(addr: Out<u64>, size: usize, flags: u32) -> Code {
    call(Fun::cuMemAllocManaged, Need::Context, [size as u64, u64::from(flags), 0], |st| {
        addr.required()?;
        if flags != 1 && flags != 2 {
            return Err(code::INVALID_VALUE);
        }
        let device = st.current_device()?;
        if st.attribute(device, 83) != Some(1) {
            return Err(code::NOT_SUPPORTED);
        }
        addr.put(alloc(st, size, PlainKind::Managed)?)
    })
}

#[no_mangle]
pub extern "C" fn cuMemHostAlloc(addr: Out<u64>, size: usize, flags: u32) -> Code {
    call(Fun::cuMemHostAlloc, Need::Context, [size as u64, u64::from(flags), 0], |st| {
        addr.required()?;
        if flags > 7 {
            return Err(code::INVALID_VALUE);
        }
        addr.put(alloc(st, size, PlainKind::Host)?)
    })
}

#[no_mangle]
pub extern "C" fn cuMemFreeHost(addr: u64) -> Code {
    call(Fun::cuMemFreeHost, Need::Context, [addr, 0, 0], |st| free(st, addr, &[PlainKind::Host]))
}

#[no_mangle]
pub extern "C" fn cuMemHostRegister_v2(addr: u64, size: usize, flags: u32) -> Code {
    call(Fun::cuMemHostRegister_v2, Need::Context, [addr, size as u64, u64::from(flags)], |st| {
        if flags > 15 {
            return Err(code::INVALID_VALUE);
        }
        st.unsafe_in_capture()?;
        st.host_register(addr, size as u64)
    })
}

#[no_mangle]
pub extern "C" fn cuMemHostUnregister(addr: u64) -> Code {
    call(Fun::cuMemHostUnregister, Need::Context, [addr, 0, 0], |st| {
        st.unsafe_in_capture()?;
        st.host_unregister(addr)
    })
}

#[no_mangle]
pub extern "C" fn cuMemHostGetDevicePointer_v2(device: Out<u64>, addr: u64, flags: u32) -> Code {
    let args = [addr, u64::from(flags), 0];
    call(Fun::cuMemHostGetDevicePointer_v2, Need::Context, args, |st| match st.memory.owner(addr) {
        Owner::Plain(_, plain)
            if flags == 0 && matches!(plain.kind, PlainKind::Host | PlainKind::Registered) =>
        {
            device.put(addr)
        }
        _ => Err(code::INVALID_VALUE),
    })
}

/// What `cuPointerGetAttribute` tells about an address.
struct Facts {
    start: u64,
    size: u64,
    context: usize,
    device: i32,
    number: u64,
    host: bool,
    managed: bool,
    legacy_ipc: bool,
    virtual_memory: bool,
    handle_types: u64,
    access: u32,
}

fn facts(st: &State, addr: u64) -> Option<Facts> {
    match st.memory.owner(addr) {
        Owner::Unknown => None,
        Owner::Plain(start, plain) => Some(Facts {
            start,
            size: plain.size,
            context: plain.context,
            device: plain.device as i32,
            number: plain.number,
            host: matches!(plain.kind, PlainKind::Host | PlainKind::Registered),
            managed: plain.kind == PlainKind::Managed,
            legacy_ipc: plain.kind == PlainKind::Device,
            virtual_memory: false,
            handle_types: 0,
            access: 3,
        }),
        Owner::Reserved(range) => {
            let (start, map) = range.mapping_at(addr)?;
            let phys = st.memory.phys.get(&map.phys)?;
            let on_device = phys.prop.location.kind == 1;
            Some(Facts {
                start,
                size: map.size,
                context: 0,
                device: if on_device { phys.prop.location.id } else { -1 },
                number: map.phys,
                host: !on_device,
                managed: false,
                legacy_ipc: false,
                virtual_memory: true,
                handle_types: u64::from(phys.prop.handle_types),
                access: if map.writers != 0 { 3 } else { u32::from(map.readers != 0) },
            })
        }
    }
}

fn put_as<T>(data: &Out<u8>, value: T) -> Res {
    data.required()?;
    // SAFETY: the C contract of `cuPointerGetAttribute` says that the buffer has the size of the
    // attribute's type, which is T.
    unsafe { (data.addr() as *mut T).write_unaligned(value) }
    Ok(())
}

#[no_mangle]
pub extern "C" fn cuPointerGetAttribute(data: Out<u8>, attribute: u32, addr: u64) -> Code {
    let args = [u64::from(attribute), addr, 0];
    call(Fun::cuPointerGetAttribute, Need::Context, args, |st| {
        let facts = facts(st, addr).ok_or(code::INVALID_VALUE)?;
        match attribute {
            1 => put_as(&data, facts.context),
            2 => put_as(&data, if facts.host { 1u32 } else { 2 }),
            3 => put_as(&data, addr),
            4 if facts.host || facts.managed => put_as(&data, addr),
            7 => put_as(&data, facts.number),
            8 => put_as(&data, u32::from(facts.managed)),
            9 => put_as(&data, facts.device),
            10 => put_as(&data, u8::from(facts.legacy_ipc)),
            11 => put_as(&data, facts.start),
            12 => put_as(&data, facts.size as usize),
            13 => put_as(&data, 1u8),
            14 => put_as(&data, facts.handle_types),
            15 => put_as(&data, u8::from(facts.virtual_memory)),
            16 => put_as(&data, facts.access),
            17 => put_as(&data, 0usize),
            18 => put_as(&data, facts.size as usize),
            19 => put_as(&data, facts.start),
            _ => Err(code::INVALID_VALUE),
        }
    })
}

#[no_mangle]
pub extern "C" fn cuMemGetAddressRange_v2(base: Out<u64>, size: Out<usize>, addr: u64) -> Code {
    call(Fun::cuMemGetAddressRange_v2, Need::Context, [addr, 0, 0], |st| {
        let facts = facts(st, addr).ok_or(code::NOT_FOUND)?;
        base.put_if(facts.start);
        size.put_if(facts.size as usize);
        Ok(())
    })
}
