//! Capture, graphs and user objects.

use crate::abi::{code, Code, HostFn, Out, Res};
use crate::function::Fun;
use crate::gate::{call, Need};
use crate::state::State;
use crate::thread;

/// Status of a stream's capture: 0 none, 1 active, 2 invalidated; its id and graph.
fn status(st: &mut State, stream: usize) -> Res<(u32, u64, usize)> {
    let id = st.resolve(stream)?;
    if st.legacy_is_blocked(id) {
        return Err(code::STREAM_CAPTURE_IMPLICIT);
    }
    let Some(capture) = st.engine.streams[&id].capture else { return Ok((0, 0, 0)) };
    let found = st.captures.get(capture).ok_or(code::ILLEGAL_STATE)?;
    Ok(if found.invalid { (2, 0, 0) } else { (1, capture, found.graph) })
}

#[no_mangle]
pub extern "C" fn cuStreamIsCapturing(stream: usize, out: Out<u32>) -> Code {
    call(Fun::cuStreamIsCapturing, Need::Stream, [stream as u64, 0, 0], |st| {
        out.put(status(st, stream)?.0)
    })
}

#[no_mangle]
pub extern "C" fn cuStreamGetCaptureInfo_v2(
    stream: usize,
    out: Out<u32>,
    id: Out<u64>,
    graph: Out<usize>,
    dependencies: Out<usize>,
    dependency_count: Out<usize>,
) -> Code {
    call(Fun::cuStreamGetCaptureInfo_v2, Need::Stream, [stream as u64, 0, 0], |st| {
        let (status, capture, handle) = status(st, stream)?;
        out.put(status)?;
        if status == 1 {
            id.put_if(capture);
            graph.put_if(handle);
            dependencies.put_if(0);
            dependency_count.put_if(0);
        }
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn cuStreamGetCaptureInfo_v3(
    stream: usize,
    out: Out<u32>,
    id: Out<u64>,
    graph: Out<usize>,
    dependencies: Out<usize>,
    edges: Out<usize>,
    dependency_count: Out<usize>,
) -> Code {
    call(Fun::cuStreamGetCaptureInfo_v3, Need::Stream, [stream as u64, 0, 0], |st| {
        let (status, capture, handle) = status(st, stream)?;
        out.put(status)?;
        if status == 1 {
            id.put_if(capture);
            graph.put_if(handle);
            dependencies.put_if(0);
            edges.put_if(0);
            dependency_count.put_if(0);
        }
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn cuStreamBeginCapture_v2(stream: usize, mode: u32) -> Code {
    let args = [stream as u64, u64::from(mode), 0];
    call(Fun::cuStreamBeginCapture_v2, Need::Stream, args, |st| {
        let id = st.resolve(stream)?;
        st.begin_capture(id, mode)
    })
}

#[no_mangle]
pub extern "C" fn cuStreamEndCapture(stream: usize, graph: Out<usize>) -> Code {
    call(Fun::cuStreamEndCapture, Need::Stream, [stream as u64, 0, 0], |st| {
        graph.required()?;
        let id = st.resolve(stream)?;
        let ended = st.end_capture(id);
        graph.put(ended.unwrap_or(0))?;
        ended.map(|_| ())
    })
}

#[no_mangle]
pub extern "C" fn cuThreadExchangeStreamCaptureMode(mode: Out<u32>) -> Code {
    call(Fun::cuThreadExchangeStreamCaptureMode, Need::Init, [0; 3], |_| {
        let wanted = mode.get()?;
        if wanted > thread::MODE_RELAXED {
            return Err(code::INVALID_VALUE);
        }
        let before = thread::with(|thread| std::mem::replace(&mut thread.mode, wanted));
        mode.put(before)
    })
}

#[no_mangle]
pub extern "C" fn cuUserObjectCreate(
    object: Out<usize>,
    data: usize,
    destroy: HostFn,
    initial: u32,
    flags: u32,
) -> Code {
    let args = [data as u64, u64::from(initial), u64::from(flags)];
    call(Fun::cuUserObjectCreate, Need::Init, args, |st| {
        object.required()?;
        object.put(st.object_create(data, destroy, initial, flags)?)
    })
}

#[no_mangle]
pub extern "C" fn cuUserObjectRetain(object: usize, count: u32) -> Code {
    call(Fun::cuUserObjectRetain, Need::Init, [object as u64, u64::from(count), 0], |st| {
        st.object_retain(object, count)
    })
}

#[no_mangle]
pub extern "C" fn cuUserObjectRelease(object: usize, count: u32) -> Code {
    call(Fun::cuUserObjectRelease, Need::Init, [object as u64, u64::from(count), 0], |st| {
        st.object_release(object, count)
    })
}

#[no_mangle]
pub extern "C" fn cuGraphRetainUserObject(
    graph: usize,
    object: usize,
    count: u32,
    flags: u32,
) -> Code {
    let args = [graph as u64, object as u64, u64::from(count)];
    call(Fun::cuGraphRetainUserObject, Need::Init, args, |st| {
        st.graph_retain(graph, object, count, flags)
    })
}

#[no_mangle]
pub extern "C" fn cuGraphReleaseUserObject(graph: usize, object: usize, count: u32) -> Code {
    let args = [graph as u64, object as u64, u64::from(count)];
    call(Fun::cuGraphReleaseUserObject, Need::Init, args, |st| {
        st.graph_release(graph, object, count)
    })
}

#[no_mangle]
pub extern "C" fn cuGraphDestroy(graph: usize) -> Code {
    call(Fun::cuGraphDestroy, Need::Init, [graph as u64, 0, 0], |st| st.graph_destroy(graph))
}

#[no_mangle]
pub extern "C" fn cuGraphInstantiateWithFlags(exec: Out<usize>, graph: usize, flags: u64) -> Code {
    call(Fun::cuGraphInstantiateWithFlags, Need::Context, [graph as u64, flags, 0], |st| {
        exec.required()?;
        exec.put(st.graph_instantiate(graph)?)
    })
}

#[no_mangle]
pub extern "C" fn cuGraphLaunch(exec: usize, stream: usize) -> Code {
    call(Fun::cuGraphLaunch, Need::Stream, [exec as u64, stream as u64, 0], |st| {
        let id = st.resolve(stream)?;
        st.graph_launch(exec, id)
    })
}

#[no_mangle]
pub extern "C" fn cuGraphExecDestroy(exec: usize) -> Code {
    call(Fun::cuGraphExecDestroy, Need::Init, [exec as u64, 0, 0], |st| st.exec_destroy(exec))
}
