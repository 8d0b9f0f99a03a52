//! The C and C++ compilers, for gates that ask them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Warnings that every C and C++ text of the project must survive.
pub const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];

/// Lines of a failed command that are worth reading; compilers repeat themselves after that.
const SHOWN_LINES: usize = 20;

/// A language standard: compiler variable, default compiler, flag, file suffix.
#[derive(Clone, Copy)]
pub struct Language {
    pub variable: &'static str,
    pub default: &'static str,
    pub standard: &'static str,
    pub suffix: &'static str,
}

pub const C99: Language =
    Language { variable: "CC", default: "cc", standard: "-std=c99", suffix: "c" };
pub const C11: Language = Language { standard: "-std=c11", ..C99 };
pub const CXX17: Language =
    Language { variable: "CXX", default: "c++", standard: "-std=c++17", suffix: "cpp" };

/// Writes a source and compiles it to an object. Err is what the compiler said.
pub fn object(lang: Language, dir: &Path, name: &str, text: &str) -> Result<PathBuf, String> {
    let source = dir.join(format!("{name}.{}", lang.suffix));
    std::fs::write(&source, text).map_err(|e| e.to_string())?;
    let out = dir.join(format!("{name}.o"));
    let include = format!("-I{}", super::repo::root().join("include").display());
    let args = [lang.standard.into(), "-c".into(), include, "-o".into(), show(&out), show(&source)];
    compile(lang, &args)?;
    Ok(out)
}

/// Runs the compiler with the strict warnings and further arguments.
pub fn compile(lang: Language, args: &[String]) -> Result<(), String> {
    let compiler = std::env::var(lang.variable).unwrap_or_else(|_| lang.default.into());
    run(Command::new(&compiler).args(STRICT).args(args)).map(|_| ())
}

/// Runs a command and gives its output; Err is what it said when it failed.
pub fn run(command: &mut Command) -> Result<String, String> {
    let shown = format!("{command:?}");
    let out = command.output().map_err(|e| format!("{shown}: {e}"))?;
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    if out.status.success() {
        return Ok(said);
    }
    let complaint = String::from_utf8_lossy(&out.stderr);
    let lines: Vec<_> = said.lines().chain(complaint.lines()).take(SHOWN_LINES).collect();
    Err(format!("{shown}: {}\n{}", out.status, lines.join("\n")))
}

/// A path as an argument.
pub fn show(path: &Path) -> String {
    path.display().to_string()
}
