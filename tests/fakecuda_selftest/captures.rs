//! Stream capture: what is legal meanwhile, graphs, and user objects.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::code;
use crate::driver::{Driver, PAGE};
use crate::fake::{in_child, Fake, Kernel};

const GLOBAL: u32 = 0;
const THREAD_LOCAL: u32 = 1;
const RELAXED: u32 = 2;

fn begin(cu: &Driver, mode: u32) -> usize {
    let stream = cu.stream(true);
    assert_eq!(cu.cuStreamBeginCapture_v2(stream, mode), code::OK);
    stream
}

fn end(cu: &Driver, stream: usize) -> (u32, usize) {
    let mut graph = 1;
    let got = cu.cuStreamEndCapture(stream, &mut graph);
    (got, graph)
}

fn status(cu: &Driver, stream: usize) -> (u32, u32) {
    let mut status = 9;
    (cu.cuStreamIsCapturing(stream, &mut status), status)
}

/// A call that is made while a stream is captured, and whether the capture survives it.
type Case = (&'static str, bool, fn(&Fake, usize) -> u32);

fn cases() -> Vec<Case> {
    vec![
        ("cuEventQuery", false, |fake, event| fake.cu.cuEventQuery(event)),
        ("cuEventSynchronize", false, |fake, event| fake.cu.cuEventSynchronize(event)),
        ("cuMemAlloc", false, |fake, _| fake.cu.cuMemAlloc_v2(&mut 0, 64)),
        ("cuMemHostAlloc", false, |fake, _| fake.cu.cuMemHostAlloc(&mut 0, 64, 0)),
        ("cuMemAllocManaged", false, |fake, _| fake.cu.cuMemAllocManaged(&mut 0, 64, 1)),
        ("cuMemCreate and map", true, |fake, _| (fake.cu.mapped(1) == 0).into()),
        ("cuMemUnmap", true, |fake, _| fake.cu.cuMemUnmap(fake.cu.mapped(1), PAGE)),
        ("cuMemGetInfo", true, |fake, _| fake.cu.cuMemGetInfo_v2(&mut 0, &mut 0)),
        ("cuEventCreate", true, |fake, _| fake.cu.cuEventCreate(&mut 0, 2)),
        ("cuStreamGetId", true, |fake, _| fake.cu.cuStreamGetId(0, &mut 0)),
        ("cuStreamQuery", false, |fake, _| fake.cu.cuStreamQuery(fake.cu.stream(true))),
        ("cuStreamSynchronize", false, |fake, _| fake.cu.cuStreamSynchronize(fake.cu.stream(true))),
        ("cuStreamDestroy", true, |fake, _| fake.cu.cuStreamDestroy_v2(fake.cu.stream(true))),
        ("cuStreamWaitEvent", true, |fake, event| {
            fake.cu.cuStreamWaitEvent(fake.cu.stream(true), event, 0)
        }),
        ("cuPointerGetAttribute", true, |fake, _| {
            let (at, mut value) = (fake.cu.mapped(1), 0u64);
            fake.cu.cuPointerGetAttribute((&raw mut value).cast(), 11, at)
        }),
        ("cuEventRecord elsewhere", true, |fake, event| {
            fake.cu.cuEventRecord(event, fake.cu.stream(true))
        }),
    ]
}

#[test]
fn a_global_capture_breaks_as_measured() {
    in_child("captures::a_global_capture_breaks_as_measured", &[], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let event = cu.recorded(0);
        for (what, legal, call) in cases() {
            let stream = begin(cu, GLOBAL);
            let refused = if legal { code::OK } else { code::CAPTURE_UNSUPPORTED };
            assert_eq!(call(fake, event), refused, "{what}");
            let state = if legal { 1 } else { 2 };
            assert_eq!(status(cu, stream), (code::OK, state), "{what}");
            let ended = if legal { code::OK } else { code::CAPTURE_INVALIDATED };
            assert_eq!(end(cu, stream).0, ended, "{what}");
            let stream = begin(cu, GLOBAL);
            let mode = cu.capture_mode(RELAXED);
            assert_eq!(call(fake, event), code::OK, "{what} in relaxed mode");
            assert_eq!(cu.capture_mode(mode), RELAXED);
            assert_eq!(end(cu, stream).0, code::OK, "{what} in relaxed mode");
        }
        assert!(fake.count_relaxed("cuEventQuery") > 0);
        assert!(fake.count_relaxed("cuEventQuery") < fake.count("cuEventQuery"));
    });
}

#[test]
fn the_mode_says_whose_calls_break_it() {
    in_child("captures::the_mode_says_whose_calls_break_it", &[], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let event = cu.recorded(0);
        let elsewhere = |mode: u32| {
            let stream = begin(cu, mode);
            let other = std::thread::scope(|scope| {
                let thread = scope.spawn(|| {
                    cu.start(0);
                    cu.cuEventQuery(event)
                });
                thread.join().expect("the thread only calls the driver")
            });
            (other, end(cu, stream).0)
        };
        assert_eq!(elsewhere(GLOBAL), (code::CAPTURE_UNSUPPORTED, code::CAPTURE_INVALIDATED));
        assert_eq!(elsewhere(THREAD_LOCAL), (code::OK, code::OK));
        assert_eq!(elsewhere(RELAXED), (code::OK, code::OK));
        let here = |mode: u32| {
            let stream = begin(cu, mode);
            (cu.cuEventQuery(event), end(cu, stream).0)
        };
        assert_eq!(here(THREAD_LOCAL), (code::CAPTURE_UNSUPPORTED, code::CAPTURE_INVALIDATED));
        assert_eq!(here(RELAXED), (code::OK, code::OK));
    });
}

#[test]
fn captured_streams_and_events_cannot_be_waited_for() {
    let name = "captures::captured_streams_and_events_cannot_be_waited_for";
    in_child(name, &[], |fake| {
        let cu = &fake.cu;
        let context = cu.start(0);
        let broken = |stream: usize, got: u32, expected: u32, what: &str| {
            assert_eq!(got, expected, "{what}");
            assert_eq!(end(cu, stream).0, code::CAPTURE_INVALIDATED, "{what}");
        };
        cu.capture_mode(RELAXED);
        let stream = begin(cu, RELAXED);
        let event = cu.recorded(stream);
        broken(stream, cu.cuEventQuery(event), code::CAPTURED_EVENT, "query");
        let stream = begin(cu, RELAXED);
        let event = cu.recorded(stream);
        broken(stream, cu.cuEventSynchronize(event), code::CAPTURED_EVENT, "wait");
        let refused = code::CAPTURE_UNSUPPORTED;
        let stream = begin(cu, RELAXED);
        broken(stream, cu.cuStreamQuery(stream), refused, "stream query");
        let stream = begin(cu, RELAXED);
        broken(stream, cu.cuStreamSynchronize(stream), refused, "stream wait");
        let stream = begin(cu, RELAXED);
        broken(stream, cu.cuCtxSynchronize(), refused, "context wait");
        let (stream, event) = (begin(cu, RELAXED), cu.event());
        let got = cu.cuCtxRecordEvent(context, event);
        assert_eq!(status(cu, stream), (code::OK, 2));
        assert_eq!(cu.cuEventRecord(event, stream), code::CAPTURE_INVALIDATED);
        assert_eq!(fake.launch(stream, Kernel::instant()), code::CAPTURE_INVALIDATED);
        broken(stream, got, refused, "an event of the whole context");
        assert_eq!(cu.cuCtxRecordEvent(context, event), code::OK);
    });
}

#[test]
fn a_capture_ends_with_its_stream() {
    in_child("captures::a_capture_ends_with_its_stream", &[], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let event = cu.recorded(0);
        for mode in [GLOBAL, THREAD_LOCAL, RELAXED] {
            assert_eq!(cu.cuStreamDestroy_v2(begin(cu, mode)), code::OK, "{mode}");
            assert_eq!(cu.cuEventQuery(event), code::OK, "{mode}: no capture is left");
        }
        let (stream, side) = (begin(cu, GLOBAL), cu.stream(true));
        assert_eq!(cu.cuStreamWaitEvent(side, cu.recorded(stream), 0), code::OK);
        assert_eq!(cu.cuStreamDestroy_v2(side), code::OK);
        assert_eq!(end(cu, stream).0, code::CAPTURE_INVALIDATED, "a fork is gone");
    });
}

#[test]
fn a_captured_stream_does_not_tell_its_id() {
    in_child("captures::a_captured_stream_does_not_tell_its_id", &[], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let other = cu.stream(true);
        let elsewhere = |stream: usize| {
            std::thread::scope(|scope| {
                let thread = scope.spawn(|| {
                    cu.start(0);
                    cu.cuStreamGetId(stream, &mut 0)
                });
                thread.join().expect("the thread only calls the driver")
            })
        };
        for mode in [GLOBAL, THREAD_LOCAL, RELAXED] {
            let stream = begin(cu, mode);
            let ours = cu.capture_mode(RELAXED);
            assert_eq!(cu.cuStreamGetId(stream, &mut 0), code::CAPTURE_UNSUPPORTED, "{mode}");
            cu.capture_mode(ours);
            assert_eq!(end(cu, stream).0, code::CAPTURE_INVALIDATED, "{mode}");
            let stream = begin(cu, mode);
            assert_eq!(elsewhere(stream), code::CAPTURE_UNSUPPORTED, "{mode}, another thread");
            assert_eq!(cu.cuStreamGetId(stream, &mut 0), code::CAPTURE_UNSUPPORTED, "broken");
            end(cu, stream);
            let stream = begin(cu, mode);
            assert_ne!(cu.stream_id(other), 0, "{mode}: another stream tells its id");
            assert_eq!(end(cu, stream).0, code::OK, "{mode}");
            assert_ne!(cu.stream_id(stream), 0, "{mode}: after the capture");
        }
    });
}

#[test]
fn the_legacy_stream_is_unusable_meanwhile() {
    in_child("captures::the_legacy_stream_is_unusable_meanwhile", &[], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let blocking = cu.stream(false);
        assert_eq!(cu.cuStreamBeginCapture_v2(blocking, RELAXED), code::OK);
        assert_eq!(status(cu, 0).0, code::CAPTURE_IMPLICIT);
        assert_eq!(status(cu, blocking), (code::OK, 1), "asking does not break it");
        assert_eq!(cu.cuEventRecord(cu.event(), 0), code::CAPTURE_IMPLICIT);
        assert_eq!(end(cu, blocking).0, code::CAPTURE_INVALIDATED);
        assert_eq!(cu.cuStreamBeginCapture_v2(blocking, RELAXED), code::OK);
        assert_ne!(cu.stream_id(2), 0, "a thread's own stream tells its id");
        assert_eq!(status(cu, blocking), (code::OK, 1));
        assert_eq!(cu.cuStreamGetId(0, &mut 0), code::CAPTURE_IMPLICIT);
        assert_eq!(end(cu, blocking).0, code::CAPTURE_INVALIDATED, "its id");
        let free = begin(cu, RELAXED);
        assert_eq!(status(cu, 0), (code::OK, 0));
        assert_eq!(cu.cuEventRecord(cu.event(), 0), code::OK, "a non-blocking stream");
        assert_eq!(end(cu, free).0, code::OK);
        assert_eq!(cu.cuStreamBeginCapture_v2(0, RELAXED), code::CAPTURE_UNSUPPORTED);
        assert_eq!(cu.cuStreamBeginCapture_v2(2, RELAXED), code::OK, "a thread's own stream");
        assert_eq!(cu.cuStreamBeginCapture_v2(2, RELAXED), code::ILLEGAL_STATE, "twice");
        assert_eq!(end(cu, 2).0, code::OK);
        assert_eq!(end(cu, 2), (code::ILLEGAL_STATE, 0));
    });
}

#[test]
fn forks_must_join() {
    in_child("captures::forks_must_join", &[], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let side = cu.stream(true);
        let fork = |stream: usize| {
            assert_eq!(fake.launch(stream, Kernel::instant()), code::OK);
            assert_eq!(cu.cuStreamWaitEvent(side, cu.recorded(stream), 0), code::OK);
            assert_eq!(status(cu, side), (code::OK, 1), "the fork takes part");
            assert_eq!(fake.launch(side, Kernel::instant()), code::OK);
        };
        let stream = begin(cu, GLOBAL);
        fork(stream);
        assert_eq!(end(cu, side).0, code::CAPTURE_UNMATCHED);
        assert_eq!(end(cu, stream).0, code::CAPTURE_INVALIDATED);
        let stream = begin(cu, GLOBAL);
        fork(stream);
        assert_eq!(end(cu, stream), (code::CAPTURE_UNJOINED, 0));
        assert_eq!(status(cu, side), (code::OK, 0));
        let stream = begin(cu, GLOBAL);
        fork(stream);
        assert_eq!(cu.cuStreamWaitEvent(stream, cu.recorded(side), 0), code::OK);
        assert_eq!(end(cu, stream).0, code::OK);
        let outside = cu.recorded(side);
        let stream = begin(cu, GLOBAL);
        let got = cu.cuStreamWaitEvent(stream, outside, 0);
        assert_eq!(got, code::CAPTURE_ISOLATION);
        assert_eq!(end(cu, stream).0, code::CAPTURE_INVALIDATED);
        let (one, two) = (begin(cu, GLOBAL), begin(cu, GLOBAL));
        let got = cu.cuStreamWaitEvent(one, cu.recorded(two), 0);
        assert_eq!(got, code::CAPTURE_MERGE);
        for stream in [one, two] {
            assert_eq!(end(cu, stream).0, code::CAPTURE_INVALIDATED);
        }
    });
}

#[test]
fn a_capture_ends_on_its_thread() {
    in_child("captures::a_capture_ends_on_its_thread", &[], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let elsewhere = |stream: usize| {
            std::thread::scope(|scope| {
                let thread = scope.spawn(|| {
                    cu.start(0);
                    end(cu, stream).0
                });
                thread.join().expect("the thread only calls the driver")
            })
        };
        assert_eq!(elsewhere(begin(cu, GLOBAL)), code::CAPTURE_WRONG_THREAD);
        assert_eq!(elsewhere(begin(cu, RELAXED)), code::OK);
    });
}

#[test]
fn a_graph_runs_what_was_captured() {
    in_child("captures::a_graph_runs_what_was_captured", &[], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let (addr, stream) = (cu.mapped(1), begin(cu, GLOBAL));
        let (mut state, mut id, mut graph) = (0, 0, 0);
        let none = std::ptr::null_mut();
        let got = cu.cuStreamGetCaptureInfo_v2(stream, &mut state, &mut id, &mut graph, none, none);
        assert_eq!((got, state), (code::OK, 1));
        let (mut id3, mut graph3) = (0, 0);
        let got = cu.cuStreamGetCaptureInfo_v3(
            stream,
            &mut state,
            &mut id3,
            &mut graph3,
            none,
            none,
            none,
        );
        assert_eq!((got, id3, graph3), (code::OK, id, graph));
        fake.launch(stream, Kernel::instant().writing(addr, 64, 8));
        assert_eq!(cu.cuMemsetD8Async(addr + 32, 9, 32, stream), code::OK);
        fake.launch(0, Kernel::instant().checking(addr, 64, 0));
        assert_eq!(fake.mismatches(), 0, "captured work does not run");
        let mut exec = 0;
        assert_eq!(cu.cuGraphInstantiateWithFlags(&mut exec, graph, 0), code::INVALID_VALUE);
        assert_eq!(cu.cuGraphDestroy(graph), code::INVALID_VALUE, "while it is captured");
        assert_eq!(end(cu, stream), (code::OK, graph));
        assert_eq!(cu.cuGraphInstantiateWithFlags(&mut exec, graph, 0), code::OK);
        assert_eq!(cu.cuGraphLaunch(exec, stream), code::OK);
        fake.launch(stream, Kernel::instant().checking(addr, 32, 8));
        fake.launch(stream, Kernel::instant().checking(addr + 32, 32, 9));
        assert_eq!(fake.mismatches(), 0);
        assert_eq!(cu.cuGraphExecDestroy(exec), code::OK);
        assert_eq!(cu.cuGraphExecDestroy(exec), code::INVALID_VALUE, "twice");
        assert_eq!(cu.cuGraphDestroy(graph), code::OK);
        let next = begin(cu, GLOBAL);
        let mut other = 0;
        cu.cuStreamGetCaptureInfo_v2(next, &mut state, &mut other, &mut graph, none, none);
        assert_ne!(id, other, "ids are unique");
    });
}

static GONE: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn gone(data: *mut c_void) {
    GONE.fetch_add(data as usize as u32, Ordering::SeqCst);
}

fn object(cu: &Driver) -> usize {
    let mut object = 0;
    let data = std::ptr::without_provenance_mut(1);
    assert_eq!(cu.cuUserObjectCreate(&mut object, data, Some(gone), 1, 0), code::INVALID_VALUE);
    assert_eq!(cu.cuUserObjectCreate(&mut object, data, None, 1, 1), code::INVALID_VALUE);
    assert_eq!(cu.cuUserObjectCreate(&mut object, data, Some(gone), 1, 1), code::OK);
    object
}

fn capturing_graph(cu: &Driver, stream: usize) -> usize {
    let (mut state, mut id, mut graph, none) = (0, 0, 0, std::ptr::null_mut());
    cu.cuStreamGetCaptureInfo_v2(stream, &mut state, &mut id, &mut graph, none, none);
    graph
}

fn destroyed(fake: &Fake) -> u32 {
    fake.drain();
    GONE.load(Ordering::SeqCst)
}

#[test]
fn user_objects_end_with_the_last_graph() {
    let env = [("FAKECUDA_DETERMINISTIC", "1")];
    in_child("captures::user_objects_end_with_the_last_graph", &env, |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let stream = begin(cu, GLOBAL);
        let (graph, tied) = (capturing_graph(cu, stream), object(cu));
        assert_eq!(cu.cuGraphRetainUserObject(graph, tied, 1, 1), code::OK, "moved");
        assert_eq!(cu.cuUserObjectRelease(tied, 1), code::INVALID_VALUE, "not ours any more");
        fake.clear_violations();
        fake.launch(stream, Kernel::until_release(1));
        assert_eq!(end(cu, stream).0, code::OK);
        let mut exec = 0;
        assert_eq!(cu.cuGraphInstantiateWithFlags(&mut exec, graph, 0), code::OK);
        assert_eq!(cu.cuGraphDestroy(graph), code::OK);
        assert_eq!(destroyed(fake), 0, "the executable keeps it");
        assert_eq!(cu.cuGraphLaunch(exec, stream), code::OK);
        assert_eq!(cu.cuGraphExecDestroy(exec), code::OK);
        assert_eq!(destroyed(fake), 0, "the running launch keeps it");
        fake.release(1);
        assert_eq!(cu.cuStreamSynchronize(stream), code::OK);
        assert_eq!(GONE.load(Ordering::SeqCst), 0, "not before a drain");
        assert_eq!(destroyed(fake), 1);
        assert_eq!(fake.stats().user_objects, 0);
        assert_eq!(fake.violations(), 0);
    });
}

#[test]
fn user_objects_end_with_an_aborted_capture() {
    in_child("captures::user_objects_end_with_an_aborted_capture", &[], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let stream = begin(cu, GLOBAL);
        let tied = object(cu);
        let graph = capturing_graph(cu, stream);
        assert_eq!(cu.cuGraphRetainUserObject(graph, tied, 2, 0), code::OK);
        assert_eq!(cu.cuGraphReleaseUserObject(graph, tied, 3), code::INVALID_VALUE, "too many");
        assert_eq!(cu.cuGraphReleaseUserObject(graph, tied, 1), code::OK);
        assert_eq!(cu.cuUserObjectRetain(tied, 1), code::OK);
        assert_eq!(cu.cuUserObjectRelease(tied, 2), code::OK);
        assert_eq!(destroyed(fake), 0, "the graph has a reference");
        assert_eq!(cu.cuMemAlloc_v2(&mut 0, 64), code::CAPTURE_UNSUPPORTED);
        assert_eq!(destroyed(fake), 0, "the capture is not over");
        assert_eq!(end(cu, stream), (code::CAPTURE_INVALIDATED, 0));
        for _ in 0..1000 {
            if GONE.load(Ordering::SeqCst) == 1 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(GONE.load(Ordering::SeqCst), 1, "without a drain, a little later");
    });
}
