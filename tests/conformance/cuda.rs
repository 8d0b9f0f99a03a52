//! Rules that only a driver with contexts, captures and real streams can break.

use std::cell::Cell;

use crate::fake::Fake;
use crate::raw;
use crate::spy::{Flaw, Spy};
use crate::subject::{cuda_device, Outcome, Subject};
use crate::{checks, ensure};

mod capture;
mod faults;
mod missing;
mod start;
mod streams;

/// Code of a capture mode in which other threads' and streams' unsafe calls break the capture.
const GLOBAL: u32 = 0;

/// Runs a test on the CUDA backend, or says why not. The fake driver must find nothing to object.
fn on_cuda(name: &str, test: impl FnOnce(&Subject) -> Outcome) {
    match cuda_device() {
        Ok(subject) => {
            if let Some(fake) = raw::fake() {
                fake.clear_violations();
            }
            assert_eq!(test(&subject), Ok(()), "{name}");
            if let Some(fake) = raw::fake() {
                assert_eq!(fake.violation_texts(), [""; 0], "{name}: the driver was misused");
            }
        }
        Err(reason) => println!("skipped: {name}: {reason}"),
    }
}

/// Runs a test that needs the controls of the fake driver.
fn on_fake(name: &str, test: impl FnOnce(&Subject, &Fake) -> Outcome) {
    on_cuda(name, |subject| match raw::fake() {
        Some(fake) => test(subject, &fake),
        None => {
            println!("skipped: {name}: needs the fake driver");
            Ok(())
        }
    });
}

thread_local! {
    /// The context that this thread had before any call.
    static EXPECTED: Cell<usize> = const { Cell::new(0) };
}

/// Fails if a call has left the thread in another context, or in another capture mode.
fn watch(call: &'static str) {
    assert_eq!(raw::current(), EXPECTED.get(), "{call} changed the current context");
    assert_eq!(raw::thread_capture_mode(), GLOBAL, "{call} changed the thread's capture mode");
}

/// The same backend, with every call watched.
fn watched(subject: &Subject) -> Subject {
    let backend = Box::new(cenote::device::cuda::Cuda::open().expect("it was opened before"));
    let mut spy = Spy::new(backend, Flaw::None);
    spy.after = Box::new(watch);
    let mut watched = Subject::new(Box::new(spy));
    watched.device = subject.device;
    watched
}

/// Runs every check but some with a context current on this thread.
fn run_all(subject: &Subject, current: usize, except: &[&str]) -> Outcome {
    assert_eq!(raw::context_set(current), 0, "cuCtxSetCurrent");
    EXPECTED.set(current);
    let chosen = checks::ALL.iter().filter(|check| !except.contains(&check.name));
    let outcome = chosen.into_iter().try_for_each(|check| {
        (check.run)(subject).map_err(|reason| format!("{}: {reason}", check.name))
    });
    EXPECTED.set(0);
    assert_eq!(raw::context_set(0), 0, "cuCtxSetCurrent");
    outcome
}

#[test]
fn the_current_context_is_left_alone() {
    on_cuda("the_current_context_is_left_alone", |subject| {
        let subject = watched(subject);
        run_all(&subject, 0, &[])?;
        let fallback = "device_without_a_context";
        run_all(&subject, raw::primary(0), &[fallback])?;
        let mut foreign = 0;
        assert_eq!(raw::context_create(&mut foreign, 0, 0), 0, "cuCtxCreate");
        raw::context_set(0);
        run_all(&subject, foreign, &[fallback])?;
        assert_eq!(raw::context_destroy(foreign), 0, "cuCtxDestroy");
        if subject.backend.device_count() > 1 {
            // Stream 0 is then a stream of the other device.
            run_all(&subject, raw::primary(1), &[fallback, "streams_have_identities"])?;
            assert_eq!(raw::primary_release(1), 0, "cuDevicePrimaryCtxRelease");
        }
        raw::primary_release(0);
        Ok(())
    });
}

#[test]
fn the_watch_notices_a_change() {
    on_cuda("the_watch_notices_a_change", |_| {
        watch("nothing");
        raw::context_set(raw::primary(0));
        let noticed = std::panic::catch_unwind(|| watch("cuCtxSetCurrent")).is_err();
        raw::context_set(0);
        raw::primary_release(0);
        ensure!(noticed, "a changed context was not noticed");
        let mut mode = 2;
        raw::capture_mode(&mut mode);
        let noticed = std::panic::catch_unwind(|| watch("capture mode")).is_err();
        raw::capture_mode(&mut mode);
        ensure!(noticed, "a changed capture mode was not noticed");
        Ok(())
    });
}

#[test]
fn no_context_is_created_elsewhere() {
    on_cuda("no_context_is_created_elsewhere", |subject| {
        if subject.backend.device_count() < 2 {
            println!("skipped: no_context_is_created_elsewhere: needs two devices");
            return Ok(());
        }
        ensure!(!raw::active(1), "another test left a context on device 1");
        run_all(subject, 0, &[])?;
        ensure!(!raw::active(1), "a context was created on device 1");
        ensure!(raw::active(0), "the question cannot tell: device 0 has a context");
        subject.backend.mem_info(1).expect_err("device 1 was not activated");
        ensure!(!raw::active(1), "a context was created on device 1 by a refused call");
        Ok(())
    });
}

#[test]
fn the_current_device_is_that_of_the_context() {
    on_cuda("the_current_device_is_that_of_the_context", |subject| {
        for device in 0..subject.backend.device_count() {
            raw::context_set(raw::primary(device as i32));
            let found = subject.backend.current_device(0).map_err(|e| e.to_string())?;
            raw::context_set(0);
            raw::primary_release(device as i32);
            ensure!(found == device, "current device {found}, context of device {device}");
        }
        Ok(())
    });
}
