//! Standard output.

use crate::failure::{Failure, Outcome};
use std::io::{ErrorKind, Write};

/// Print a text. A reader that has seen enough, as `head` has, is no failure.
pub fn print(text: &str) -> Outcome<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::run(format_args!("standard output: {e}")))
        }
        _ => Ok(()),
    }
}
