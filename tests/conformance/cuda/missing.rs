//! Drivers that lack a function: each is the fake driver without one symbol, in a process of its
//! own.

use cenote::base::Status;
use cenote::device::cuda::Cuda;

use super::capture::{seen_on_its_stream_alone, while_capturing};
use crate::subject::{cuda_device, Must, Outcome, Subject};
use crate::{checks, ensure, fake};

/// Runs a test's body in a process whose driver lacks a symbol.
fn without(symbol: &str, test: &str, body: impl FnOnce() -> Outcome) {
    let test = format!("cuda::missing::{test}");
    if fake::in_this_child(&test) {
        assert_eq!(body(), Ok(()), "without {symbol}");
        return;
    }
    match fake::folder_without(symbol) {
        Ok(folder) => fake::run_child(&test, &folder, &[("CENOTE_TEST_CUDA", "1")]),
        Err(reason) => println!("skipped: {test}: {reason}"),
    }
}

fn run(subject: &Subject, names: &[&str]) -> Outcome {
    names.iter().try_for_each(|name| (checks::named(name).run)(subject))
}

#[test]
fn a_needed_function() {
    without("cuMemGetInfo_v2", "a_needed_function", || {
        let error = Cuda::open().map(|_| ()).refused("open")?;
        ensure!(error.status == Status::E_DRIVER_SYMBOL, "the status is {:?}", error.status);
        ensure!(error.what == "cuMemGetInfo_v2", "the error names {}", error.what);
        Ok(())
    });
}

#[test]
fn a_function_of_virtual_memory() {
    without("cuMemSetAccess", "a_function_of_virtual_memory", || {
        let subject = cuda_device()?;
        ensure!(!subject.caps.virtual_memory, "{:?}", subject.caps);
        run(&subject, &["device_facts", "fixed_addresses", "events_complete"])
    });
}

#[test]
fn stream_ids() {
    without("cuStreamGetId", "stream_ids", || {
        let subject = cuda_device()?;
        run(&subject, &["whole_cycle", "streams_have_identities", "no_capture_without_one"])?;
        let id = |stream| subject.backend.identify(0, stream).must("identify").map(|i| i.id);
        ensure!(id(0)? == id(1)?, "the legacy stream is one");
        ensure!(id(2)? != id(2)?, "a stream that cannot be told apart must be new each time");
        Ok(())
    });
}

#[test]
fn context_events() {
    without("cuCtxRecordEvent", "context_events", || {
        let subject = cuda_device()?;
        let event = subject.backend.event_create(0).must("event_create")?;
        let error = subject.backend.event_record_context(0, event).refused("record_context")?;
        ensure!(error.status == Status::E_NOT_SUPPORTED, "the status is {:?}", error.status);
        run(&subject, &["events_complete"])
    });
}

#[test]
fn context_ids() {
    without("cuCtxGetId", "context_ids", || run(&cuda_device()?, &["whole_cycle"]));
}

unsafe extern "C" fn never(_cookie: *mut std::ffi::c_void) {}

#[test]
fn user_objects() {
    without("cuUserObjectCreate", "user_objects", || {
        let subject = cuda_device()?;
        while_capturing(|stream| {
            let capture = subject.backend.capture(0, stream as u64).must("capture")?;
            let graph = capture.ok_or("the capture is not seen")?.graph;
            let error = subject
                .backend
                .graph_retain(0, graph, never, std::ptr::null_mut())
                .refused("graph_retain")?;
            ensure!(error.status == Status::E_NOT_SUPPORTED, "the status is {:?}", error.status);
            Ok(())
        })
    });
}

/// The older of the two functions that describe a capture has one parameter less.
#[test]
fn newer_capture_info() {
    without("cuStreamGetCaptureInfo_v3", "newer_capture_info", || {
        seen_on_its_stream_alone(&cuda_device()?)
    });
}
