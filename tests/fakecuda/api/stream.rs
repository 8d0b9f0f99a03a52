//! Streams and events.

use crate::abi::{code, Code, HostFn, Out};
use crate::engine::{StreamKind, Work};
use crate::function::Fun;
use crate::gate::{call, Need};
use crate::state::{Held, State};

impl Held {
    /// Wait for all work of a context.
    pub fn synchronize(&mut self, context: usize) -> Result<(), Code> {
        let tails = self.engine.tails(context);
        self.wait_until(|st| st.engine.all_reached(&tails))?;
        self.broken(context)
    }
}

impl State {
    /// The error that broke a context: host waits report it.
    fn broken(&self, context: usize) -> Result<(), Code> {
        match self.contexts.get(context).map_or(0, |found| found.sticky) {
            0 => Ok(()),
            error => Err(error),
        }
    }

    /// The answer of a query that found unfinished work.
    fn not_ready(&mut self) -> Code {
        self.polled();
        code::NOT_READY
    }
}

#[no_mangle]
pub extern "C" fn cuStreamCreate(stream: Out<usize>, flags: u32) -> Code {
    call(Fun::cuStreamCreate, Need::Context, [u64::from(flags), 0, 0], |st| {
        stream.required()?;
        stream.put(st.stream_create(flags, 0)?)
    })
}

#[no_mangle]
pub extern "C" fn cuStreamCreateWithPriority(
    stream: Out<usize>,
    flags: u32,
    priority: i32,
) -> Code {
    let args = [u64::from(flags), priority as u64, 0];
    call(Fun::cuStreamCreateWithPriority, Need::Context, args, |st| {
        stream.required()?;
        stream.put(st.stream_create(flags, priority)?)
    })
}

#[no_mangle]
pub extern "C" fn cuStreamDestroy_v2(stream: usize) -> Code {
    call(Fun::cuStreamDestroy_v2, Need::Stream, [stream as u64, 0, 0], |st| {
        st.stream_destroy(stream)
    })
}

#[no_mangle]
pub extern "C" fn cuStreamGetId(stream: usize, id: Out<u64>) -> Code {
    call(Fun::cuStreamGetId, Need::Stream, [stream as u64, 0, 0], |st| {
        let found = st.resolve(stream)?;
        st.check_not_captured(found)?;
        st.check_legacy(found)?;
        id.put(found)
    })
}

#[no_mangle]
pub extern "C" fn cuStreamGetCtx(stream: usize, context: Out<usize>) -> Code {
    call(Fun::cuStreamGetCtx, Need::Stream, [stream as u64, 0, 0], |st| {
        let id = st.resolve(stream)?;
        context.put(st.engine.streams[&id].context)
    })
}

#[no_mangle]
pub extern "C" fn cuStreamGetDevice(stream: usize, device: Out<i32>) -> Code {
    call(Fun::cuStreamGetDevice, Need::Stream, [stream as u64, 0, 0], |st| {
        let id = st.resolve(stream)?;
        device.put(st.engine.streams[&id].device as i32)
    })
}

#[no_mangle]
pub extern "C" fn cuStreamGetFlags(stream: usize, flags: Out<u32>) -> Code {
    call(Fun::cuStreamGetFlags, Need::Stream, [stream as u64, 0, 0], |st| {
        let id = st.resolve(stream)?;
        flags.put(u32::from(st.engine.streams[&id].kind == StreamKind::NonBlocking))
    })
}

#[no_mangle]
pub extern "C" fn cuStreamGetPriority(stream: usize, priority: Out<i32>) -> Code {
    call(Fun::cuStreamGetPriority, Need::Stream, [stream as u64, 0, 0], |st| {
        let id = st.resolve(stream)?;
        priority.put(st.engine.streams[&id].priority)
    })
}

#[no_mangle]
pub extern "C" fn cuStreamQuery(stream: usize) -> Code {
    call(Fun::cuStreamQuery, Need::Stream, [stream as u64, 0, 0], |st| {
        let id = st.resolve(stream)?;
        st.check_stream_wait(id)?;
        if st.engine.pending.contains(&id) {
            return Err(st.not_ready());
        }
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn cuStreamSynchronize(stream: usize) -> Code {
    call(Fun::cuStreamSynchronize, Need::Stream, [stream as u64, 0, 0], |st| {
        let id = st.resolve(stream)?;
        st.check_stream_wait(id)?;
        let found = &st.engine.streams[&id];
        let (context, queued) = (found.context, found.queued);
        st.wait_until(|st| st.engine.streams.get(&id).is_none_or(|s| s.done >= queued))?;
        st.broken(context)
    })
}

#[no_mangle]
pub extern "C" fn cuStreamWaitEvent(stream: usize, event: usize, flags: u32) -> Code {
    let args = [stream as u64, event as u64, u64::from(flags)];
    call(Fun::cuStreamWaitEvent, Need::Stream, args, |st| {
        if flags > 1 {
            return Err(code::INVALID_VALUE);
        }
        let id = st.resolve(stream)?;
        st.stream_wait(id, event)
    })
}

#[no_mangle]
pub extern "C" fn cuEventCreate(event: Out<usize>, flags: u32) -> Code {
    call(Fun::cuEventCreate, Need::Context, [u64::from(flags), 0, 0], |st| {
        event.required()?;
        event.put(st.event_create(flags)?)
    })
}

#[no_mangle]
pub extern "C" fn cuEventDestroy_v2(event: usize) -> Code {
    call(Fun::cuEventDestroy_v2, Need::Stream, [event as u64, 0, 0], |st| st.event_destroy(event))
}

#[no_mangle]
pub extern "C" fn cuEventRecord(event: usize, stream: usize) -> Code {
    call(Fun::cuEventRecord, Need::Stream, [event as u64, stream as u64, 0], |st| {
        let id = st.resolve(stream)?;
        st.event_record(event, id)
    })
}

#[no_mangle]
pub extern "C" fn cuEventQuery(event: usize) -> Code {
    call(Fun::cuEventQuery, Need::Stream, [event as u64, 0, 0], |st| {
        st.check_event_wait(event)?;
        let points = st.event(event)?.points.clone();
        if st.engine.all_reached(&points) {
            return Ok(());
        }
        Err(st.not_ready())
    })
}

#[no_mangle]
pub extern "C" fn cuEventSynchronize(event: usize) -> Code {
    call(Fun::cuEventSynchronize, Need::Stream, [event as u64, 0, 0], |st| {
        st.check_event_wait(event)?;
        let found = st.event(event)?;
        let (points, context) = (found.points.clone(), found.context);
        st.wait_until(|st| st.engine.all_reached(&points))?;
        st.broken(context)
    })
}

#[no_mangle]
pub extern "C" fn cuLaunchHostFunc(stream: usize, func: HostFn, data: usize) -> Code {
    call(Fun::cuLaunchHostFunc, Need::Stream, [stream as u64, data as u64, 0], |st| {
        if func.is_none() {
            return Err(code::INVALID_VALUE);
        }
        let id = st.resolve(stream)?;
        st.submit(id, Work::Host { func, data }).map(|_| ())
    })
}
