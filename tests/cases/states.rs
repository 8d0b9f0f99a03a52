//! States in which the library cannot work: no driver, a bad setting, after shutdown, after a fork,
//! from inside itself. Each test has a process of its own.

use crate::api::*;
use crate::fake::{self, Kernel};
use crate::on_fake;
use cenote::base::Status;
use cenote::ffi::runtime::cenote_mapping_observe;
use cenote::ffi::types::*;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

/// A test in a process of its own on the host backend.
macro_rules! alone {
    ($name:ident, $env:expr, $body:expr) => {
        #[test]
        fn $name() {
            in_own_process(&test_name(module_path!(), stringify!($name)), $env, $body);
        }
    };
}

/// The first call of a process that cannot start: the status and the driver's code, twice alike.
fn first_call() -> (Status, i32) {
    let status = alloc(DEFAULT, 512, 0).expect_err("nothing can serve this");
    let code = last_error().backend_code;
    assert_eq!(alloc(DEFAULT, 512, 0), Err(status), "the second answer is another one");
    assert_eq!(free(0x1000, 0), Err(status));
    assert_eq!(default_pool(0), Err(status));
    (status, code)
}

alone!(texts_of_options, &[], || {
    for text in ["8", "0.15", "8 GB?", "8 GB", "", "-1GiB", "1e9", "120%", "99999999999TiB"] {
        let wanted = if text.is_empty() { Ok(()) } else { Err(Status::E_VALUE) };
        assert_eq!(configure("limit", text), wanted, "limit {text:?}");
    }
    for (name, text) in [
        ("slack", "much"),
        ("decay", "10"),
        ("device", "-1"),
        ("backend", "CUDA"),
        ("host_devices", "0"),
        ("lag", "-1"),
    ] {
        assert_eq!(configure(name, text), Err(Status::E_VALUE), "{name} {text:?}");
    }
    assert_eq!(configure("no_such", "1"), Err(Status::E_OPTION));
    configure("limit", "32MiB").unwrap();
    let block = alloc(DEFAULT, 32 * MIB, 0).unwrap();
    assert_eq!(alloc(DEFAULT, 1, 0), Err(Status::E_LIMIT));
    assert_eq!(last_error().available_bytes, 32 * MIB);
    free(block, 0).unwrap();
    assert_eq!(configure("limit", "8GiB"), Err(Status::E_CONFIGURED));
});

alone!(a_bad_limit_in_the_environment, &[("CENOTE_LIMIT", "8 GB?")], || {
    assert_eq!(first_call(), (Status::E_VALUE, 0));
});

alone!(a_bad_backend_in_the_environment, &[("CENOTE_BACKEND", "gpu")], || {
    assert_eq!(first_call(), (Status::E_VALUE, 0));
});

alone!(no_driver, &[("CENOTE_BACKEND", "cuda"), ("LD_LIBRARY_PATH", "")], || {
    match alloc(DEFAULT, 512, 0) {
        Err(Status::E_NO_DRIVER) => assert_eq!(first_call(), (Status::E_NO_DRIVER, 0)),
        other => println!("skipped: no_driver: the system has one ({other:?})"),
    }
});

/// A test with a changed driver: the first call's answer.
fn with_driver(name: &str, folder: Result<std::path::PathBuf, String>, env: &[(&str, &str)]) {
    let name = test_name(module_path!(), name);
    match folder {
        Ok(folder) => fake::run_child(&name, &folder, env),
        Err(why) => println!("skipped {name}: {why}"),
    }
}

#[test]
fn a_driver_without_a_symbol() {
    if fake::in_this_child(&test_name(module_path!(), "a_driver_without_a_symbol")) {
        assert_eq!(first_call().0, Status::E_DRIVER_SYMBOL);
        return;
    }
    let folder = fake::folder_without("cuMemGetInfo_v2");
    with_driver("a_driver_without_a_symbol", folder, &[("CENOTE_BACKEND", "cuda")]);
}

on_fake!(a_driver_that_fails_at_init, &[("FAKECUDA_INIT", "999")], |_| {
    assert_eq!(first_call(), (Status::E_DRIVER_INIT, 999), "never a silent fallback");
});

on_fake!(
    a_driver_without_a_device,
    &[("FAKECUDA_DEVICES", "0"), ("CENOTE_BACKEND", "cuda")],
    |_| assert_eq!(first_call().0, Status::E_NO_DEVICE)
);

/// Every call after the end answers with the same status and changes nothing.
fn all_refuse(pool: u64, block: u64, wanted: Status) {
    let (code, wanted) = (wanted.0, Err(wanted));
    assert_eq!(alloc(DEFAULT, 512, 0).map(|_| ()), wanted);
    assert_eq!(alloc(pool, 0, 0).map(|_| ()), wanted);
    assert_eq!(free(block, 0), wanted);
    assert_eq!(free(0, 0), Ok(()), "NULL is always fine");
    assert_eq!(free(1, 0), wanted);
    assert_eq!(pin(block, true), wanted);
    assert_eq!(record(block, 0), wanted);
    assert_eq!(info(block).map(|_| ()), wanted);
    assert_eq!(pool_of(|_| ()).map(|_| ()), wanted);
    assert_eq!(destroy(pool), wanted);
    assert_eq!(trim(pool, 0).map(|_| ()), wanted);
    assert_eq!(empty_cache(-1).map(|_| ()), wanted);
    assert_eq!(poll(), wanted);
    assert_eq!(configure("limit", "1GiB"), wanted);
    assert_eq!(register(0, 0, 0).map(|_| ()), wanted);
    assert_eq!(shutdown(), wanted);
    assert_eq!(last_error().status, code);
}

alone!(use_after_shutdown_on_the_host, &[], || {
    let block = alloc(DEFAULT, 512, 0).unwrap();
    let pool = pool_limited(0);
    shutdown().unwrap();
    all_refuse(pool, block, Status::E_SHUTDOWN);
});

on_fake!(use_after_shutdown, &[], |fake| {
    fake.cu.start(0);
    let pool = pool_limited(0);
    let block = alloc(pool, 5 * MIB, 0).unwrap();
    alloc(DEFAULT, 512, 0).unwrap();
    assert_eq!(fake.launch(0, Kernel::for_us(5000).writing(block, 512, 1)), 0);
    shutdown().unwrap();
    let (stats, used) = (fake.stats(), fake.used_bytes(0));
    assert_eq!((used, stats.mappings, stats.handles, stats.reservations), (0, 0, 0, 0));
    assert_eq!(stats.events, 0);
    fake.reset_counts();
    all_refuse(pool, block, Status::E_SHUTDOWN);
    let asked: u64 = fake.function_names().iter().map(|name| fake.count(name)).sum();
    assert_eq!(asked, 0, "a refused call asked the driver");
});

/// Run in a forked child; its exit code is 0 if nothing panicked.
fn in_fork(child: impl FnOnce()) {
    // SAFETY: the child runs the closure and ends without returning into the test.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork failed");
    if pid == 0 {
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
        // SAFETY: ends the child at once, running the exit handlers as a program's end would.
        unsafe { libc::exit(i32::from(ran.is_err())) };
    }
    let mut status = 0;
    // SAFETY: the process is a child of this one, and `status` is writable.
    let waited = unsafe { libc::waitpid(pid, &mut status, 0) };
    assert_eq!((waited, status), (pid, 0), "the child failed");
}

/// The parent's pools work on as if nothing had been forked.
fn unharmed(pool: u64, block: u64) {
    let before = stats(pool);
    assert_eq!(before.live_blocks, 1);
    free(block, 0).unwrap();
    let again = alloc(pool, 5 * MIB, 0).unwrap();
    free(again, 0).unwrap();
    destroy(pool).unwrap();
}

alone!(use_after_fork_on_the_host, &[], || {
    let pool = pool_limited(0);
    let block = alloc(pool, 5 * MIB, 0).unwrap();
    in_fork(|| all_refuse(pool, block, Status::E_FORKED));
    unharmed(pool, block);
});

on_fake!(use_after_fork, &[], |fake| {
    fake.cu.start(0);
    let pool = pool_limited(0);
    let block = alloc(pool, 5 * MIB, 0).unwrap();
    in_fork(|| all_refuse(pool, block, Status::E_FORKED));
    unharmed(pool, block);
});

alone!(a_fork_before_the_first_use_is_none_of_ours, &[], || {
    in_fork(|| {
        let block = alloc(DEFAULT, 512, 0).unwrap();
        free(block, 0).unwrap();
    });
    let block = alloc(DEFAULT, 512, 0).unwrap();
    free(block, 0).unwrap();
});

/// What the observer below found: calls, and those of them that were not refused.
static CALLS: AtomicU32 = AtomicU32::new(0);
static ACCEPTED: AtomicU32 = AtomicU32::new(0);
static POOL: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" fn calls_back(event: *const cenote_mapping_event, user: *mut c_void) {
    // SAFETY: the library gives an event that lives for the call.
    let event = unsafe { *event };
    assert!(event.size_bytes > 0 && user as u64 == 0x77);
    let pool = POOL.load(SeqCst);
    CALLS.fetch_add(1, SeqCst);
    let answers = [
        alloc(pool, 512, 0).map(|_| ()),
        alloc(DEFAULT, 5 * MIB, 0).map(|_| ()),
        free(event.base, 0),
        trim(pool, 0).map(|_| ()),
        poll(),
        shutdown(),
    ];
    let accepted = answers.iter().filter(|&&a| a != Err(Status::E_REENTRANT)).count();
    ACCEPTED.fetch_add(accepted as u32, SeqCst);
}

/// Another thread may use the pool while an observer runs: no lock is held.
unsafe extern "C" fn waits_for_another_thread(_: *const cenote_mapping_event, _: *mut c_void) {
    if CALLS.fetch_add(1, SeqCst) > 0 {
        return;
    }
    let (done, finished) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let pool = POOL.load(SeqCst);
        let block = alloc(pool, 512, 0).unwrap();
        stats(pool);
        free(block, 0).unwrap();
        done.send(()).unwrap();
    });
    let waited = finished.recv_timeout(std::time::Duration::from_secs(20));
    ACCEPTED.fetch_add(u32::from(waited.is_ok()), SeqCst);
}

alone!(calls_from_an_observer, &[], || {
    let pool = pool_limited(0);
    POOL.store(pool, SeqCst);
    // SAFETY: the function and the value may be used from any thread.
    let observe = |f| unsafe { cenote_mapping_observe(f, 0x77 as *mut c_void) };
    assert_eq!(observe(Some(calls_back)), 0);
    let block = alloc(pool, 20 * MIB, 0).expect("the outer call is served");
    let mapped = CALLS.load(SeqCst);
    free(block, 0).unwrap();
    trim(pool, 0).unwrap();
    assert!(mapped > 0 && CALLS.load(SeqCst) == 2 * mapped, "each mapping is told twice");
    assert_eq!(ACCEPTED.load(SeqCst), 0, "a call from inside was served");
    CALLS.store(0, SeqCst);
    assert_eq!(observe(Some(waits_for_another_thread)), 0);
    let block = alloc(pool, 20 * MIB, 0).unwrap();
    assert_eq!(ACCEPTED.load(SeqCst), 1, "the other thread could not use the pool");
    assert_eq!(observe(None), 0);
    free(block, 0).unwrap();
    destroy(pool).unwrap();
});
