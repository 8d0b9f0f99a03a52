//! What the driver keeps for each thread: the stack of current contexts and the capture mode.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Capture mode GLOBAL, the default of a thread.
pub const MODE_GLOBAL: u32 = 0;
/// Capture mode RELAXED.
pub const MODE_RELAXED: u32 = 2;

static NEXT: AtomicU64 = AtomicU64::new(1);

/// State of one thread.
pub struct Thread {
    /// Number of the thread, never reused.
    pub id: u64,
    /// Stack of contexts; the last is current.
    pub stack: Vec<usize>,
    /// Capture mode of the thread.
    pub mode: u32,
    /// A callback of the driver runs on this thread.
    pub in_callback: bool,
}

thread_local! {
    static THREAD: RefCell<Thread> = RefCell::new(Thread {
        id: NEXT.fetch_add(1, Ordering::Relaxed),
        stack: Vec::new(),
        mode: MODE_GLOBAL,
        in_callback: false,
    });
}

/// Use the calling thread's state. A thread whose state is already gone (it is ending) looks like a
/// new one.
pub fn with<R>(body: impl Fn(&mut Thread) -> R) -> R {
    THREAD.try_with(|cell| body(&mut cell.borrow_mut())).unwrap_or_else(|_| {
        body(&mut Thread { id: 0, stack: Vec::new(), mode: MODE_GLOBAL, in_callback: false })
    })
}

/// The current context, if there is one.
pub fn current() -> Option<usize> {
    with(|thread| thread.stack.last().copied())
}

/// Number of the calling thread.
pub fn id() -> u64 {
    with(|thread| thread.id)
}

/// Capture mode of the calling thread.
pub fn mode() -> u32 {
    with(|thread| thread.mode)
}
