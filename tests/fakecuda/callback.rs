//! Callbacks of the program: they run on a thread of the driver, never under its lock.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::abi::HostFn;
use crate::engine::Point;
use crate::state::{self, State};
use crate::thread;

/// A callback.
pub enum Job {
    /// Host function in a stream.
    Host {
        /// The function.
        func: HostFn,
        /// Its argument.
        data: usize,
        /// The work that ends when it returns.
        point: Point,
    },
    /// Destructor of a user object.
    Destructor {
        /// The function.
        func: HostFn,
        /// Its argument.
        data: usize,
    },
}

/// Callbacks that wait, and those that run.
#[derive(Default)]
pub struct Callbacks {
    queue: VecDeque<(Instant, Job)>,
    running: usize,
    started: bool,
    drains: usize,
}

impl Callbacks {
    /// Whether nothing waits and nothing runs.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.running == 0
    }

    fn ready(&self, deterministic: bool) -> Option<usize> {
        let now = Instant::now();
        self.queue.iter().position(|(due, job)| match job {
            Job::Host { .. } => true,
            Job::Destructor { .. } if self.drains > 0 => true,
            Job::Destructor { .. } => !deterministic && *due <= now,
        })
    }

    fn next_due(&self, deterministic: bool) -> Duration {
        let hour = Duration::from_secs(3600);
        if deterministic {
            return hour;
        }
        let now = Instant::now();
        self.queue.iter().map(|(due, _)| due.saturating_duration_since(now)).min().unwrap_or(hour)
    }
}

impl State {
    /// Hand a callback to the driver's thread, which starts with the first.
    pub fn schedule(&mut self, job: Job) {
        let delay = match job {
            Job::Host { .. } => 0,
            Job::Destructor { .. } => self.opts.destructor_delay_us,
        };
        self.callbacks.queue.push_back((Instant::now() + Duration::from_micros(delay), job));
        if !self.callbacks.started {
            self.callbacks.started = true;
            let thread = std::thread::Builder::new().name("fakecuda".to_owned());
            if thread.spawn(serve).is_err() {
                self.violation("the driver's thread could not be started".to_owned());
            }
        }
        state::changed();
    }
}

/// Run all destructors that are due or will be, and wait for them.
pub fn drain() {
    let mut held = state::hold();
    held.callbacks.drains += 1;
    state::changed();
    while !held.callbacks.is_idle() {
        held.sleep(Duration::from_millis(10));
    }
    held.callbacks.drains -= 1;
}

fn serve() {
    thread::with(|thread| thread.in_callback = true);
    let mut held = state::hold();
    loop {
        let deterministic = held.opts.deterministic;
        let Some(index) = held.callbacks.ready(deterministic) else {
            let wait = held.callbacks.next_due(deterministic);
            held.sleep(wait.max(Duration::from_micros(50)));
            continue;
        };
        let Some((_, job)) = held.callbacks.queue.remove(index) else { continue };
        held.callbacks.running += 1;
        drop(held);
        let (func, data) = match &job {
            Job::Host { func, data, .. } | Job::Destructor { func, data } => (*func, *data),
        };
        if let Some(func) = func {
            // SAFETY: the program gave the function and its argument for exactly this call.
            unsafe { func(data as *mut std::ffi::c_void) }
        }
        held = state::hold();
        held.callbacks.running -= 1;
        if let Job::Host { point, .. } = job {
            held.host_returned(point);
        }
        state::changed();
    }
}
