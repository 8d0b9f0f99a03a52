//! `cenote replay`: runs traces through the allocator and shows what they cost.

pub mod allocator;
mod capi;
pub mod curve;
pub mod engine;
#[cfg(test)]
mod model;
mod streams;
mod timing;
mod verify;

use crate::failure::{Failure, Outcome};
use crate::progress::Progress;
use crate::report::{self, html, table};
use crate::trace::open::{self, Format};
use crate::trace::Trace;
use crate::{abi, output};
use capi::CApi;
use cenote::ffi::runtime::cenote_version;
use cenote::ffi::types::CENOTE_SLACK_AUTO;
use engine::Plan;
use std::path::PathBuf;

/// Replay recorded allocations through cenote and measure them
///
/// Each trace runs on a pool of its own, through cenote's C ABI. Between passes everything is freed
/// and nothing is given back, so the second pass shows what a program's later steps cost.
#[derive(clap::Args)]
pub struct ReplayArgs {
    /// Traces: PyTorch memory snapshots, event CSVs, Azure tables, RMM logs, .cenotetrace files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Format of the files; by default known from their content
    #[arg(long, value_enum, default_value = "auto", value_name = "FORMAT")]
    from: Format,
    /// Backend; by default cuda where there is a device, else host
    #[arg(long, value_enum)]
    backend: Option<Backend>,
    /// Device to replay on; by default the current one
    #[arg(long, value_name = "N")]
    device: Option<u16>,
    /// Passes over each trace
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = passes())]
    passes: u32,
    /// Share by which held bytes may exceed peak live ones before idle memory is moved instead of
    /// new memory taken: 0.01, 1% or auto; by default the option "slack"
    #[arg(long, value_parser = parse_slack)]
    slack: Option<Slack>,
    /// Let every free complete this many operations late, as on a GPU behind its CPU
    #[arg(long, default_value_t = 0, value_name = "OPERATIONS")]
    lag: u64,
    /// Check that no two live blocks share memory; where the CPU can, by writing and reading them
    #[arg(long)]
    verify: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Write an HTML page with the curves of live and held bytes
    #[arg(long, value_name = "OUT.html")]
    report: Option<PathBuf>,
    /// Show no progress bar
    #[arg(long)]
    no_progress: bool,
}

fn passes() -> impl clap::builder::TypedValueParser<Value = u32> {
    clap::value_parser!(u32).range(1..=1000)
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Backend {
    /// Host memory: runs anywhere
    Host,
    /// NVIDIA's driver
    Cuda,
}

/// Slack as the pool takes it, and as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Slack {
    ppm: u32,
    text: String,
}

fn parse_slack(text: &str) -> Result<Slack, String> {
    if text == "auto" {
        return Ok(Slack { ppm: CENOTE_SLACK_AUTO, text: text.into() });
    }
    let (digits, scale) = match text.strip_suffix('%') {
        Some(percent) => (percent, 1e4),
        None => (text, 1e6),
    };
    let ppm = digits.trim().parse::<f64>().ok().map(|share| (share * scale).round());
    match ppm.filter(|ppm| (0.0..=1e6).contains(ppm)) {
        // 0 would ask the pool for its default: a millionth is as good as none.
        Some(ppm) => Ok(Slack { ppm: (ppm as u32).max(1), text: text.into() }),
        None => Err("slack is a share from 0 to 1 (0.01), a percentage (1%) or auto".into()),
    }
}

/// Run the command.
pub fn run(args: &ReplayArgs) -> Outcome<()> {
    // Everything is read before anything runs: a bad file among many is told at once.
    let mut traces = Vec::new();
    for path in &args.files {
        traces.extend(open::open(path, args.from)?);
    }
    configure(args)?;
    let info = abi::runtime_info()?;
    let device = abi::device_info(args.device.map_or(0, i32::from))?;
    let mut run = report::Run {
        version: abi::text(cenote_version()),
        backend: abi::backend_name(info.backend),
        device: abi::array_text(&device.name),
        slack: effective_slack(args)?,
        lag_ops: args.lag,
        files: Vec::new(),
    };
    let steps = traces.iter().map(|t| t.ops.len() as u64 * u64::from(args.passes)).sum();
    let progress = Progress::new(steps, !args.no_progress && !args.json);
    for trace in &traces {
        progress.name(&trace.name);
        run.files.push(replay(args, trace, &progress)?);
    }
    progress.finish();
    output::print(&if args.json { json(&run)? } else { table::text(&run) })?;
    if let Some(path) = &args.report {
        std::fs::write(path, html::page(&run)).map_err(|e| {
            Failure::run(format_args!("{}: cannot be written: {e}", path.display()))
        })?;
        if !args.json {
            output::print(&format!("\nreport: {}\n", path.display()))?;
        }
    }
    verdict(&run)
}

fn configure(args: &ReplayArgs) -> Outcome<()> {
    match args.backend {
        Some(Backend::Host) => abi::configure("backend", "host")?,
        Some(Backend::Cuda) => abi::configure("backend", "cuda")?,
        None => {}
    }
    // A trace of a large GPU must replay on a small machine: its pages are not touched there. What
    // the user has set stays.
    if abi::option_named("host_memory")?.is_some_and(|option| option.source == 0) {
        abi::configure("host_memory", "1TiB")?;
    }
    if args.lag != 0 {
        abi::configure("lag", &args.lag.to_string())?;
    }
    Ok(())
}

/// The slack in force: what was given, else the option's value.
fn effective_slack(args: &ReplayArgs) -> Outcome<String> {
    match &args.slack {
        Some(slack) => Ok(slack.text.clone()),
        None => {
            Ok(abi::option_named("slack")?.map_or("auto".into(), |o| abi::array_text(&o.value)))
        }
    }
}

fn replay(args: &ReplayArgs, trace: &Trace, progress: &Progress) -> Outcome<report::File> {
    let device = args.device.map_or(-1, i32::from);
    let slack_ppm = args.slack.as_ref().map_or(0, |s| s.ppm);
    let mut pool = CApi::new(device, slack_ppm, args.lag, &trace.streams)?;
    let plan = Plan { passes: args.passes, verify: args.verify, curve: args.report.is_some() };
    let measured = engine::replay(&mut pool, trace, plan, &mut |steps| progress.step(steps))
        .map_err(|what| Failure::run(format_args!("{}: {what}", trace.name)))?;
    Ok(report::File::new(trace, measured))
}

fn json(run: &report::Run) -> Outcome<String> {
    let mut text = serde_json::to_string_pretty(run).map_err(Failure::run)?;
    text.push('\n');
    Ok(text)
}

/// The run failed if any allocation was refused or any byte stayed.
fn verdict(run: &report::Run) -> Outcome<()> {
    for file in &run.files {
        if let Some(first) = &file.first_failure {
            let (name, failed) = (&file.name, file.failed);
            return Err(Failure::run(format_args!(
                "{name}: {failed} allocations were refused, the first: {first}"
            )));
        }
        if file.held_after_empty_cache_bytes != 0 {
            return Err(Failure::run(format_args!(
                "{}: {} bytes are still held after everything was freed and given back",
                file.name, file.held_after_empty_cache_bytes
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slack_is_a_share_or_a_percentage() {
        let ppm = |text: &str| parse_slack(text).map(|s| s.ppm);
        assert_eq!(ppm("0.01"), Ok(10_000));
        assert_eq!(ppm("1%"), Ok(10_000));
        assert_eq!(ppm("0"), Ok(1));
        assert_eq!(ppm("1"), Ok(1_000_000));
        assert_eq!(ppm("auto"), Ok(CENOTE_SLACK_AUTO));
        for bad in ["-0.1", "1.5", "200%", "NaN", "inf", "", "%", "1 GiB"] {
            assert!(parse_slack(bad).is_err(), "{bad}");
        }
    }
}
