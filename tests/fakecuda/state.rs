//! The whole state behind one lock, and the ways to hold it and to wait.
//!
//! One lock for everything: the fake is about being right, and rules such as "unmapping what queued
//! work still uses" look at memory, streams and contexts at once. It is never held while a callback
//! of the program runs.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use crate::abi::{code, Code, Res};
use crate::callback::Callbacks;
use crate::capture::Captures;
use crate::config::Options;
use crate::context::Contexts;
use crate::engine::Engine;
use crate::memory::Memory;

/// One call, as the log keeps it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct LogEntry {
    /// Number of the call, from 1.
    pub number: u64,
    /// Thread that made it.
    pub thread: u64,
    /// First arguments as integers.
    pub args: [u64; 3],
    /// Number of the function (`fakecuda_function_name`).
    pub function: u32,
    /// Code returned.
    pub code: u32,
    /// Capture mode of the thread.
    pub mode: u32,
    /// Captures under way in the process.
    pub captures: u32,
}

const LOG_ENTRIES: usize = 4096;
const VIOLATION_TEXTS: usize = 256;

/// Everything the fake driver knows.
pub struct State {
    /// Settings.
    pub opts: Options,
    /// `cuInit` succeeded.
    pub ready: bool,
    /// Injected sticky error.
    pub sticky: Code,
    /// Contexts of all devices.
    pub contexts: Contexts,
    /// Memory of all devices and the host.
    pub memory: Memory,
    /// Streams, events and the work in them.
    pub engine: Engine,
    /// Captures, graphs and user objects.
    pub captures: Captures,
    /// Callbacks that wait for their thread.
    pub callbacks: Callbacks,
    /// Number of violations.
    pub violations: u64,
    /// The first violations in words.
    pub violation_texts: Vec<String>,
    /// Wrong bytes that checking kernels found.
    pub mismatches: u64,
    log: VecDeque<LogEntry>,
    logged: u64,
}

static STATE: OnceLock<Mutex<State>> = OnceLock::new();
/// Signalled when work completes or a control function changed something.
static CHANGED: Condvar = Condvar::new();

impl State {
    fn new() -> State {
        let mut opts = Options::from_env();
        let unreadable = std::mem::take(&mut opts.unreadable);
        let mut state = State {
            ready: false,
            sticky: 0,
            contexts: Contexts::new(opts.devices),
            memory: Memory::new(opts.devices, opts.total_bytes),
            engine: Engine::new(),
            captures: Captures::new(),
            callbacks: Callbacks::default(),
            violations: 0,
            violation_texts: Vec::new(),
            mismatches: 0,
            log: VecDeque::with_capacity(LOG_ENTRIES),
            logged: 0,
            opts,
        };
        for text in unreadable {
            state.violation(format!("a setting cannot be read: {text}"));
        }
        state
    }

    /// Note that the program did something that the real driver does not forgive.
    pub fn violation(&mut self, text: String) {
        self.violations += 1;
        if self.violation_texts.len() < VIOLATION_TEXTS {
            self.violation_texts.push(text);
        }
    }

    /// Append a call to the log.
    pub fn log(&mut self, mut entry: LogEntry) {
        self.logged += 1;
        entry.number = self.logged;
        entry.captures = self.captures.active_count() as u32;
        if self.log.len() == LOG_ENTRIES {
            self.log.pop_front();
        }
        self.log.push_back(entry);
    }

    /// The newest entries, oldest first.
    pub fn log_tail(&self, count: usize) -> impl Iterator<Item = &LogEntry> {
        self.log.iter().skip(self.log.len().saturating_sub(count))
    }
}

/// The state, held by the calling thread.
pub struct Held {
    guard: Option<MutexGuard<'static, State>>,
}

/// Take the lock.
pub fn hold() -> Held {
    let mutex = STATE.get_or_init(|| Mutex::new(State::new()));
    Held { guard: Some(mutex.lock().unwrap_or_else(|poison| poison.into_inner())) }
}

/// Wake every waiting thread.
pub fn changed() {
    CHANGED.notify_all();
}

impl Deref for Held {
    type Target = State;
    fn deref(&self) -> &State {
        self.guard.as_ref().expect("the guard is absent only inside `sleep`")
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut State {
        self.guard.as_mut().expect("the guard is absent only inside `sleep`")
    }
}

impl Held {
    /// Give the lock away until something changes or the time is over.
    pub fn sleep(&mut self, limit: Duration) {
        if let Some(guard) = self.guard.take() {
            let woken = CHANGED.wait_timeout(guard, limit);
            self.guard = Some(woken.unwrap_or_else(|poison| poison.into_inner()).0);
        }
    }

    /// A host wait: run the work that can run, jump the virtual clock where it stands, and sleep
    /// until `done`. A wait that would never end is a violation and LAUNCH_TIMEOUT.
    pub fn wait_until(&mut self, done: impl Fn(&State) -> bool) -> Res {
        let start = Instant::now();
        loop {
            self.pump();
            if done(self) {
                return Ok(());
            }
            if self.skip_lag() || (self.opts.deterministic && self.skip_to_deadline()) {
                continue;
            }
            let limit = Duration::from_millis(self.opts.hang_ms);
            if start.elapsed() >= limit {
                self.violation("a host wait would never end: the work is held".to_owned());
                return Err(code::LAUNCH_TIMEOUT);
            }
            let left = limit - start.elapsed();
            let next = self.until_deadline().unwrap_or(left);
            self.sleep(left.min(next).max(Duration::from_micros(20)));
        }
    }
}
