//! Identities of real streams, and events on them.

use super::{on_cuda, on_fake};
use crate::ensure;
use crate::fake::Fake;
use crate::raw;
use crate::subject::{Must, Outcome, Subject};

/// CU_STREAM_NON_BLOCKING.
const NON_BLOCKING: u32 = 1;

/// Runs a test with the device's primary context current, as a CUDA program has it.
fn in_primary(test: impl FnOnce() -> Outcome) -> Outcome {
    raw::context_set(raw::primary(0));
    let outcome = test();
    raw::context_set(0);
    raw::primary_release(0);
    outcome
}

fn id(subject: &Subject, stream: usize) -> Outcome<u64> {
    let identity = subject.backend.identify(subject.device, stream as u64).must("identify")?;
    ensure!(identity.device == subject.device, "the device is {}", identity.device);
    Ok(identity.id)
}

#[test]
fn a_handle_is_not_an_identity() {
    on_cuda("a_handle_is_not_an_identity", |subject| {
        in_primary(|| {
            let (first, second) = (raw::stream(NON_BLOCKING), raw::stream(0));
            let (one, two) = (id(subject, first)?, id(subject, second)?);
            ensure!(one != two, "two streams, one id");
            ensure!(one == id(subject, first)?, "one stream, two ids");
            let mut seen = vec![one, two, id(subject, 0)?];
            raw::stream_destroy(first);
            let mut reused = false;
            for _ in 0..8 {
                let again = raw::stream(NON_BLOCKING);
                reused |= again == first;
                let new = id(subject, again)?;
                ensure!(!seen.contains(&new), "the id {new} was used before");
                seen.push(new);
                raw::stream_destroy(again);
            }
            println!("the driver gave the destroyed stream's handle again: {reused}");
            raw::stream_destroy(second);
            Ok(())
        })
    });
}

#[test]
fn a_stream_is_known_without_a_current_context() {
    on_cuda("a_stream_is_known_without_a_current_context", |subject| {
        let mut stream = 0;
        in_primary(|| {
            stream = raw::stream(NON_BLOCKING);
            Ok(())
        })?;
        let without = id(subject, stream)?;
        let event = subject.backend.event_create(0).must("event_create")?;
        subject.backend.event_record(0, event, stream as u64).must("event_record")?;
        subject.backend.event_wait(0, event, 10_000).must("event_wait")?;
        subject.backend.event_destroy(0, event).must("event_destroy")?;
        in_primary(|| {
            let within = id(subject, stream)?;
            raw::stream_destroy(stream);
            ensure!(without == within, "one stream, two ids: {without} {within}");
            Ok(())
        })
    });
}

#[test]
fn default_streams() {
    on_cuda("default_streams", |subject| {
        let here = (id(subject, 0)?, id(subject, 1)?, id(subject, 2)?);
        ensure!(here.0 == here.1, "0 and 1 both name the legacy stream: {here:?}");
        ensure!(here.0 != here.2, "the legacy stream is not the per-thread stream");
        let there = std::thread::scope(|scope| {
            let ids = || -> Outcome<_> { Ok((id(subject, 0)?, id(subject, 2)?)) };
            scope.spawn(ids).join().expect("the thread does not panic")
        })?;
        ensure!(there.0 == here.0, "the legacy stream is one for all threads");
        ensure!(there.1 != here.2, "the per-thread stream is one for each thread");
        Ok(())
    });
}

#[test]
fn streams_of_another_context_of_the_device() {
    on_cuda("streams_of_another_context_of_the_device", |subject| {
        let backend = &subject.backend;
        let mut foreign = 0;
        assert_eq!(raw::context_create(&mut foreign, 0, 0), 0, "cuCtxCreate");
        let stream = raw::stream(NON_BLOCKING);
        let event = backend.event_create(0).must("event_create")?;
        for _ in 0..2 {
            for stream in [stream as u64, 0, 2] {
                backend.event_record(0, event, stream).must("event_record in another context")?;
                let done = backend.event_wait(0, event, 10_000).must("event_wait")?;
                ensure!(done, "an event in another context stays pending");
            }
            let legacy = id(subject, 0)?;
            raw::context_set(0);
            ensure!(legacy != id(subject, 0)?, "each context has its own legacy stream");
            ensure!(id(subject, stream)? == id(subject, stream)?, "one stream, two ids");
            backend.event_record(0, event, 0).must("event_record in the primary context")?;
            backend.event_wait(0, event, 10_000).must("event_wait")?;
            raw::context_set(foreign);
        }
        backend.event_destroy(0, event).must("event_destroy")?;
        raw::stream_destroy(stream);
        assert_eq!(raw::context_destroy(foreign), 0, "cuCtxDestroy");
        raw::context_set(0);
        Ok(())
    });
}

#[test]
fn a_context_event_covers_all_streams() {
    on_fake("a_context_event_covers_all_streams", |subject, fake| {
        in_primary(|| {
            let backend = &subject.backend;
            let stream = raw::stream(NON_BLOCKING);
            let held = fake.hold(stream);
            backend.fill(0, 0, 0, 0, stream as u64).must("a fill of nothing")?;
            let region = subject.region(1)?;
            backend.fill(0, region.base, 1, region.size, stream as u64).must("fill")?;
            raw::stream_destroy(stream);
            let event = backend.event_create(0).must("event_create")?;
            backend.event_record_context(0, event).must("event_record_context")?;
            let early = backend.event_query(0, event).must("event_query")?;
            fake.unhold(held);
            let done = backend.event_wait(0, event, 10_000).must("event_wait")?;
            ensure!(!early && done, "early {early}, done {done}");
            backend.event_destroy(0, event).must("event_destroy")?;
            subject.give_back(&region)
        })
    });
}

#[test]
fn pending_events() {
    on_fake("pending_events", |subject, fake| {
        in_primary(|| {
            let (backend, device) = (&subject.backend, subject.device);
            let (stream, other) = (raw::stream(NON_BLOCKING), raw::stream(NON_BLOCKING));
            let held = fake.hold(stream);
            let (event, later) = (
                backend.event_create(device).must("event_create")?,
                backend.event_create(device).must("event_create")?,
            );
            backend.event_record(device, event, stream as u64).must("event_record")?;
            backend.stream_wait(device, other as u64, event).must("stream_wait")?;
            backend.event_record(device, later, other as u64).must("event_record")?;
            for event in [event, later] {
                let done = backend.event_query(device, event).must("event_query")?;
                ensure!(!done, "an event of held work is complete");
                let done = backend.event_wait(device, event, 3).must("event_wait")?;
                ensure!(!done, "the wait for held work says that it is done");
            }
            fake.unhold(held);
            for event in [event, later] {
                let done = backend.event_wait(device, event, 10_000).must("event_wait")?;
                ensure!(done, "an event is pending for ever");
                backend.event_destroy(device, event).must("event_destroy")?;
            }
            raw::stream_destroy(stream);
            raw::stream_destroy(other);
            Ok(())
        })
    });
}

/// Calls of all functions that an identity may need.
fn asked(fake: &Fake) -> [u64; 5] {
    [
        "cuCtxGetCurrent",
        "cuStreamGetId",
        "cuStreamIsCapturing",
        "cuStreamGetCtx",
        "cuThreadExchangeStreamCaptureMode",
    ]
    .map(|name| fake.count(name))
}

#[test]
fn an_identity_costs_few_questions() {
    on_fake("an_identity_costs_few_questions", |subject, fake| {
        in_primary(|| {
            let stream = raw::stream(NON_BLOCKING);
            for (handle, wanted) in [(stream, [0, 1, 1, 0, 0]), (0, [1, 0, 0, 0, 0])] {
                id(subject, handle)?;
                fake.reset_counts();
                id(subject, handle)?;
                let found = asked(fake);
                ensure!(found == wanted, "stream {handle}: asked {found:?}, not {wanted:?}");
            }
            raw::stream_destroy(stream);
            Ok(())
        })
    });
}
