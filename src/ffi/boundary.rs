//! The border: panics are caught, errors recorded and re-entry refused in one place.

use super::types::cenote_error;
use crate::base::{Error, Result, Status};
use std::cell::{Cell, RefCell};
use std::ffi::c_char;
use std::panic::{catch_unwind, AssertUnwindSafe};

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static LAST: RefCell<Record> = const { RefCell::new(Record::EMPTY) };
}

/// The last error of a thread: fixed size, written without allocation.
#[derive(Clone, Copy)]
struct Record {
    error: Error,
    message: [u8; 256],
}

impl Record {
    const EMPTY: Record = Record { error: Error::new(Status::OK, ""), message: [0; 256] };
}

/// Writes text into a fixed buffer, cutting at its end; the last byte stays NUL.
struct Fixed<'a> {
    buffer: &'a mut [u8],
    length: usize,
}

impl std::fmt::Write for Fixed<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = self.buffer.len() - 1 - self.length;
        let take = text.len().min(room);
        self.buffer[self.length..self.length + take].copy_from_slice(&text.as_bytes()[..take]);
        self.length += take;
        Ok(())
    }
}

#[cold]
fn record(error: Error) -> i32 {
    // A re-entrant call may find the record borrowed: the outer error is worth more.
    let _ = LAST.try_with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            last.error = error;
            last.message = [0; 256];
            let Record { message, .. } = &mut *last;
            describe(&error, &mut Fixed { buffer: message, length: 0 });
        }
    });
    error.status.0
}

/// One line: what, where, figures and what to do.
fn describe(error: &Error, out: &mut Fixed<'_>) {
    use std::fmt::Write;
    let _ = write!(out, "{}: {} [{}]", error.status.name(), error.status.text(), error.what);
    if error.wanted_bytes != 0 {
        let _ = write!(out, ", wanted {} bytes", error.wanted_bytes);
    }
    if error.available_bytes != 0 {
        let _ = write!(out, ", available or allowed {} bytes", error.available_bytes);
    }
    if error.backend_code != 0 {
        let _ = write!(out, ", driver code {}", error.backend_code);
    }
    let remedy = remedy(error.status);
    if !remedy.is_empty() {
        let _ = write!(out, "; {remedy}");
    }
}

fn remedy(status: Status) -> &'static str {
    match status {
        Status::E_LIMIT => "free memory or raise the limit",
        Status::E_OUT_OF_MEMORY => "free memory, or see what other processes hold",
        Status::E_VALUE => "cenote_option_at and `cenote info` say what each option takes",
        Status::E_OPTION => "see cenote_option_at for the names",
        Status::E_NO_DRIVER => "install the NVIDIA driver or set CENOTE_BACKEND=host",
        Status::E_FORKED => "start the child by exec, or use cenote in the child only",
        Status::E_STRUCT_SIZE => "set struct_size to sizeof the struct",
        Status::E_POOL_BUSY => "free the blocks first",
        Status::E_PINNED => "unpin the block first",
        _ => "",
    }
}

/// Run a call, with panics caught and re-entry refused. The thread's flag is looked up once.
#[inline]
fn enter<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    let mut call = Some(call);
    let mut run = || {
        let call = call.take().ok_or(Error::new(Status::E_INTERNAL, "entered twice"))?;
        catch_unwind(AssertUnwindSafe(call))
            .unwrap_or(Err(Error::new(Status::E_PANIC, "panic caught; please report it")))
    };
    let entered = INSIDE.try_with(|inside| {
        if inside.replace(true) {
            return Err(Error::new(Status::E_REENTRANT, "called from inside cenote"));
        }
        let result = run();
        inside.set(false);
        result
    });
    // A thread that is ending has lost its flag, and with it what could be re-entered.
    entered.unwrap_or_else(|_| run())
}

/// Run a call and give its status.
#[inline]
pub(super) fn guard(call: impl FnOnce() -> Result<()>) -> i32 {
    match enter(call) {
        Ok(()) => 0,
        Err(e) => record(e),
    }
}

/// The same for calls that give a value and no status; `fallback` on failure.
pub(super) fn guard_value<T>(fallback: T, call: impl FnOnce() -> Result<T>) -> T {
    match enter(call) {
        Ok(value) => value,
        Err(e) => {
            record(e);
            fallback
        }
    }
}

/// Copy text into a fixed C array, cut if too long.
pub(super) fn copy_text(text: &str, out: &mut [c_char]) {
    let take = text.len().min(out.len() - 1);
    for (cell, byte) in out.iter_mut().zip(text.bytes().take(take).chain([0])) {
        *cell = byte as c_char;
    }
}

/// The thread's record, into the caller's struct.
pub(super) fn last(out: &mut cenote_error) {
    let record = LAST
        .try_with(|last| last.try_borrow().map(|r| *r).unwrap_or(Record::EMPTY))
        .unwrap_or(Record::EMPTY);
    out.status = record.error.status.0;
    out.backend_code = record.error.backend_code;
    out.reserved = 0;
    out.wanted_bytes = record.error.wanted_bytes;
    out.available_bytes = record.error.available_bytes;
    for (cell, byte) in out.message.iter_mut().zip(record.message) {
        *cell = byte as c_char;
    }
}
