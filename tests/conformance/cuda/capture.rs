//! Captures: seen where they are, and never broken by the backend.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cenote::base::Status;
use cenote::device::CaptureInfo;

use super::{on_cuda, on_fake, GLOBAL};
use crate::ensure;
use crate::raw;
use crate::subject::{Must, Outcome, Subject};

/// Runs a test while a blocking stream captures in the strictest mode; the capture must survive.
pub fn while_capturing(test: impl FnOnce(usize) -> Outcome) -> Outcome {
    raw::context_set(raw::primary(0));
    let stream = raw::stream(0);
    assert_eq!(raw::capture_begin(stream, GLOBAL), 0, "cuStreamBeginCapture");
    let outcome = test(stream);
    let mut graph = 0;
    let code = raw::capture_end(stream, &mut graph);
    if code == 0 {
        raw::graph_destroy(graph);
    }
    raw::stream_destroy(stream);
    raw::context_set(0);
    raw::primary_release(0);
    outcome?;
    ensure!(code == 0, "the capture was broken: cuStreamEndCapture gives {code}");
    Ok(())
}

fn capture(subject: &Subject, stream: usize) -> Outcome<Option<CaptureInfo>> {
    let alone = subject.backend.capture(0, stream as u64).must("capture")?;
    let identity = subject.backend.identify(0, stream as u64).must("identify")?;
    ensure!(identity.capture == alone, "{:?} is not {alone:?}", identity.capture);
    Ok(alone)
}

/// Captures twice, and looks at streams that capture and that do not.
pub fn seen_on_its_stream_alone(subject: &Subject) -> Outcome {
    let mut ids = Vec::new();
    for _ in 0..2 {
        while_capturing(|stream| {
            let found = capture(subject, stream)?;
            let info = found.ok_or("the capture is not seen")?;
            ensure!(info.id != 0 && info.graph != 0, "the capture is {info:?}");
            ids.push(info.id);
            let other = raw::stream(1);
            let elsewhere = capture(subject, other)?;
            raw::stream_destroy(other);
            ensure!(elsewhere.is_none(), "another stream is captured: {elsewhere:?}");
            ensure!(capture(subject, 0)?.is_none(), "the legacy stream is captured");
            ensure!(capture(subject, 2)?.is_none(), "the per-thread stream is captured");
            Ok(())
        })?;
    }
    ensure!(ids[0] != ids[1], "two captures, one id");
    Ok(())
}

#[test]
fn a_capture_is_seen_on_its_stream_alone() {
    on_cuda("a_capture_is_seen_on_its_stream_alone", seen_on_its_stream_alone);
}

#[test]
fn nothing_breaks_a_capture() {
    on_cuda("nothing_breaks_a_capture", |subject| {
        let backend = &subject.backend;
        let pending = backend.event_create(0).must("event_create")?;
        backend.event_record(0, pending, 0).must("event_record")?;
        while_capturing(|_| {
            let region = subject.region(2)?;
            backend.mem_info(0).must("mem_info")?;
            backend.activate(0).must("activate")?;
            let other = raw::stream(1);
            let event = backend.event_create(0).must("event_create")?;
            backend.event_record(0, event, other as u64).must("event_record")?;
            backend.event_query(0, event).must("event_query")?;
            backend.event_wait(0, pending, 10_000).must("event_wait")?;
            backend.stream_wait(0, other as u64, event).must("stream_wait")?;
            backend.fill(0, region.base, 3, region.size, other as u64).must("fill")?;
            backend.copy(0, region.base, region.base + 8, 8, other as u64).must("copy")?;
            backend.event_record(0, event, other as u64).must("event_record")?;
            backend.event_wait(0, event, 10_000).must("event_wait")?;
            backend.event_destroy(0, event).must("event_destroy")?;
            raw::stream_destroy(other);
            subject.give_back(&region)
        })?;
        backend.event_destroy(0, pending).must("event_destroy")
    });
}

#[test]
fn the_legacy_stream_is_barred_and_nothing_breaks() {
    on_cuda("the_legacy_stream_is_barred_and_nothing_breaks", |subject| {
        let backend = &subject.backend;
        let event = backend.event_create(0).must("event_create")?;
        while_capturing(|_| {
            for stream in [0, 1] {
                let errors = [
                    backend.event_record(0, event, stream).refused("event_record")?,
                    backend.stream_wait(0, stream, event).refused("stream_wait")?,
                    backend.fill(0, 0, 0, 1, stream).refused("fill")?,
                    backend.copy(0, 0, 0, 1, stream).refused("copy")?,
                ];
                let wrong = errors.iter().find(|error| error.status != Status::E_CAPTURE);
                ensure!(wrong.is_none(), "the status is not E_CAPTURE: {wrong:?}");
            }
            Ok(())
        })?;
        backend.event_record(0, event, 0).must("event_record after the capture")?;
        backend.event_destroy(0, event).must("event_destroy")
    });
}

#[test]
fn a_broken_capture_is_seen() {
    on_cuda("a_broken_capture_is_seen", |subject| {
        let broken = while_capturing(|stream| {
            ensure!(raw::stream_query(stream) != 0, "a captured stream can be queried");
            let found = capture(subject, stream)?;
            ensure!(found == Some(CaptureInfo { id: 0, graph: 0 }), "the capture is {found:?}");
            Ok(())
        });
        let reason = broken.refused_text("the end of a broken capture")?;
        ensure!(reason.starts_with("the capture was broken"), "{reason}");
        Ok(())
    });
}

/// The reason of an outcome that has to fail.
trait RefusedText {
    fn refused_text(self, what: &str) -> Outcome<String>;
}

impl RefusedText for Outcome {
    fn refused_text(self, what: &str) -> Outcome<String> {
        match self {
            Ok(()) => Err(format!("{what} was not refused")),
            Err(reason) => Ok(reason),
        }
    }
}

unsafe extern "C" fn set(flag: *mut c_void) {
    // SAFETY: the tests give a static flag.
    unsafe { &*flag.cast::<AtomicBool>() }.store(true, Ordering::Release);
}

fn comes_true(flag: &AtomicBool) -> bool {
    let start = Instant::now();
    while !flag.load(Ordering::Acquire) && start.elapsed() < Duration::from_secs(5) {
        if let Some(fake) = raw::fake() {
            fake.drain();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    flag.load(Ordering::Acquire)
}

fn retain(subject: &Subject, stream: usize, flag: &'static AtomicBool) -> Outcome {
    let info = capture(subject, stream)?.ok_or("the capture is not seen")?;
    let cookie = (&raw const *flag).cast_mut().cast();
    subject.backend.graph_retain(0, info.graph, set, cookie).must("graph_retain")?;
    ensure!(!flag.load(Ordering::Acquire), "the graph is gone before its end");
    Ok(())
}

#[test]
fn the_end_of_a_graph_is_told() {
    static FINISHED: AtomicBool = AtomicBool::new(false);
    static ABORTED: AtomicBool = AtomicBool::new(false);
    on_cuda("the_end_of_a_graph_is_told", |subject| {
        while_capturing(|stream| retain(subject, stream, &FINISHED))?;
        ensure!(comes_true(&FINISHED), "the destroyed graph is not told");
        let aborted = while_capturing(|stream| {
            retain(subject, stream, &ABORTED)?;
            raw::stream_query(stream);
            Ok(())
        });
        aborted.refused_text("the end of a broken capture")?;
        ensure!(comes_true(&ABORTED), "the aborted capture is not told");
        Ok(())
    });
}

#[test]
fn a_graph_that_cannot_be_retained_keeps_the_cookie_untouched() {
    static FLAG: AtomicBool = AtomicBool::new(false);
    on_fake("a_graph_that_cannot_be_retained", |subject, fake| {
        while_capturing(|stream| {
            let info = capture(subject, stream)?.ok_or("the capture is not seen")?;
            fake.fail("cuGraphRetainUserObject", 1, 801);
            let cookie = (&raw const FLAG).cast_mut().cast();
            let error =
                subject.backend.graph_retain(0, info.graph, set, cookie).refused("retain")?;
            ensure!(error.status == Status::E_NOT_SUPPORTED, "the status is {:?}", error.status);
            Ok(())
        })?;
        fake.drain();
        ensure!(!FLAG.load(Ordering::Acquire), "the destructor used a forgotten cookie");
        Ok(())
    });
}

#[test]
fn unsafe_calls_are_hidden_from_captures() {
    on_fake("unsafe_calls_are_hidden_from_captures", |subject, fake| {
        fake.reset_counts();
        for check in crate::checks::ALL {
            (check.run)(subject)?;
        }
        let names = [
            "cuMemAddressReserve",
            "cuMemAddressFree",
            "cuMemCreate",
            "cuMemRelease",
            "cuMemMap",
            "cuMemSetAccess",
            "cuMemUnmap",
            "cuMemGetInfo_v2",
            "cuEventCreate",
            "cuEventDestroy_v2",
            "cuEventRecord",
            "cuEventQuery",
            "cuMemcpyAsync",
            "cuMemsetD8Async",
            "cuCtxSynchronize",
        ];
        for name in names {
            let (all, hidden) = (fake.count(name), fake.count_relaxed(name));
            ensure!(all > 0 && all == hidden, "{name}: {hidden} of {all} calls were hidden");
        }
        Ok(())
    });
}
