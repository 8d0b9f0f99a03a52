//! A progress bar on a terminal's error output; nothing anywhere else.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;

/// Progress of a whole command.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar over a number of steps, if it is wanted and someone can see it.
    pub fn new(steps: u64, wanted: bool) -> Progress {
        if !wanted || !std::io::stderr().is_terminal() {
            return Progress { bar: ProgressBar::hidden() };
        }
        let bar = ProgressBar::new(steps);
        let template = "{bar:30} {percent:>3} %  {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Progress { bar }
    }

    /// What is worked on now.
    pub fn name(&self, name: &str) {
        self.bar.set_message(name.to_string());
    }

    /// Steps done since the last call.
    pub fn step(&self, steps: u64) {
        self.bar.inc(steps);
    }

    /// All is done: the bar makes room for the result.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
