//! Time of single operations, with the timer's own cost taken off.
//!
//! An operation takes tens of nanoseconds and so does reading the clock, so what reading costs is
//! measured in the same run, by reading twice with nothing between, and subtracted.

use std::time::{Duration, Instant};

/// Times of one pass.
pub struct Times {
    nanoseconds: Vec<u32>,
}

/// Middle and tail of a pass's times, the timer's cost subtracted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// Half of the operations took no longer.
    pub median_ns: f64,
    /// 99 of 100 operations took no longer.
    pub p99_ns: f64,
}

impl Times {
    /// Room for a number of operations. It is touched here, so that no page fault is timed later.
    pub fn with_room(count: usize) -> Times {
        let mut nanoseconds = vec![u32::MAX; count];
        nanoseconds.clear();
        Times { nanoseconds }
    }

    /// Note one time; what exceeds four seconds counts as four seconds.
    pub fn push(&mut self, time: Duration) {
        self.nanoseconds.push(u32::try_from(time.as_nanos()).unwrap_or(u32::MAX));
    }

    /// The summary.
    pub fn summary(mut self, timer_cost_ns: f64) -> Summary {
        self.nanoseconds.sort_unstable();
        let at = |share: f64| match self.nanoseconds.len() {
            0 => 0.0,
            count => {
                let index = (share * (count - 1) as f64).round() as usize;
                (f64::from(self.nanoseconds[index]) - timer_cost_ns).max(0.0)
            }
        };
        Summary { median_ns: at(0.5), p99_ns: at(0.99) }
    }
}

/// What reading the clock twice costs: the median of many tries.
pub fn timer_cost_ns() -> f64 {
    const TRIES: usize = 10_001;
    let mut times = Times::with_room(TRIES);
    for _ in 0..TRIES {
        let start = Instant::now();
        times.push(std::hint::black_box(start).elapsed());
    }
    times.summary(0.0).median_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timer_is_subtracted_and_never_below_zero() {
        let mut times = Times::with_room(200);
        (1..=200).for_each(|n| times.push(Duration::from_nanos(n)));
        assert_eq!(times.summary(50.0), Summary { median_ns: 51.0, p99_ns: 148.0 });
        let mut fast = Times::with_room(1);
        fast.push(Duration::from_nanos(3));
        assert_eq!(fast.summary(50.0), Summary::default());
        assert_eq!(Times::with_room(0).summary(1.0), Summary::default());
    }

    #[test]
    fn very_long_times_do_not_wrap() {
        let mut times = Times::with_room(1);
        times.push(Duration::from_secs(3600));
        assert_eq!(times.summary(0.0).median_ns, f64::from(u32::MAX));
    }
}
