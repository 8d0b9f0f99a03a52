//! Contexts.

use crate::abi::{code, Code, Out};
use crate::function::Fun;
use crate::gate::{call, Need};
use crate::state::State;
use crate::thread;

#[no_mangle]
pub extern "C" fn cuDevicePrimaryCtxRetain(context: Out<usize>, device: i32) -> Code {
    call(Fun::cuDevicePrimaryCtxRetain, Need::Init, [0, device as u64, 0], |st| {
        let index = st.device(device)?;
        context.required()?;
        let handle = st.retain_primary(index);
        context.put(handle)
    })
}

#[no_mangle]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(device: i32) -> Code {
    call(Fun::cuDevicePrimaryCtxRelease_v2, Need::Init, [device as u64, 0, 0], |st| {
        let index = st.device(device)?;
        st.release_primary(index)
    })
}

#[no_mangle]
pub extern "C" fn cuDevicePrimaryCtxGetState(
    device: i32,
    flags: Out<u32>,
    active: Out<i32>,
) -> Code {
    call(Fun::cuDevicePrimaryCtxGetState, Need::Init, [device as u64, 0, 0], |st| {
        let index = st.device(device)?;
        flags.put(0)?;
        active.put(i32::from(st.contexts.primary_active(index)))
    })
}

#[no_mangle]
pub extern "C" fn cuDevicePrimaryCtxReset_v2(device: i32) -> Code {
    call(Fun::cuDevicePrimaryCtxReset_v2, Need::Init, [device as u64, 0, 0], |st| {
        let index = st.device(device)?;
        st.reset_primary(index);
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn cuCtxCreate_v2(context: Out<usize>, flags: u32, device: i32) -> Code {
    call(Fun::cuCtxCreate_v2, Need::Init, [0, u64::from(flags), device as u64], |st| {
        let index = st.device(device)?;
        context.required()?;
        let handle = st.create_context(index)?;
        thread::with(|thread| thread.stack.push(handle));
        context.put(handle)
    })
}

#[no_mangle]
pub extern "C" fn cuCtxDestroy_v2(context: usize) -> Code {
    call(Fun::cuCtxDestroy_v2, Need::Init, [context as u64, 0, 0], |st| {
        st.destroy_context(context)?;
        thread::with(|thread| {
            if thread.stack.last() == Some(&context) {
                thread.stack.pop();
            }
        });
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn cuCtxGetCurrent(context: Out<usize>) -> Code {
    call(Fun::cuCtxGetCurrent, Need::Init, [0; 3], |_| context.put(thread::current().unwrap_or(0)))
}

fn known(st: &State, context: usize) -> Result<(), Code> {
    st.contexts.get(context).map(|_| ()).ok_or(code::INVALID_CONTEXT)
}

#[no_mangle]
pub extern "C" fn cuCtxSetCurrent(context: usize) -> Code {
    call(Fun::cuCtxSetCurrent, Need::Init, [context as u64, 0, 0], |st| {
        if context != 0 {
            known(st, context)?;
        }
        thread::with(|thread| {
            thread.stack.pop();
            if context != 0 {
                thread.stack.push(context);
            }
        });
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn cuCtxPushCurrent_v2(context: usize) -> Code {
    call(Fun::cuCtxPushCurrent_v2, Need::Init, [context as u64, 0, 0], |st| {
        known(st, context)?;
        thread::with(|thread| thread.stack.push(context));
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn cuCtxPopCurrent_v2(context: Out<usize>) -> Code {
    call(Fun::cuCtxPopCurrent_v2, Need::Init, [0; 3], |_| {
        let popped = thread::with(|thread| thread.stack.pop()).ok_or(code::INVALID_CONTEXT)?;
        context.put_if(popped);
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn cuCtxGetDevice(device: Out<i32>) -> Code {
    call(Fun::cuCtxGetDevice, Need::Context, [0; 3], |st| {
        let index = st.current_device()?;
        device.put(index as i32)
    })
}

#[no_mangle]
pub extern "C" fn cuCtxGetId(context: usize, id: Out<u64>) -> Code {
    call(Fun::cuCtxGetId, Need::Init, [context as u64, 0, 0], |st| {
        let handle = if context == 0 { st.current_context()? } else { st.live_context(context)? };
        let found = st.contexts.get(handle).ok_or(code::INVALID_CONTEXT)?;
        id.put(found.id)
    })
}

#[no_mangle]
pub extern "C" fn cuCtxSynchronize() -> Code {
    call(Fun::cuCtxSynchronize, Need::Context, [0; 3], |st| {
        let context = st.current_context()?;
        st.check_context_captures(context)?;
        st.unsafe_in_capture()?;
        st.synchronize(context)
    })
}

#[no_mangle]
pub extern "C" fn cuCtxRecordEvent(context: usize, event: usize) -> Code {
    call(Fun::cuCtxRecordEvent, Need::Stream, [context as u64, event as u64, 0], |st| {
        let handle = if context == 0 { st.current_context()? } else { st.live_context(context)? };
        st.event_record_context(handle, event)
    })
}

#[no_mangle]
pub extern "C" fn cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) -> Code {
    call(Fun::cuCtxGetStreamPriorityRange, Need::Context, [0; 3], |_| {
        least.put_if(0);
        greatest.put_if(-5);
        Ok(())
    })
}
