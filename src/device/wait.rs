//! Waiting on the host without blocking for ever.

use std::time::{Duration, Instant};

use crate::base::Result;

/// Longest pause between two questions.
const MAX_PAUSE: Duration = Duration::from_micros(100);

/// Asks until the answer is yes (true) or the time is over (false); asks once for a time of 0.
pub fn poll(timeout_ms: u64, mut done: impl FnMut() -> Result<bool>) -> Result<bool> {
    let start = Instant::now();
    let timeout = Duration::from_millis(timeout_ms);
    let mut pause = Duration::from_micros(1);
    loop {
        if done()? {
            return Ok(true);
        }
        if start.elapsed() >= timeout {
            return Ok(false);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Error, Status};

    #[test]
    fn no_time_asks_once() {
        let mut asked = 0;
        let answer = poll(0, || {
            asked += 1;
            Ok(false)
        });
        assert_eq!((answer, asked), (Ok(false), 1));
    }

    #[test]
    fn an_answer_or_an_error_ends_the_wait() {
        let mut asked = 0;
        let answer = poll(u64::MAX, || {
            asked += 1;
            Ok(asked == 5)
        });
        assert_eq!((answer, asked), (Ok(true), 5));
        let error = Error::new(Status::E_CONTEXT_LOST, "test");
        assert_eq!(poll(u64::MAX, || Err(error)), Err(error));
    }
}
