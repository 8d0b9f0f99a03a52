//! `cenote trace convert`: any trace becomes cenote's own compact one, or plain lines, whole or in
//! part.

use crate::failure::{Failure, Outcome};
use crate::output;
use crate::report::units;
use crate::trace::open::{self, Format};
use crate::trace::thin::Thinning;
use crate::trace::{compact, ops, Trace};
use std::path::PathBuf;

/// What to write.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Target {
    /// cenote's own compact format (.cenotetrace)
    Compact,
    /// Lines "+ ID BYTES" and "- ID", without the streams: for programs of a few lines
    Ops,
}

/// Write a trace as cenote's own compact format (.cenotetrace), or as plain lines
#[derive(clap::Args)]
pub struct ConvertArgs {
    /// Trace to read
    #[arg(value_name = "FILE")]
    input: PathBuf,
    /// File to write; by convention it ends in .cenotetrace
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// Format of the input; by default known from its content
    #[arg(long, value_enum, default_value = "auto", value_name = "FORMAT")]
    from: Format,
    /// What to write
    #[arg(long, value_enum, default_value = "compact", value_name = "FORMAT")]
    to: Target,
    /// Leave out this many operations after the recording's start; what is live then counts as live
    /// before
    #[arg(long, default_value_t = 0, value_name = "N")]
    skip_ops: usize,
    /// Keep at most this many operations, beside what was live before
    #[arg(long, value_name = "N")]
    max_ops: Option<usize>,
    /// Leave out blocks below this many bytes
    #[arg(long, default_value_t = 0, value_name = "BYTES")]
    min_bytes: u64,
    /// Device, where a snapshot holds the history of several; by default the busiest
    #[arg(long, value_name = "N")]
    device: Option<u32>,
}

/// Run the command.
pub fn run(args: &ConvertArgs) -> Outcome<()> {
    let trace = choose(args, open::open(&args.input, args.from)?)?;
    let thinning = Thinning {
        skip_ops: args.skip_ops,
        max_ops: args.max_ops.unwrap_or(usize::MAX),
        min_bytes: args.min_bytes,
    };
    let kept = thinning.apply(&trace).map_err(|e| Failure::file(&args.input, e))?;
    if kept.ops.is_empty() {
        return Err(Failure::file(&args.input, "nothing is left of the trace"));
    }
    let bytes = match args.to {
        Target::Compact => compact::write(&kept),
        Target::Ops => ops::write(&kept).into_bytes(),
    };
    std::fs::write(&args.output, &bytes).map_err(|e| {
        Failure::run(format_args!("{}: cannot be written: {e}", args.output.display()))
    })?;
    output::print(&format!(
        "{}: {} of {} operations, {} live before, peak live {} of {}, {}\n",
        args.output.display(),
        units::count(kept.ops.len() as u64),
        units::count(trace.ops.len() as u64),
        units::count(kept.pre_count as u64),
        units::bytes(kept.peak_live_bytes()),
        units::bytes(trace.peak_live_bytes()),
        units::bytes(bytes.len() as u64),
    ))
}

fn choose(args: &ConvertArgs, mut traces: Vec<Trace>) -> Outcome<Trace> {
    let wanted = args.device.map(|device| format!("(device {device})"));
    let index = match &wanted {
        Some(name) if traces.len() > 1 => traces.iter().position(|t| t.name.ends_with(name)),
        _ => (0..traces.len()).max_by_key(|i| traces[*i].ops.len()),
    };
    index.map(|index| traces.swap_remove(index)).ok_or_else(|| {
        Failure::file(&args.input, format_args!("has no history of {}", wanted.unwrap_or_default()))
    })
}
