//! The `cenote` command: replays traces, converts them, tells what serves this machine.
//!
//! Whatever goes wrong ends in one line on the error output: exit code 2 for a bad command line or
//! input, 1 for a run that failed.

mod abi;
mod convert;
mod failure;
mod info;
mod output;
mod progress;
mod replay;
mod report;
mod trace;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use failure::{Failure, Outcome};
use std::process::ExitCode;

/// One GPU memory manager for every language in a process
#[derive(Parser)]
#[command(name = "cenote", version, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Replay(replay::ReplayArgs),
    Info(info::InfoArgs),
    /// Work on trace files
    #[command(subcommand)]
    Trace(TraceCommand),
}

#[derive(Subcommand)]
enum TraceCommand {
    Convert(convert::ConvertArgs),
}

fn main() -> ExitCode {
    // The last resort: an error of our own is one line too, and the exit code is not Rust's 101.
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("cenote: internal error, please report it: {}", Failure::run(panic));
        std::process::exit(1);
    }));
    match Cli::try_parse().map_err(usage).and_then(|cli| run(&cli)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("cenote: {failure}");
            ExitCode::from(failure.code())
        }
    }
}

fn run(cli: &Cli) -> Outcome<()> {
    match &cli.command {
        Command::Replay(args) => replay::run(args),
        Command::Info(args) => info::run(args),
        Command::Trace(TraceCommand::Convert(args)) => convert::run(args),
    }
}

/// What the parser says, in one line; help and version are no failures and end here.
fn usage(error: clap::Error) -> Failure {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let printed = output::print(&error.to_string());
        std::process::exit(i32::from(printed.is_err()));
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Failure::usage("a command is missing; cenote --help lists them");
    }
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = first.trim_start_matches("error: ").split_whitespace().collect();
    Failure::usage(format_args!("{}; --help tells more", words.join(" ")))
}
