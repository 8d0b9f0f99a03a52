//! Copies and fills. Pageable host memory is read when the copy is queued, and a copy to it ends
//! before the call returns, as the driver stages it.

use std::sync::Arc;

use crate::abi::{code, Code, Res};
use crate::engine::Work;
use crate::function::Fun;
use crate::gate::{call, Need};
use crate::memory::Owner;
use crate::state::{Held, State};

/// What a side of a copy may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Device,
    Any,
}

/// Check a side. True if it is pageable host memory.
fn check_side(st: &State, addr: u64, len: u64, side: Side) -> Res<bool> {
    let end = addr.checked_add(len).ok_or(code::INVALID_VALUE)?;
    match st.memory.owner(addr) {
        Owner::Unknown if side == Side::Any && addr != 0 => Ok(true),
        Owner::Unknown => Err(code::INVALID_VALUE),
        Owner::Plain(start, plain) if end <= start + plain.size => Ok(false),
        Owner::Plain(..) => Err(code::INVALID_VALUE),
        Owner::Reserved(range) => {
            let mut at = addr;
            while at < end {
                let (start, map) = range.mapping_at(at).ok_or(code::INVALID_VALUE)?;
                at = start + map.size;
            }
            Ok(false)
        }
    }
}

fn copy(st: &mut Held, dst: (u64, Side), src: (u64, Side), len: u64, stream: usize) -> Res {
    let id = st.resolve(stream)?;
    if len == 0 {
        return Ok(());
    }
    let src_pageable = check_side(st, src.0, len, src.1)?;
    let dst_pageable = check_side(st, dst.0, len, dst.1)?;
    let captured = st.engine.streams[&id].capture.is_some();
    let work = if src_pageable && !dst_pageable && !captured {
        let mut bytes = vec![0; len as usize];
        st.memory.read(src.0, &mut bytes);
        Work::Upload { dst: dst.0, bytes: Arc::from(bytes) }
    } else {
        Work::Copy { dst: dst.0, src: src.0, len }
    };
    let Some(point) = st.submit(id, work)? else { return Ok(()) };
    if dst_pageable {
        st.wait_until(|st| st.engine.reached(&point))?;
    }
    Ok(())
}

/// A copy that the host waits for: forbidden where a capture could depend on it.
fn copy_now(st: &mut Held, dst: (u64, Side), src: (u64, Side), len: u64) -> Res {
    st.unsafe_in_capture()?;
    let id = st.resolve(0)?;
    copy(st, dst, src, len, 0)?;
    let queued = st.engine.streams[&id].queued;
    st.wait_until(|st| st.engine.streams.get(&id).is_none_or(|s| s.done >= queued))
}

#[no_mangle]
pub extern "C" fn cuMemcpyAsync(dst: u64, src: u64, len: usize, stream: usize) -> Code {
    call(Fun::cuMemcpyAsync, Need::Stream, [dst, src, len as u64], |st| {
        copy(st, (dst, Side::Any), (src, Side::Any), len as u64, stream)
    })
}

#[no_mangle]
pub extern "C" fn cuMemcpyDtoHAsync_v2(dst: u64, src: u64, len: usize, stream: usize) -> Code {
    call(Fun::cuMemcpyDtoHAsync_v2, Need::Stream, [dst, src, len as u64], |st| {
        copy(st, (dst, Side::Any), (src, Side::Device), len as u64, stream)
    })
}

#[no_mangle]
pub extern "C" fn cuMemcpyHtoDAsync_v2(dst: u64, src: u64, len: usize, stream: usize) -> Code {
    call(Fun::cuMemcpyHtoDAsync_v2, Need::Stream, [dst, src, len as u64], |st| {
        copy(st, (dst, Side::Device), (src, Side::Any), len as u64, stream)
    })
}

#[no_mangle]
pub extern "C" fn cuMemcpyDtoDAsync_v2(dst: u64, src: u64, len: usize, stream: usize) -> Code {
    call(Fun::cuMemcpyDtoDAsync_v2, Need::Stream, [dst, src, len as u64], |st| {
        copy(st, (dst, Side::Device), (src, Side::Device), len as u64, stream)
    })
}

#[no_mangle]
pub extern "C" fn cuMemcpyDtoH_v2(dst: u64, src: u64, len: usize) -> Code {
    call(Fun::cuMemcpyDtoH_v2, Need::Context, [dst, src, len as u64], |st| {
        copy_now(st, (dst, Side::Any), (src, Side::Device), len as u64)
    })
}

#[no_mangle]
pub extern "C" fn cuMemcpyHtoD_v2(dst: u64, src: u64, len: usize) -> Code {
    call(Fun::cuMemcpyHtoD_v2, Need::Context, [dst, src, len as u64], |st| {
        copy_now(st, (dst, Side::Device), (src, Side::Any), len as u64)
    })
}

#[no_mangle]
pub extern "C" fn cuMemsetD8Async(dst: u64, value: u8, len: usize, stream: usize) -> Code {
    call(Fun::cuMemsetD8Async, Need::Stream, [dst, u64::from(value), len as u64], |st| {
        let id = st.resolve(stream)?;
        if len == 0 {
            return Ok(());
        }
        check_side(st, dst, len as u64, Side::Device)?;
        st.submit(id, Work::Fill { dst, value, len: len as u64 }).map(|_| ())
    })
}
