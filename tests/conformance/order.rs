//! Rules about streams, events and work in stream order.

use cenote::base::Status;

use crate::ensure;
use crate::subject::{Must, Outcome, Subject};

/// Longest wait for an event: far more than any of them takes.
const PATIENCE_MS: u64 = 20_000;

pub fn copy_and_fill(subject: &Subject) -> Outcome {
    let (backend, device) = (&subject.backend, subject.device);
    let region = subject.region(2)?;
    let size = region.size as usize;
    backend.fill(device, region.base, 0x11, region.size, 0).must("fill")?;
    backend.fill(device, region.base + 3, 0x77, 1001, 0).must("fill of a part")?;
    backend.fill(device, region.base, 0xFF, 0, 0).must("fill of nothing")?;
    backend.synchronize(device).must("synchronize")?;
    let mut wanted = vec![0x11; size];
    wanted[3..1004].fill(0x77);
    subject.expect(region.base, &wanted, "after fills")?;
    let half = region.size / 2;
    backend.copy(device, region.base + half, region.base, half, 0).must("copy")?;
    backend.copy(device, region.base, region.base, 0, 0).must("copy of nothing")?;
    backend.synchronize(device).must("synchronize")?;
    wanted.copy_within(..size / 2, size / 2);
    subject.expect(region.base, &wanted, "after a copy")?;
    subject.give_back(&region)
}

pub fn events_complete(subject: &Subject) -> Outcome {
    let (backend, device) = (&subject.backend, subject.device);
    let events: Vec<_> = (0..4)
        .map(|_| backend.event_create(device).must("event_create"))
        .collect::<Result<_, _>>()?;
    let fresh = backend.event_query(device, events[0]).must("event_query before a record")?;
    ensure!(fresh, "an event that was never recorded is pending");
    for round in 0..3 {
        for &event in &events {
            backend.event_record(device, event, 0).must("event_record")?;
        }
        for &event in &events {
            backend.event_wait(device, event, 0).must("event_wait without time")?;
            let done = backend.event_wait(device, event, PATIENCE_MS).must("event_wait")?;
            ensure!(done, "an event is pending after {PATIENCE_MS} ms in round {round}");
            let done = backend.event_query(device, event).must("event_query")?;
            ensure!(done, "an event is pending after it was waited for");
        }
    }
    backend.event_record(device, events[0], 0).must("event_record")?;
    backend.synchronize(device).must("synchronize")?;
    let done = backend.event_query(device, events[0]).must("event_query")?;
    ensure!(done, "an event is pending after the device was waited for");
    backend.event_record(device, events[1], 0).must("event_record")?;
    for event in events {
        backend.event_destroy(device, event).must("event_destroy, once while pending")?;
    }
    Ok(())
}

pub fn streams_have_identities(subject: &Subject) -> Outcome {
    let (backend, device) = (&subject.backend, subject.device);
    let legacy = backend.identify(device, 0).must("identify the default stream")?;
    let again = backend.identify(device, 0).must("identify the default stream")?;
    ensure!(legacy == again, "one stream, two identities: {legacy:?} {again:?}");
    ensure!(legacy.device == device, "the device is {}", legacy.device);
    let other = backend.identify(device, 2).must("identify the per-thread stream")?;
    ensure!(legacy.id != other.id, "two streams, one identity");
    ensure!(other.device == device, "the device is {}", other.device);
    Ok(())
}

pub fn no_capture_without_one(subject: &Subject) -> Outcome {
    for stream in [0, 1, 2] {
        let identity = subject.backend.identify(subject.device, stream).must("identify")?;
        let capture = subject.backend.capture(subject.device, stream).must("capture")?;
        ensure!(identity.capture.is_none() && capture.is_none(), "stream {stream} is captured");
    }
    Ok(())
}

unsafe extern "C" fn never(_cookie: *mut std::ffi::c_void) {}

/// What a capability denies is refused with the status for that.
pub fn capabilities_are_honest(subject: &Subject) -> Outcome {
    let (backend, device) = (&subject.backend, subject.device);
    let handle = backend.create(device, subject.page).must("create")?;
    let exported = backend.export_fd(device, handle);
    if subject.caps.export_fd {
        let fd = exported.must("export_fd")?;
        // SAFETY: the descriptor was given to this test.
        ensure!(unsafe { libc::close(fd) } == 0, "export_fd gave {fd}, which is not open");
    } else {
        let error = exported.refused("export_fd")?;
        ensure!(error.status == Status::E_NOT_SUPPORTED, "the status is {:?}", error.status);
    }
    backend.release(device, handle, subject.page).must("release")?;
    if !subject.caps.asynchronous {
        let event = backend.event_create(device).must("event_create")?;
        backend.event_record(device, event, 7).must("event_record")?;
        let done = backend.event_query(device, event).must("event_query")?;
        ensure!(done, "work is synchronous, yet an event is pending");
        backend.event_destroy(device, event).must("event_destroy")?;
        let error = backend
            .graph_retain(device, 0, never, std::ptr::null_mut())
            .refused("graph_retain without graphs")?;
        ensure!(error.status == Status::E_NOT_SUPPORTED, "the status is {:?}", error.status);
    }
    Ok(())
}
