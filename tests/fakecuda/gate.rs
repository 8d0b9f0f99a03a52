//! The way into every driver function: life of the process, log, faults, delays, sticky errors and
//! the question whether a context is current.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::abi::{code, Code, Res};
use crate::function::{self, Fun};
use crate::state::{self, Held, LogEntry, State};
use crate::thread;

/// What must be true before a function does anything.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Works before `cuInit`.
    Nothing,
    /// `cuInit` succeeded.
    Init,
    /// A live context is current, and nothing broke it.
    Context,
    /// As `Context` while `vmm_needs_context` is set. Else a context need not be current, as the
    /// real driver has it, but one that is must be sound; sticky errors count.
    Vmm,
    /// The same with `stream_needs_context`; the context of a stream or event must be sound too.
    Stream,
}

/// Set in a forked child: the driver does not survive a fork.
static FORKED: AtomicBool = AtomicBool::new(false);
/// Set when the process exits: the driver tears itself down.
static GONE: AtomicBool = AtomicBool::new(false);
/// Calls made after the fork or the tear-down.
static LATE: AtomicU64 = AtomicU64::new(0);

/// Calls made in a forked child or after the tear-down.
pub fn late_calls() -> u64 {
    LATE.load(Ordering::Relaxed)
}

extern "C" fn after_fork() {
    FORKED.store(true, Ordering::Relaxed);
}

extern "C" fn at_exit() {
    GONE.store(true, Ordering::Relaxed);
    if FORKED.load(Ordering::Relaxed) {
        return;
    }
    let st = state::hold();
    if !st.opts.strict_exit || st.violations == 0 {
        return;
    }
    for text in &st.violation_texts {
        eprintln!("fakecuda: {text}");
    }
    // SAFETY: ends the process at once; a status of its own is the purpose of `strict_exit`.
    unsafe { libc::_exit(86) }
}

/// Prepare for fork, exit and unloading; called once by the first successful `cuInit`.
pub fn register_process_hooks() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.swap(true, Ordering::Relaxed) {
        return;
    }
    // SAFETY: the handlers are functions of this library, which `stay_loaded` keeps in place.
    unsafe {
        libc::pthread_atfork(None, None, Some(after_fork));
        libc::atexit(at_exit);
    }
    function::own_library();
}

fn dead_process() -> Option<Code> {
    let dead = if FORKED.load(Ordering::Relaxed) {
        code::NOT_INITIALIZED
    } else if GONE.load(Ordering::Relaxed) {
        code::DEINITIALIZED
    } else {
        return None;
    };
    LATE.fetch_add(1, Ordering::Relaxed);
    Some(dead)
}

/// Run the body of a driver function behind all gates, and log the call.
pub fn call(fun: Fun, need: Need, args: [u64; 3], body: impl FnOnce(&mut Held) -> Res) -> Code {
    if let Some(dead) = dead_process() {
        return dead;
    }
    let (thread_id, mode, in_callback) = thread::with(|t| (t.id, t.mode, t.in_callback));
    count(fun, mode);
    let mut held = state::hold();
    held = delay(held, fun);
    held.pump();
    let result = if in_callback && need != Need::Nothing {
        held.violation(format!("{} was called inside a callback of the driver", fun.name()));
        Err(code::NOT_PERMITTED)
    } else {
        held.injected(fun).and_then(|()| held.check_need(need)).and_then(|()| body(&mut held))
    };
    let outcome = result.err().unwrap_or(code::SUCCESS);
    if outcome != code::SUCCESS && outcome != code::NOT_READY {
        fun.site().failed.fetch_add(1, Ordering::Relaxed);
    }
    held.log(LogEntry {
        thread: thread_id,
        args,
        function: fun as u32,
        code: outcome,
        mode,
        ..LogEntry::default()
    });
    outcome
}

fn count(fun: Fun, mode: u32) {
    fun.site().calls.fetch_add(1, Ordering::Relaxed);
    if mode == thread::MODE_RELAXED {
        fun.site().relaxed.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sleep outside the lock where a delay is set for the function.
fn delay(held: Held, fun: Fun) -> Held {
    let found = held.opts.delays.iter().find(|(function, _)| *function == fun as usize);
    let Some(&(_, micros)) = found else { return held };
    drop(held);
    std::thread::sleep(Duration::from_micros(micros));
    state::hold()
}

impl State {
    /// The injected failure of this call, if it has one.
    fn injected(&mut self, fun: Fun) -> Res {
        let function = fun as usize;
        let Some(index) = self.opts.faults.iter().position(|f| f.function == function) else {
            return Ok(());
        };
        let fault = &mut self.opts.faults[index];
        if fault.skip > 0 {
            fault.skip -= 1;
            return Ok(());
        }
        let (failing, sticky) = (fault.code, fault.sticky);
        fault.times = fault.times.saturating_sub(1);
        if fault.times == 0 {
            self.opts.faults.remove(index);
        }
        if sticky {
            self.sticky = failing;
        }
        Err(failing)
    }

    fn check_need(&self, need: Need) -> Res {
        let optional = match need {
            Need::Nothing => return Ok(()),
            Need::Init => return self.check_ready(),
            Need::Context => false,
            Need::Vmm => !self.opts.vmm_needs_context,
            Need::Stream => !self.opts.stream_needs_context,
        };
        self.check_ready()?;
        if self.sticky != 0 {
            return Err(self.sticky);
        }
        if optional && thread::current().is_none() {
            return Ok(());
        }
        self.current_context().map(|_| ())
    }

    fn check_ready(&self) -> Res {
        if self.ready {
            return Ok(());
        }
        Err(code::NOT_INITIALIZED)
    }
}
