//! What ends a command early: one line for the user and an exit code.

use std::fmt;
use std::path::Path;

/// Exit code of a run that failed: the input was good, the work was not done.
const RUN: u8 = 1;
/// Exit code of a bad command line or a bad input file.
const INPUT: u8 = 2;

/// A one-line message with the exit code it leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    code: u8,
    text: String,
}

/// Result of everything that may end the command.
pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// The run failed.
    pub fn run(text: impl fmt::Display) -> Failure {
        Failure { code: RUN, text: one_line(&text.to_string()) }
    }

    /// The command line is wrong.
    pub fn usage(text: impl fmt::Display) -> Failure {
        Failure { code: INPUT, text: one_line(&text.to_string()) }
    }

    /// A file is wrong as a whole.
    pub fn file(path: &Path, what: impl fmt::Display) -> Failure {
        Failure::usage(format_args!("{}: {what}", path.display()))
    }

    /// A file is wrong at a place: a line number, or a place such as "byte 17".
    pub fn at(path: &Path, place: impl fmt::Display, what: impl fmt::Display) -> Failure {
        Failure::usage(format_args!("{}:{place}: {what}", path.display()))
    }

    /// Exit code for the process.
    pub fn code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Text from a hostile file may hold line breaks and terminal codes, or be endless: what is printed
/// is one line of printable characters of bounded length.
fn one_line(text: &str) -> String {
    const MOST_CHARS: usize = 400;
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut line: String = clean.take(MOST_CHARS).collect();
    if text.chars().count() > MOST_CHARS {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_printable_line() {
        let f = Failure::at(Path::new("a\nb"), 3, "evil\x1b[2J\ntext");
        assert_eq!(f.to_string(), "a b:3: evil [2J text");
        assert_eq!(f.code(), 2);
        assert!(Failure::run("x".repeat(10_000)).to_string().chars().count() <= 401);
    }
}
