//! Replays a trace on an allocator and measures: the same operations in the same order, pass by
//! pass.
//!
//! Between passes everything is freed and nothing is given back, so that the second pass shows what
//! a program's second step costs. Only the allocator's own calls are timed. What the trace leaves
//! live at its end is freed after it, in the order in which it was allocated.

use super::allocator::{Allocator, DriverCalls, Refused, Stats};
use super::curve::Curve;
use super::timing::{timer_cost_ns, Times};
use super::verify::Verifier;
use crate::trace::{Op, OpKind, Trace};
use std::time::Instant;

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How often the trace is replayed.
    pub passes: u32,
    /// Check that live blocks keep their memory to themselves.
    pub verify: bool,
    /// Record live and held bytes over the first pass.
    pub curve: bool,
}

/// What was measured.
#[derive(Debug)]
pub struct Measured {
    /// Each pass.
    pub passes: Vec<Pass>,
    /// Live and held bytes over the first pass, if asked for.
    pub curve: Curve,
    /// What reading the clock costs; already subtracted.
    pub timer_cost_ns: f64,
    /// Bytes held after everything was freed and given back.
    pub held_after_empty_bytes: u64,
    /// The first operation that was refused, in words.
    pub first_refusal: Option<String>,
}

/// One pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pass {
    /// Most bytes live.
    pub peak_live_bytes: u64,
    /// Most bytes held.
    pub peak_held_bytes: u64,
    /// Median time of an operation.
    pub ns_median: f64,
    /// 99th percentile.
    pub ns_p99: f64,
    /// Driver calls.
    pub driver_calls: DriverCalls,
    /// Time in them.
    pub driver_time_ns: u64,
    /// Allocations that were refused.
    pub failed: u64,
}

/// Blocks below this size may be missing from a pool's own peak, up to this much a thread.
const PEAK_TOLERANCE_BYTES: u64 = 1 << 20;
/// Operations between two calls of the progress function.
const PROGRESS_EVERY: usize = 1_024;

/// Replay a trace. `progress` is told how many operations have passed since it was last called.
pub fn replay<A: Allocator>(
    allocator: &mut A,
    trace: &Trace,
    plan: Plan,
    progress: &mut dyn FnMut(u64),
) -> Result<Measured, String> {
    let timer_cost_ns = timer_cost_ns();
    let mut run = Run {
        allocator,
        trace,
        addresses: vec![None; trace.block_count as usize],
        verifier: None,
        live_bytes: 0,
        failed: 0,
        first_refusal: None,
    };
    let mut curve = Curve::new(if plan.curve { trace.ops.len() } else { 0 });
    let mut passes = Vec::with_capacity(plan.passes as usize);
    for pass in 0..plan.passes {
        run.verifier = plan.verify.then(|| Verifier::new(run.allocator.host_visible()));
        let curve = (pass == 0 && plan.curve).then_some(&mut curve);
        passes.push(run.pass(timer_cost_ns, curve, progress)?);
    }
    let held_after_empty_bytes = run.empty()?;
    let first_refusal = run.first_refusal;
    Ok(Measured { passes, curve, timer_cost_ns, held_after_empty_bytes, first_refusal })
}

struct Run<'a, A> {
    allocator: &'a mut A,
    trace: &'a Trace,
    /// Where each block lies while it is live.
    addresses: Vec<Option<u64>>,
    verifier: Option<Verifier>,
    live_bytes: u64,
    failed: u64,
    first_refusal: Option<String>,
}

impl<A: Allocator> Run<'_, A> {
    fn pass(
        &mut self,
        timer_cost_ns: f64,
        mut curve: Option<&mut Curve>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Pass, String> {
        self.call("reset_peaks", |a| a.reset_peaks())?;
        let before = self.stats()?;
        let (mut peak_live_bytes, failed_before) = (0, self.failed);
        let mut times = Times::with_room(self.trace.ops.len());
        for (index, op) in self.trace.ops.iter().enumerate() {
            self.step(index, op, &mut times)?;
            self.allocator.tick();
            peak_live_bytes = peak_live_bytes.max(self.live_bytes);
            if let Some(curve) = curve.as_deref_mut() {
                if curve.live(index, self.live_bytes) {
                    curve.held(self.stats()?.held_bytes);
                }
            }
            if (index + 1) % PROGRESS_EVERY == 0 {
                progress(PROGRESS_EVERY as u64);
            }
        }
        progress((self.trace.ops.len() % PROGRESS_EVERY) as u64);
        self.free_all()?;
        self.call("wait", |a| a.settle())?;
        let after = self.stats()?;
        self.compare(peak_live_bytes, &after)?;
        let summary = times.summary(timer_cost_ns);
        Ok(Pass {
            peak_live_bytes,
            peak_held_bytes: after.peak_held_bytes,
            ns_median: summary.median_ns,
            ns_p99: summary.p99_ns,
            driver_calls: after.driver_calls - before.driver_calls,
            driver_time_ns: after.driver_time_ns - before.driver_time_ns,
            failed: self.failed - failed_before,
        })
    }

    fn step(&mut self, index: usize, op: &Op, times: &mut Times) -> Result<(), String> {
        let block = op.block as usize;
        match op.kind {
            OpKind::Alloc => {
                let start = Instant::now();
                let done = self.allocator.alloc(op.size_bytes, op.stream);
                times.push(start.elapsed());
                match done {
                    Ok(address) => self.allocated(op, address)?,
                    Err(refused) => self.refused(index, op, refused),
                }
            }
            OpKind::Free => {
                // A block whose allocation was refused has nothing to free.
                let Some(address) = self.addresses[block].take() else { return Ok(()) };
                if let Some(verifier) = &mut self.verifier {
                    verifier.freed(op.block, address, op.size_bytes)?;
                }
                let start = Instant::now();
                let done = self.allocator.free(address, op.stream);
                times.push(start.elapsed());
                done.map_err(|e| self.broken(&format!("free of block {block}"), e))?;
                self.live_bytes -= op.size_bytes;
            }
        }
        Ok(())
    }

    fn allocated(&mut self, op: &Op, address: u64) -> Result<(), String> {
        self.addresses[op.block as usize] = Some(address);
        self.live_bytes += op.size_bytes;
        match &mut self.verifier {
            Some(verifier) => verifier.allocated(op.block, address, op.size_bytes),
            None => Ok(()),
        }
    }

    fn refused(&mut self, index: usize, op: &Op, refused: Refused) {
        self.failed += 1;
        if self.first_refusal.is_none() {
            let why = self.allocator.explain(refused);
            let size_bytes = op.size_bytes;
            self.first_refusal =
                Some(format!("operation {index}, allocation of {size_bytes} bytes: {why}"));
        }
    }

    fn free_all(&mut self) -> Result<(), String> {
        let trace = self.trace;
        for op in trace.ops.iter().filter(|op| op.kind == OpKind::Alloc) {
            let Some(address) = self.addresses[op.block as usize].take() else { continue };
            if let Some(verifier) = &mut self.verifier {
                verifier.freed(op.block, address, op.size_bytes)?;
            }
            self.call("free", |a| a.free(address, op.stream))?;
            self.allocator.tick();
            self.live_bytes -= op.size_bytes;
        }
        Ok(())
    }

    /// The pool's own figures against what the trace says: an allocator that counts wrongly must
    /// not be reported as a good one.
    fn compare(&self, peak_live_bytes: u64, after: &Stats) -> Result<(), String> {
        if after.live_bytes != 0 {
            return Err(format!("{} bytes are live after all was freed", after.live_bytes));
        }
        if after.peak_live_bytes.abs_diff(peak_live_bytes) > PEAK_TOLERANCE_BYTES {
            return Err(format!(
                "the pool counts a peak of {} live bytes, the trace has {peak_live_bytes}",
                after.peak_live_bytes
            ));
        }
        Ok(())
    }

    fn empty(&mut self) -> Result<u64, String> {
        self.call("empty_cache", |a| a.empty_cache())?;
        Ok(self.stats()?.held_bytes)
    }

    fn stats(&mut self) -> Result<Stats, String> {
        self.call("stats", |a| a.stats())
    }

    fn call<T>(
        &mut self,
        what: &str,
        action: impl FnOnce(&mut A) -> Result<T, Refused>,
    ) -> Result<T, String> {
        action(self.allocator).map_err(|refused| self.broken(what, refused))
    }

    fn broken(&self, what: &str, refused: Refused) -> String {
        format!("{what} failed: {}", self.allocator.explain(refused))
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::Model;
    use super::*;
    use crate::trace::Builder;

    const PLAN: Plan = Plan { passes: 2, verify: true, curve: true };
    const MIB: u64 = 1 << 20;

    fn sample() -> Trace {
        let mut b = Builder::new();
        b.alloc(1, 3 * MIB, 0).unwrap();
        b.alloc(2, 4 * MIB, 7).unwrap();
        b.free(1, None).unwrap();
        b.alloc(3, 2 * MIB, 0).unwrap();
        b.alloc(4, 0, 0).unwrap();
        b.free(2, None).unwrap();
        b.finish("t".into())
    }

    fn run(model: &mut Model) -> Result<Measured, String> {
        replay(model, &sample(), PLAN, &mut |_| {})
    }

    #[test]
    fn peaks_calls_and_ticks_are_counted_by_pass() {
        let mut model = Model::default();
        let measured = run(&mut model).unwrap();
        let [first, second] = measured.passes[..] else { panic!("two passes") };
        assert_eq!((first.peak_live_bytes, first.peak_held_bytes), (7 * MIB, 8 * MIB));
        assert_eq!((first.driver_calls.create, second.driver_calls.total()), (4, 0));
        assert_eq!((second.peak_live_bytes, second.peak_held_bytes), (7 * MIB, 8 * MIB));
        assert_eq!(measured.held_after_empty_bytes, 0);
        // Six operations and two frees of what the trace left live, twice.
        assert_eq!(model.ticks, 16);
        let live: Vec<u64> = measured.curve.points.iter().map(|p| p.live_bytes / MIB).collect();
        assert_eq!(live, [3, 7, 4, 6, 6, 2]);
        assert_eq!((first.failed, measured.first_refusal), (0, None));
    }

    #[test]
    fn refused_allocations_are_counted_and_their_frees_left_out() {
        let mut model = Model { limit_bytes: Some(5 * MIB), ..Model::default() };
        let measured = run(&mut model).unwrap();
        assert_eq!(measured.passes[0].failed, 1);
        assert_eq!(measured.passes[0].peak_live_bytes, 3 * MIB);
        let why = measured.first_refusal.unwrap();
        assert!(why.starts_with("operation 1, allocation of 4194304 bytes: the model"), "{why}");
    }

    #[test]
    fn an_allocator_that_lies_is_found_out() {
        let mut model = Model { overlap_at: Some(2), ..Model::default() };
        assert!(run(&mut model).unwrap_err().contains("block 1 at 0x10000000000"));
        let mut model = Model { miscount_bytes: 2 * MIB, ..Model::default() };
        assert!(run(&mut model).unwrap_err().contains("the pool counts a peak"));
        let mut model = Model { keeps_bytes: 4096, ..Model::default() };
        assert_eq!(run(&mut model).unwrap().held_after_empty_bytes, 4096);
    }

    #[test]
    fn progress_adds_up() {
        let mut b = Builder::new();
        (0..3_000).for_each(|i| b.alloc(i, 8, 0).unwrap());
        let (trace, mut seen) = (b.finish("t".into()), 0);
        let plan = Plan { passes: 2, verify: false, curve: false };
        replay(&mut Model::default(), &trace, plan, &mut |n| seen += n).unwrap();
        assert_eq!(seen, 6_000);
    }
}
