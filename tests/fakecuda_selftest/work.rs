//! Streams, events, the clock, and work that touches memory.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::code;
use crate::driver::PAGE;
use crate::fake::{in_child, Kernel};

#[test]
fn work_is_done_at_once_by_default() {
    in_child("work::work_is_done_at_once_by_default", &[], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let (stream, addr) = (cu.stream(true), cu.mapped(1));
        assert_eq!(fake.launch(stream, Kernel::instant().writing(addr, PAGE, 5)), code::OK);
        assert_eq!(cu.cuEventQuery(cu.recorded(stream)), code::OK);
        assert_eq!(cu.cuStreamQuery(stream), code::OK);
        fake.launch(stream, Kernel::instant().checking(addr, PAGE, 5));
        assert_eq!(fake.mismatches(), 0);
        fake.launch(stream, Kernel::instant().checking(addr, 100, 6));
        assert_eq!(fake.mismatches(), 200, "at its start and at its end");
        assert_eq!(cu.cuEventQuery(cu.event()), code::OK, "never recorded");
    });
}

#[test]
fn a_kernel_runs_until_it_is_released() {
    in_child("work::a_kernel_runs_until_it_is_released", &[], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let (a, b, addr) = (cu.stream(true), cu.stream(true), cu.mapped(1));
        let before = cu.recorded(a);
        fake.launch(a, Kernel::until_release(1).writing(addr, 8, 1));
        let after = cu.recorded(a);
        assert_eq!(cu.cuEventQuery(before), code::OK);
        assert_eq!(cu.cuEventQuery(after), code::NOT_READY);
        assert_eq!(cu.cuStreamQuery(a), code::NOT_READY);
        assert_eq!(cu.cuStreamQuery(b), code::OK, "streams are independent");
        assert_eq!(cu.cuStreamWaitEvent(b, after, 0), code::OK);
        fake.launch(b, Kernel::instant().writing(addr, 8, 2));
        assert_eq!(cu.cuStreamQuery(b), code::NOT_READY, "behind the event");
        assert_eq!(cu.cuEventDestroy_v2(after), code::OK, "while it is pending");
        fake.release(1);
        assert_eq!((cu.cuStreamQuery(a), cu.cuStreamQuery(b)), (code::OK, code::OK));
        fake.launch(b, Kernel::instant().checking(addr, 8, 2));
        assert_eq!((fake.mismatches(), fake.violations()), (0, 0));
    });
}

#[test]
fn an_event_keeps_the_point_it_was_recorded_at() {
    in_child("work::an_event_keeps_the_point_it_was_recorded_at", &[], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let (a, b) = (cu.stream(true), cu.stream(true));
        fake.launch(a, Kernel::until_release(1));
        let event = cu.recorded(a);
        assert_eq!(cu.cuStreamWaitEvent(b, event, 0), code::OK);
        fake.launch(a, Kernel::until_release(2));
        assert_eq!(cu.cuEventRecord(event, a), code::OK);
        fake.release(1);
        assert_eq!(cu.cuStreamQuery(b), code::OK, "it waits for the first record");
        assert_eq!(cu.cuEventQuery(event), code::NOT_READY, "the event is the second");
        fake.release(2);
        assert_eq!(cu.cuEventQuery(event), code::OK);
    });
}

#[test]
fn destroyed_streams_go_on_and_their_handles_come_back() {
    let name = "work::destroyed_streams_go_on_and_their_handles_come_back";
    in_child(name, &[], |fake| {
        let cu = &fake.cu;
        let context = cu.start(0);
        let (old, addr) = (cu.stream(true), cu.mapped(1));
        let id = cu.stream_id(old);
        fake.launch(old, Kernel::until_release(1).writing(addr, 4, 1));
        let last = cu.recorded(old);
        assert_eq!(cu.cuStreamDestroy_v2(old), code::OK, "returns at once");
        assert_eq!(cu.cuStreamQuery(old), code::INVALID_HANDLE);
        assert_eq!(fake.violations(), 1, "use of a dead stream is noted");
        let new = cu.stream(true);
        assert_eq!(new, old, "the handle comes back");
        assert_ne!(cu.stream_id(new), id, "the id does not");
        assert_eq!(cu.cuStreamQuery(new), code::OK, "while the old kernel still runs");
        let all = cu.event();
        assert_eq!(cu.cuCtxRecordEvent(context, all), code::OK);
        assert_eq!(cu.cuEventQuery(all), code::NOT_READY, "covers destroyed streams");
        assert_eq!(cu.cuEventQuery(last), code::NOT_READY);
        assert_eq!(fake.stats().busy_streams, 1);
        fake.release(1);
        assert_eq!((cu.cuEventQuery(all), cu.cuEventQuery(last)), (code::OK, code::OK));
        assert_eq!(cu.cuStreamDestroy_v2(0), code::INVALID_HANDLE);
        assert_eq!(cu.cuStreamDestroy_v2(2), code::INVALID_HANDLE);
    });
}

#[test]
fn the_legacy_stream_waits_for_blocking_streams_and_they_for_it() {
    let name = "work::the_legacy_stream_waits_for_blocking_streams_and_they_for_it";
    in_child(name, &[], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let (blocking, free) = (cu.stream(false), cu.stream(true));
        fake.launch(free, Kernel::until_release(1));
        fake.launch(0, Kernel::instant());
        assert_eq!(cu.cuStreamQuery(0), code::OK, "a non-blocking stream does not count");
        fake.launch(blocking, Kernel::until_release(2));
        fake.launch(0, Kernel::instant());
        assert_eq!(cu.cuStreamQuery(1), code::NOT_READY, "0 and 1 are one stream");
        let other = cu.stream(false);
        fake.launch(other, Kernel::instant());
        fake.launch(2, Kernel::instant());
        assert_eq!(cu.cuStreamQuery(other), code::NOT_READY, "behind the legacy stream");
        assert_eq!(cu.cuStreamQuery(2), code::NOT_READY, "so is a thread's default stream");
        fake.release(2);
        for stream in [0, 2, other] {
            assert_eq!(cu.cuStreamQuery(stream), code::OK);
        }
        let here = cu.stream_id(2);
        assert_eq!(here, cu.stream_id(2));
        assert_ne!(here, cu.stream_id(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                cu.start(0);
                assert_ne!(cu.stream_id(2), here, "each thread has its own");
            });
        });
    });
}

#[test]
fn handles_are_checked() {
    in_child("work::handles_are_checked", &[("FAKECUDA_DEVICES", "2")], |fake| {
        let cu = &fake.cu;
        cu.start(1);
        let foreign = cu.event();
        let far = cu.stream(true);
        cu.start(0);
        let (stream, event) = (cu.stream(true), cu.event());
        assert_eq!(cu.cuEventRecord(foreign, stream), code::INVALID_HANDLE, "other context");
        assert_eq!(cu.cuEventRecord(event, stream), code::OK);
        assert_eq!(cu.cuStreamWaitEvent(far, event, 0), code::OK, "waits cross devices");
        assert_eq!(cu.cuEventQuery(stream), code::INVALID_HANDLE, "a stream is no event");
        assert_eq!(cu.cuStreamQuery(event), code::INVALID_HANDLE, "an event is no stream");
        assert_eq!(fake.violations(), 0);
        assert_eq!(cu.cuEventDestroy_v2(event), code::OK);
        assert_eq!(cu.cuEventRecord(event, stream), code::INVALID_HANDLE);
        assert_eq!(cu.cuEventDestroy_v2(event), code::INVALID_HANDLE);
        assert_eq!(fake.violations(), 2);
        let mut bad = 0;
        assert_eq!(cu.cuStreamCreate(&mut bad, 2), code::INVALID_VALUE);
        assert_eq!(cu.cuEventCreate(&mut bad, 4), code::INVALID_VALUE, "timing between processes");
    });
}

#[test]
fn the_clock_stands_in_deterministic_mode() {
    let env = [("FAKECUDA_DETERMINISTIC", "1")];
    in_child("work::the_clock_stands_in_deterministic_mode", &env, |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let (a, b) = (cu.stream(true), cu.stream(true));
        fake.launch(a, Kernel::for_us(10_000));
        fake.launch(a, Kernel::for_us(10_000));
        let event = cu.recorded(a);
        assert_eq!(cu.cuStreamWaitEvent(b, event, 0), code::OK);
        fake.launch(b, Kernel::for_us(5_000));
        fake.advance_us(19_999);
        assert_eq!(cu.cuEventQuery(event), code::NOT_READY);
        fake.advance_us(1);
        assert_eq!(cu.cuEventQuery(event), code::OK);
        assert_eq!(cu.cuStreamQuery(b), code::NOT_READY);
        fake.set("query_advance_us", 2_500);
        assert_eq!(cu.cuStreamQuery(b), code::NOT_READY);
        assert_eq!(cu.cuStreamQuery(b), code::NOT_READY);
        assert_eq!(cu.cuStreamQuery(b), code::OK, "queries moved the clock");
        fake.launch(b, Kernel::for_us(3_600_000_000));
        let before = fake.now_us();
        assert_eq!(cu.cuStreamSynchronize(b), code::OK, "a wait jumps the clock");
        assert_eq!(fake.now_us() - before, 3_600_000_000);
    });
}

#[test]
fn kernels_take_real_time_otherwise() {
    in_child("work::kernels_take_real_time_otherwise", &[], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let stream = cu.stream(true);
        let start = std::time::Instant::now();
        fake.launch(stream, Kernel::for_us(20_000));
        fake.launch(stream, Kernel::for_us(20_000));
        assert_eq!(cu.cuStreamQuery(stream), code::NOT_READY);
        assert_eq!(cu.cuCtxSynchronize(), code::OK);
        assert!(start.elapsed().as_millis() >= 40);
        fake.launch(stream, Kernel::for_us(60_000_000));
        fake.advance_us(60_000_000);
        assert_eq!(cu.cuStreamQuery(stream), code::OK, "the clock can be put forward");
    });
}

#[test]
fn completions_can_lag() {
    in_child("work::completions_can_lag", &[("FAKECUDA_LAG_OPS", "3")], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let (a, b) = (cu.stream(true), cu.stream(true));
        let event = cu.recorded(a);
        for _ in 0..3 {
            assert_eq!(cu.cuEventQuery(event), code::NOT_READY);
            fake.launch(b, Kernel::instant());
        }
        assert_eq!(cu.cuEventQuery(event), code::OK, "three pieces of work later");
        assert_eq!(cu.cuStreamQuery(b), code::NOT_READY);
        assert_eq!(cu.cuStreamSynchronize(b), code::OK, "a wait sees everything done");
        let event = cu.recorded(a);
        let polls = (0..200).take_while(|_| cu.cuEventQuery(event) != code::OK).count();
        assert_eq!(polls, 64, "asking again and again is waiting");
    });
}

#[test]
fn held_streams_and_endless_waits() {
    in_child("work::held_streams_and_endless_waits", &[("FAKECUDA_HANG_MS", "50")], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let stream = cu.stream(true);
        let id = fake.hold(stream);
        let event = cu.recorded(stream);
        assert_eq!(cu.cuEventQuery(event), code::NOT_READY);
        assert_eq!(cu.cuEventSynchronize(event), code::LAUNCH_TIMEOUT);
        assert_eq!(fake.violations(), 1);
        fake.set("hang_ms", 10_000);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(20));
                fake.unhold(id);
            });
            assert_eq!(cu.cuEventSynchronize(event), code::OK, "woken by another thread");
        });
    });
}

#[test]
fn unmapping_under_a_kernel_is_noted_and_breaks_the_context() {
    let name = "work::unmapping_under_a_kernel_is_noted_and_breaks_the_context";
    in_child(name, &[], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let (stream, addr) = (cu.stream(true), cu.mapped(2));
        fake.launch(stream, Kernel::until_release(1));
        fake.launch(stream, Kernel::instant().writing(addr, 64, 1));
        assert_eq!(cu.cuMemUnmap(addr + PAGE as u64, PAGE), code::OK, "the other page is free");
        assert_eq!(fake.violations(), 0);
        assert_eq!(cu.cuMemUnmap(addr, PAGE), code::OK, "the driver does not wait");
        assert_eq!(fake.violations(), 1, "{:?}", fake.violation_texts());
        assert_eq!(cu.cuStreamQuery(stream), code::NOT_READY);
        fake.release(1);
        let (mut free, mut total) = (0, 0);
        assert_eq!(cu.cuMemGetInfo_v2(&mut free, &mut total), code::ILLEGAL_ADDRESS);
        assert_eq!(cu.cuStreamSynchronize(stream), code::ILLEGAL_ADDRESS);
        let mut handle = 0;
        let prop = crate::driver::Prop::device(0);
        assert_eq!(cu.cuMemCreate(&mut handle, PAGE, &prop, 0), code::ILLEGAL_ADDRESS);
        assert_eq!(fake.launch(stream, Kernel::instant()), code::ILLEGAL_ADDRESS);
        assert_eq!(cu.cuDevicePrimaryCtxReset_v2(0), code::OK);
        assert_eq!(cu.cuMemGetInfo_v2(&mut free, &mut total), code::OK, "a new context");
    });
}

#[test]
fn a_kernel_cannot_touch_what_is_not_mapped_for_it() {
    let name = "work::a_kernel_cannot_touch_what_is_not_mapped_for_it";
    in_child(name, &[], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let host = 5u64;
        let kernel = Kernel::instant().checking(&raw const host as u64, 8, 5);
        assert_eq!(fake.launch(0, kernel), code::ILLEGAL_ADDRESS);
        assert_eq!(fake.violations(), 1);
    });
}

#[test]
fn an_early_reuse_is_seen_by_the_reader() {
    in_child("work::an_early_reuse_is_seen_by_the_reader", &[], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let (old, new, addr) = (cu.stream(true), cu.stream(true), cu.mapped(1));
        fake.launch(old, Kernel::until_release(1).writing(addr, 256, 1));
        fake.launch(new, Kernel::instant().writing(addr, 256, 2));
        fake.launch(new, Kernel::until_release(2).checking(addr, 256, 2));
        fake.release(1);
        fake.release(2);
        assert_eq!(fake.mismatches(), 256, "the old kernel wrote into the new block");
    });
}

#[test]
fn copies_are_ordered_and_checked() {
    in_child("work::copies_are_ordered_and_checked", &[], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let (stream, addr) = (cu.stream(true), cu.mapped(2));
        let (one, two) = (addr, addr + PAGE as u64 - 2);
        fake.launch(stream, Kernel::until_release(1));
        let mut bytes = vec![7u8; 16];
        let data = bytes.as_ptr().cast::<c_void>();
        assert_eq!(cu.cuMemcpyHtoDAsync_v2(one, data, 16, stream), code::OK);
        bytes.fill(0);
        assert_eq!(cu.cuMemcpyDtoDAsync_v2(two, one, 16, stream), code::OK, "over two pages");
        fake.release(1);
        let out = bytes.as_mut_ptr().cast::<c_void>();
        assert_eq!(cu.cuMemcpyDtoHAsync_v2(out, two, 16, stream), code::OK);
        assert_eq!(bytes, [7; 16], "pageable memory was taken when the copy was queued");
        let bad = code::INVALID_VALUE;
        assert_eq!(cu.cuMemcpyDtoDAsync_v2(two, 0x1000, 16, stream), bad);
        assert_eq!(cu.cuMemcpyDtoDAsync_v2(addr, addr + PAGE as u64, 2 * PAGE, stream), bad);
        let host = bytes.as_ptr() as u64;
        assert_eq!(cu.cuMemcpyHtoDAsync_v2(host, data, 8, stream), bad, "not device memory");
        assert_eq!(cu.cuMemcpyAsync(host, one, 8, stream), code::OK, "any two addresses");
        assert_eq!(cu.cuMemsetD8Async(host, 1, 8, stream), bad);
    });
}

static CALLED: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn call_back(data: *mut c_void) {
    CALLED.fetch_add(data as usize as u32, Ordering::SeqCst);
}

unsafe extern "C" fn call_the_driver(data: *mut c_void) {
    // SAFETY: the test passes the address of `cuCtxSynchronize`.
    let synchronize: extern "C" fn() -> u32 = unsafe { std::mem::transmute(data) };
    CALLED.store(synchronize(), Ordering::SeqCst);
}

#[test]
fn host_functions_run_in_order_and_may_not_call_the_driver() {
    let name = "work::host_functions_run_in_order_and_may_not_call_the_driver";
    in_child(name, &[], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let stream = cu.stream(true);
        fake.launch(stream, Kernel::until_release(1));
        let three = std::ptr::without_provenance_mut(3);
        assert_eq!(cu.cuLaunchHostFunc(stream, Some(call_back), three), code::OK);
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert_eq!(CALLED.load(Ordering::SeqCst), 0);
        fake.release(1);
        assert_eq!(cu.cuStreamSynchronize(stream), code::OK);
        assert_eq!(CALLED.load(Ordering::SeqCst), 3);
        let synchronize = fake.library.symbol("cuCtxSynchronize");
        assert_eq!(cu.cuLaunchHostFunc(stream, Some(call_the_driver), synchronize), code::OK);
        assert_eq!(cu.cuStreamSynchronize(stream), code::OK);
        assert_eq!(CALLED.load(Ordering::SeqCst), code::NOT_PERMITTED);
        assert_eq!(fake.violations(), 1);
        assert_eq!(cu.cuLaunchHostFunc(stream, None, three), code::INVALID_VALUE);
    });
}

#[test]
fn freeing_plain_memory_waits_for_the_context() {
    let env = [("FAKECUDA_DETERMINISTIC", "1")];
    in_child("work::freeing_plain_memory_waits_for_the_context", &env, |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let (stream, mut addr) = (cu.stream(true), 0);
        assert_eq!(cu.cuMemAlloc_v2(&mut addr, 4096), code::OK);
        fake.launch(stream, Kernel::for_us(1000).writing(addr, 4096, 1));
        assert_eq!(cu.cuMemFree_v2(addr), code::OK);
        assert_eq!((cu.cuStreamQuery(stream), fake.violations()), (code::OK, 0));
    });
}
