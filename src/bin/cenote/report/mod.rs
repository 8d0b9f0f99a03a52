//! What a replay found, in the forms in which it is shown: a table, JSON, an HTML page.

pub mod html;
pub mod svg;
pub mod table;
pub mod units;

use crate::replay::allocator::DriverCalls;
use crate::replay::curve::Curve;
use crate::replay::engine::{Measured, Pass};
use crate::trace::Trace;
use serde::Serialize;

/// A whole run; its JSON is what `--json` prints.
#[derive(Debug, Serialize)]
pub struct Run {
    /// cenote's version.
    pub version: String,
    /// Backend that served the run.
    pub backend: &'static str,
    /// Device's name.
    pub device: String,
    /// Slack as given, or "auto".
    pub slack: String,
    /// Operations by which completions lag.
    pub lag_ops: u64,
    /// One entry a trace.
    pub files: Vec<File>,
}

/// One trace.
#[derive(Debug, Serialize)]
pub struct File {
    /// File name, with the device where a snapshot holds several.
    pub name: String,
    /// Operations in a pass.
    pub operations: u64,
    /// Blocks allocated in a pass.
    pub blocks: u64,
    /// Streams.
    pub streams: u64,
    /// Most bytes live in the first pass.
    pub peak_live_bytes: u64,
    /// Most bytes held in the first pass.
    pub peak_held_bytes: u64,
    /// Held for each live byte, both at their peaks in the first pass; null if nothing was live.
    pub ratio: Option<f64>,
    /// Median time of an operation, in the second pass where there is one.
    pub ns_per_op_median: f64,
    /// 99th percentile of the same pass.
    pub ns_per_op_p99: f64,
    /// What reading the clock costs; already subtracted.
    pub timer_cost_ns: f64,
    /// Each pass.
    pub passes: Vec<PassReport>,
    /// Allocations refused in all passes.
    pub failed: u64,
    /// The first of them, in words.
    pub first_failure: Option<String>,
    /// Bytes held after everything was freed and given back; 0 in a sound run.
    pub held_after_empty_cache_bytes: u64,
    /// Live and held bytes over the first pass.
    #[serde(skip)]
    pub curve: Curve,
}

/// One pass.
#[derive(Debug, Serialize)]
pub struct PassReport {
    /// Driver calls by kind.
    pub driver_calls: DriverCalls,
    /// All kinds for each allocation.
    pub driver_calls_per_alloc: f64,
    /// Time in them.
    pub driver_time_ns: u64,
    /// Most bytes live.
    pub peak_live_bytes: u64,
    /// Most bytes held.
    pub peak_held_bytes: u64,
    /// Held for each live byte.
    pub ratio: Option<f64>,
    /// Median time of an operation.
    pub ns_per_op_median: f64,
    /// 99th percentile.
    pub ns_per_op_p99: f64,
    /// Allocations refused.
    pub failed: u64,
}

impl File {
    /// The report of a measured trace.
    pub fn new(trace: &Trace, measured: Measured) -> File {
        let blocks = u64::from(trace.block_count);
        let passes: Vec<PassReport> =
            measured.passes.iter().map(|pass| PassReport::new(pass, blocks)).collect();
        let first = measured.passes.first().copied().unwrap_or_default();
        let timed = measured.passes.get(1).copied().unwrap_or(first);
        File {
            name: trace.name.clone(),
            operations: trace.ops.len() as u64,
            blocks,
            streams: trace.streams.len() as u64,
            peak_live_bytes: first.peak_live_bytes,
            peak_held_bytes: first.peak_held_bytes,
            ratio: ratio(&first),
            ns_per_op_median: rounded(timed.ns_median, 10.0),
            ns_per_op_p99: rounded(timed.ns_p99, 10.0),
            timer_cost_ns: rounded(measured.timer_cost_ns, 10.0),
            failed: measured.passes.iter().map(|p| p.failed).sum(),
            first_failure: measured.first_refusal,
            held_after_empty_cache_bytes: measured.held_after_empty_bytes,
            curve: measured.curve,
            passes,
        }
    }
}

impl PassReport {
    fn new(pass: &Pass, blocks: u64) -> PassReport {
        let calls = pass.driver_calls.total() as f64;
        PassReport {
            driver_calls: pass.driver_calls,
            driver_calls_per_alloc: rounded(calls / blocks.max(1) as f64, 1e4),
            driver_time_ns: pass.driver_time_ns,
            peak_live_bytes: pass.peak_live_bytes,
            peak_held_bytes: pass.peak_held_bytes,
            ratio: ratio(pass),
            ns_per_op_median: rounded(pass.ns_median, 10.0),
            ns_per_op_p99: rounded(pass.ns_p99, 10.0),
            failed: pass.failed,
        }
    }
}

fn ratio(pass: &Pass) -> Option<f64> {
    let held_for_each = pass.peak_held_bytes as f64 / pass.peak_live_bytes as f64;
    (pass.peak_live_bytes != 0).then(|| rounded(held_for_each, 1e6))
}

fn rounded(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::replay::curve::Point;

    /// A run with a trace of each kind: ordinary, failed, empty.
    pub fn sample() -> Run {
        let pass = Pass {
            peak_live_bytes: 7_013_335_044,
            peak_held_bytes: 7_034_355_712,
            ns_median: 84.449,
            ns_p99: 310.0,
            driver_calls: DriverCalls {
                create: 3354,
                map: 3354,
                set_access: 3354,
                ..Default::default()
            },
            driver_time_ns: 160_000_000,
            failed: 0,
        };
        let second = Pass { driver_calls: DriverCalls::default(), driver_time_ns: 0, ..pass };
        let mut curve = Curve::new(1_000);
        for i in 0..1_000u64 {
            let live_bytes = 5_000_000_000 + 2_000_000 * (i * 7 % 1_000);
            curve.points.push(Point { op: i as usize + 1, live_bytes, held_bytes: 7_034_355_712 });
        }
        let mut builder = crate::trace::Builder::new();
        builder.alloc(1, 8, 0).unwrap();
        let trace = builder.finish("gpt <medium>.csv".into());
        let file = |passes: &[Pass], curve: Curve| {
            let measured = Measured {
                passes: passes.to_vec(),
                curve,
                timer_cost_ns: 21.0,
                held_after_empty_bytes: 0,
                first_refusal: None,
            };
            File::new(&trace, measured)
        };
        Run {
            version: "0.1.0".into(),
            backend: "host",
            device: "host memory".into(),
            slack: "auto".into(),
            lag_ops: 0,
            files: vec![
                file(&[pass, second], curve),
                file(&[Pass { failed: 3, ..Pass::default() }], Curve::default()),
            ],
        }
    }

    #[test]
    fn the_first_pass_gives_the_ratio_and_the_second_the_time() {
        let json = serde_json::to_value(sample()).unwrap();
        let file = &json["files"][0];
        assert_eq!(file["ratio"], 1.002997);
        assert_eq!(file["ns_per_op_median"], 84.4);
        assert_eq!(file["passes"][0]["driver_calls"]["set_access"], 3354);
        assert_eq!(file["passes"][1]["driver_calls"]["create"], 0);
        assert_eq!(file["failed"], 0);
        assert_eq!(json["files"][1]["failed"], 3);
        assert!(json["files"][1]["ratio"].is_null());
    }
}
