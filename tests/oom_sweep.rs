//! Every driver call of a program fails once, and then for good: each failure is a status, and
//! when all is freed nothing is left in the pool or in the driver.
//!
//! The program grows, takes idle memory over, moves blocks between streams, trims and captures. A
//! first run counts its calls of each function; then it is run again for every one of them.

#[path = "support/api.rs"]
mod api;
#[path = "support/driver.rs"]
mod driver;
#[path = "support/fake.rs"]
mod fake;

use api::*;
use cenote::base::Status;
use fake::{in_child, Fake, Kernel};

/// CUDA_ERROR_OUT_OF_MEMORY.
const OUT_OF_MEMORY: u32 = 2;
/// CUDA_ERROR_LAUNCH_FAILED, which breaks the context.
const LAUNCH_FAILED: u32 = 719;

/// Functions that take something and may be refused.
const TAKING: [&str; 7] = [
    "cuMemCreate",
    "cuMemMap",
    "cuMemSetAccess",
    "cuMemAddressReserve",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventQuery",
];
/// Functions that give something back.
const GIVING: [&str; 2] = ["cuMemUnmap", "cuMemRelease"];

/// What a program met.
#[derive(Default)]
struct Run {
    pool: u64,
    live: Vec<(u64, u64)>,
    refusals: Vec<Status>,
}

impl Run {
    fn alloc(&mut self, size: u64, stream: usize) -> Option<u64> {
        match alloc(self.pool, size, stream as u64) {
            Ok(addr) => {
                self.live.push((addr, stream as u64));
                Some(addr)
            }
            Err(status) => {
                self.refusals.push(status);
                None
            }
        }
    }

    fn note<T>(&mut self, answer: Answer<T>) {
        if let Err(status) = answer {
            self.refusals.push(status);
        }
    }

    /// Free every `nth` block on a stream, on its own where none is given. What a free refuses
    /// stays live.
    fn free(&mut self, nth: usize, other: Option<usize>) {
        let blocks = std::mem::take(&mut self.live);
        for (i, (addr, stream)) in blocks.into_iter().enumerate() {
            if i % nth != 0 {
                self.live.push((addr, stream));
                continue;
            }
            if let Err(status) = free(addr, other.map_or(stream, |s| s as u64)) {
                self.refusals.push(status);
                self.live.push((addr, stream));
            }
        }
    }
}

/// The program, with whatever fails left out.
fn program(fake: &Fake, streams: &[usize; 2]) -> Run {
    let [s1, s2] = *streams;
    let mut run = Run::default();
    match pool_of(|desc| (desc.device, desc.slack_ppm, desc.limit_bytes) = (-1, 1, 96 * MIB)) {
        Ok(pool) => run.pool = pool,
        Err(status) => {
            run.refusals.push(status);
            return run;
        }
    }
    for size in [1000, 70_000, 3 * MIB, 9 * MIB, 5 * MIB] {
        run.alloc(size, s1);
        run.alloc(size + 512, s2);
    }
    run.free(2, None);
    // Other sizes in place of what was freed: handles are taken over.
    for size in [14 * MIB, 6 * MIB, 2000] {
        run.alloc(size, s1);
    }
    run.free(3, Some(s2));
    if let Some(&(addr, _)) = run.live.last() {
        run.note(record(addr, s2 as u64));
        run.note(use_end(addr, s2 as u64));
    }
    run.note(trim(run.pool, 8 * MIB));
    captured(fake, &mut run, s1);
    run.alloc(40 * MIB, s2);
    run.free(1, None);
    run.note(trim(run.pool, 0));
    run.alloc(20 * MIB, s1);
    run
}

/// Allocate in a capture and use the memory; the graph is dropped at once.
fn captured(fake: &Fake, run: &mut Run, stream: usize) {
    if fake.cu.cuStreamBeginCapture_v2(stream, 2) != 0 {
        return;
    }
    let first = run.alloc(4 * MIB, stream);
    if let Some(addr) = first {
        fake.launch(stream, Kernel::instant().writing(addr, 512, 1));
    }
    run.alloc(600, stream);
    let (mut graph, mut exec) = (0, 0);
    let ended = fake.cu.cuStreamEndCapture(stream, &mut graph);
    if ended != 0 {
        return;
    }
    if fake.cu.cuGraphInstantiateWithFlags(&mut exec, graph, 0) == 0 {
        fake.cu.cuGraphLaunch(exec, stream);
        fake.cu.cuGraphExecDestroy(exec);
    }
    fake.cu.cuGraphDestroy(graph);
    fake.drain();
}

/// Nothing is lost: all blocks can be freed, and then nothing is held.
fn nothing_lost(fake: &Fake, mut run: Run, streams: &[usize; 2], what: &str) {
    fake.clear_faults();
    if run.pool == 0 {
        return;
    }
    let live = stats(run.pool).live_blocks;
    assert_eq!(live, run.live.len() as u64, "{what}: blocks");
    let block = alloc(run.pool, 7 * MIB, streams[0] as u64);
    run.live.push((block.unwrap_or_else(|e| panic!("{what}: after it {e:?}")), streams[0] as u64));
    run.free(1, None);
    assert_eq!(run.live, [], "{what}: a free is refused after the fault");
    assert_eq!(fake.cu.cuCtxSynchronize(), 0);
    fake.drain();
    empty_cache(-1).unwrap_or_else(|e| panic!("{what}: empty_cache {e:?}"));
    let s = stats(run.pool);
    let left = (s.held_bytes, s.used_bytes, s.pending_bytes, s.live_blocks);
    assert_eq!(left, (0, 0, 0, 0), "{what}: left in the pool");
    let driver = (fake.used_bytes(0), fake.stats().mappings, fake.stats().handles);
    assert_eq!(driver, (0, 0, 0), "{what}: left in the driver");
    destroy(run.pool).unwrap_or_else(|e| panic!("{what}: destroy {e:?}"));
    assert_eq!(fake.stats().reservations, 0, "{what}: addresses");
    assert_eq!(fake.violation_texts(), [""; 0], "{what}");
}

/// A status that a failing driver may cause.
fn expected(status: Status) -> bool {
    let memory = [Status::E_OUT_OF_MEMORY, Status::E_ADDRESS_SPACE, Status::E_LIMIT];
    memory.contains(&status) || [Status::E_DRIVER, Status::E_HOST_MEMORY].contains(&status)
}

fn start(fake: &Fake) -> [usize; 2] {
    fake.cu.start(0);
    [fake.cu.stream(true), fake.cu.stream(true)]
}

/// Calls of a function that the program makes.
fn calls(fake: &Fake, streams: &[usize; 2], function: &str) -> u64 {
    fake.reset_counts();
    let run = program(fake, streams);
    assert_eq!(run.refusals, [], "the program fails without a fault");
    assert!(stats(run.pool).takeover_count > 0, "the program takes nothing over");
    let calls = fake.count(function);
    nothing_lost(fake, run, streams, "without a fault");
    calls
}

/// Fail every call of a function, one run each: `times` failures from there on.
fn sweep(fake: &Fake, function: &str, times: u64) -> u64 {
    let streams = start(fake);
    let calls = calls(fake, &streams, function);
    for nth in 1..=calls {
        let what = format!("{function} fails {times} times from call {nth}");
        fake.fail_times(function, nth, times, OUT_OF_MEMORY, false);
        let run = program(fake, &streams);
        let strange: Vec<_> = run.refusals.iter().filter(|&&s| !expected(s)).collect();
        assert!(strange.is_empty(), "{what}: {strange:?}");
        nothing_lost(fake, run, &streams, &what);
    }
    calls
}

#[test]
fn a_call_that_fails_once() {
    in_child("a_call_that_fails_once", &[], |fake| {
        for function in TAKING.into_iter().chain(GIVING) {
            let calls = sweep(fake, function, 1);
            println!("{function}: {calls} calls");
            assert!(calls > 0, "the program never calls {function}");
        }
    });
}

#[test]
fn a_call_that_fails_for_good() {
    in_child("a_call_that_fails_for_good", &[], |fake| {
        for function in TAKING {
            sweep(fake, function, u64::MAX);
        }
    });
}

/// The program after a context was lost at some call: statuses, no abort, first error kept.
#[test]
fn a_context_that_is_lost() {
    for function in ["cuMemCreate", "cuMemSetAccess", "cuMemUnmap", "cuEventRecord"] {
        let name = "a_context_that_is_lost";
        for nth in 1..=6u64 {
            let nth_text = nth.to_string();
            let env = [("SWEEP_FUNCTION", function), ("SWEEP_NTH", &nth_text)];
            in_child(name, &env, lost);
            if fake::in_this_child(name) {
                return;
            }
        }
    }
}

fn lost(fake: &Fake) {
    let function = std::env::var("SWEEP_FUNCTION").expect("the parent says which");
    let nth = std::env::var("SWEEP_NTH").expect("the parent says which").parse().unwrap();
    let streams = start(fake);
    // The pool is made before the fault, so that there is something to lose.
    fake.fail_times(&function, nth, 1, LAUNCH_FAILED, true);
    let mut run = program(fake, &streams);
    let strange: Vec<_> = run.refusals.iter().filter(|&&s| s != Status::E_CONTEXT_LOST).collect();
    assert!(strange.is_empty(), "{function} call {nth}: {strange:?}");
    assert!(!run.refusals.is_empty(), "{function} call {nth}: nobody was told");
    assert_eq!(last_error().backend_code as u32, LAUNCH_FAILED);
    run.refusals.clear();
    let live = run.live.len();
    run.free(1, None);
    run.note(trim(run.pool, 0));
    run.note(destroy(run.pool));
    assert_eq!(run.refusals.len(), live + 2, "{function} call {nth}: a call was served");
    assert!(run.refusals.iter().all(|&s| s == Status::E_CONTEXT_LOST));
    shutdown().expect("shutting down needs no device");
}
