//! What a built library shows to a linker, as binutils read it.

use super::cc::run;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A library that cargo has built for this test run: it lies beside the test's own program.
pub fn beside_this_test(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("path of the test");
    own.parent().expect("folder of the test").join(name)
}

/// Names that a shared library defines for others.
pub fn dynamic_symbols(library: &Path) -> Result<Vec<String>, String> {
    let said = run(Command::new("nm").args(["-D", "--defined-only", "-P"]).arg(library))?;
    Ok(sorted(said.lines().filter_map(symbol)))
}

/// Global names that an archive defines.
pub fn archive_symbols(archive: &Path) -> Result<Vec<String>, String> {
    let said = run(Command::new("nm").args(["-g", "--defined-only", "-P"]).arg(archive))?;
    Ok(sorted(said.lines().filter_map(symbol)))
}

/// The name in a line "name type value size"; heads of archive members have no type.
fn symbol(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let name = words.next()?;
    words.next().map(|_| name.split('@').next().unwrap_or(name).to_string())
}

fn sorted(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<_> = names.collect();
    names.sort();
    names.dedup();
    names
}

/// SONAME and the libraries needed, from `readelf -d`.
#[derive(Debug, Default, PartialEq)]
pub struct Dynamic {
    pub soname: String,
    pub needed: Vec<String>,
}

/// The dynamic section of a shared library.
pub fn dynamic(library: &Path) -> Result<Dynamic, String> {
    let said = run(Command::new("readelf").arg("-dW").arg(library))?;
    let mut found = Dynamic::default();
    for line in said.lines() {
        let value = line.split_once('[').and_then(|(_, v)| v.split(']').next());
        match value {
            Some(name) if line.contains("(SONAME)") => found.soname = name.into(),
            Some(name) if line.contains("(NEEDED)") => found.needed.push(name.into()),
            _ => {}
        }
    }
    Ok(found)
}
