//! Injected faults, the log and the settings.

use crate::code;
use crate::driver::{Prop, PAGE};
use crate::fake::{in_child, Fake};

fn create(fake: &Fake) -> u32 {
    fake.cu.cuMemCreate(&mut 0, PAGE, &Prop::device(0), 0)
}

#[test]
fn the_nth_call_fails() {
    in_child("faults::the_nth_call_fails", &[], |fake| {
        fake.cu.start(0);
        fake.fail("cuMemCreate", 2, 2);
        fake.fail_times("cuMemCreate", 1, 2, 999, false);
        let codes: Vec<u32> = (0..6).map(|_| create(fake)).collect();
        assert_eq!(codes, [0, 2, 999, 999, 0, 0], "faults act one after another");
        assert_eq!(fake.count("cuMemCreate"), 6);
        assert_eq!(fake.count_failed("cuMemCreate"), 3);
        assert_eq!(fake.stats().handles, 3, "a failed call has no effect");
        fake.fail("cuMemCreate", 1, 2);
        fake.clear_faults();
        assert_eq!(create(fake), code::OK);
    });
}

#[test]
fn faults_come_from_the_environment() {
    let env = [("FAKECUDA_FAIL", "cuMemCreate:2=2, cuMemCreate:1x2=700!")];
    in_child("faults::faults_come_from_the_environment", &env, |fake| {
        fake.cu.start(0);
        let codes: Vec<u32> = (0..5).map(|_| create(fake)).collect();
        assert_eq!(codes, [0, 2, 700, 700, 700], "the last is sticky");
        assert_eq!(fake.cu.cuStreamCreate(&mut 0, 0), code::ILLEGAL_ADDRESS);
        assert_eq!(fake.cu.cuCtxGetCurrent(&mut 0), code::OK, "needs no context");
        assert_eq!(fake.violations(), 0, "{:?}", fake.violation_texts());
    });
}

#[test]
fn a_misspelt_setting_is_a_violation() {
    let env = [("FAKECUDA_FAIL", "cuMemCreat:1=2"), ("FAKECUDA_DEVICES", "two")];
    in_child("faults::a_misspelt_setting_is_a_violation", &env, |fake| {
        let texts = fake.violation_texts();
        assert_eq!(fake.violations(), 2, "{texts:?}");
        assert!(texts.iter().any(|text| text.contains("cuMemCreat:1=2")));
    });
}

#[test]
fn sticky_errors_stick() {
    in_child("faults::sticky_errors_stick", &[], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let stream = cu.stream(true);
        let addr = cu.mapped(1);
        fake.set_sticky(719);
        assert_eq!(create(fake), 719);
        assert_eq!(cu.cuMemUnmap(addr, PAGE), 719, "frees fail too");
        assert_eq!(cu.cuStreamQuery(stream), 719);
        assert_eq!(cu.cuStreamGetId(stream, &mut 0), 719);
        fake.set_sticky(0);
        assert_eq!(cu.cuMemUnmap(addr, PAGE), code::OK);
    });
}

#[test]
fn calls_can_be_slow() {
    in_child("faults::calls_can_be_slow", &[("FAKECUDA_DELAY", "cuMemCreate=20000")], |fake| {
        fake.cu.start(0);
        let start = std::time::Instant::now();
        assert_eq!(create(fake), code::OK);
        assert!(start.elapsed().as_millis() >= 20);
        fake.delay("cuMemCreate", 0);
        let start = std::time::Instant::now();
        assert_eq!(create(fake), code::OK);
        assert!(start.elapsed().as_millis() < 20);
    });
}

#[test]
fn the_log_tells_what_was_called() {
    in_child("faults::the_log_tells_what_was_called", &[], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let handle = cu.create(PAGE);
        cu.capture_mode(2);
        assert_eq!(cu.cuMemRelease(handle), code::OK);
        cu.capture_mode(0);
        assert_eq!(cu.cuMemRelease(77), code::INVALID_VALUE);
        let log = fake.log(4);
        let names: Vec<&str> = log.iter().map(|(name, _)| name.as_str()).collect();
        let exchange = "cuThreadExchangeStreamCaptureMode";
        assert_eq!(names, [exchange, "cuMemRelease", exchange, "cuMemRelease"]);
        let entries: Vec<_> = log.iter().map(|(_, entry)| *entry).collect();
        assert_eq!((entries[1].args[0], entries[1].mode, entries[1].code), (handle, 2, 0));
        assert_eq!((entries[3].args[0], entries[3].mode, entries[3].code), (77, 0, 1));
        assert_eq!(entries[3].number, entries[0].number + 3);
        assert_eq!(fake.count_relaxed("cuMemRelease"), 1);
        fake.reset_counts();
        assert_eq!(fake.count("cuMemRelease"), 0);
    });
}

#[test]
fn every_function_has_a_symbol() {
    in_child("faults::every_function_has_a_symbol", &[], |fake| {
        let names = fake.function_names();
        assert!(names.len() > 80, "{names:?}");
        for name in names {
            assert!(!fake.library.symbol(&name).is_null(), "{name} is not exported");
            assert_eq!(fake.count(&name), 0);
        }
    });
}

#[test]
fn many_threads_at_once() {
    in_child("faults::many_threads_at_once", &[], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    cu.start(0);
                    let stream = cu.stream(true);
                    for _ in 0..100 {
                        let addr = cu.mapped(2);
                        assert_eq!(cu.cuMemsetD8Async(addr, 1, 4096, stream), code::OK);
                        let event = cu.recorded(stream);
                        assert_eq!(cu.cuEventSynchronize(event), code::OK);
                        assert_eq!(cu.cuEventDestroy_v2(event), code::OK);
                        assert_eq!(cu.cuMemUnmap(addr, 2 * PAGE), code::OK);
                        assert_eq!(cu.cuMemAddressFree(addr, 2 * PAGE), code::OK);
                    }
                    assert_eq!(cu.cuStreamDestroy_v2(stream), code::OK);
                });
            }
        });
        let stats = fake.stats();
        assert_eq!((stats.physical, stats.reservations, stats.events), (0, 0, 0));
        assert_eq!(fake.violations(), 0, "{:?}", fake.violation_texts());
    });
}
