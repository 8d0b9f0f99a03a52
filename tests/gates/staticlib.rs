//! The static library shows only cenote's names, and links beside a second Rust static library.
//!
//! `CENOTE_A` names the shipped archive; without it the one of this test run is put through
//! scripts/staticlib.sh here.

use super::{abi, binary, cc, repo};
use std::path::{Path, PathBuf};
use std::process::Command;

fn shipped(dir: &Path) -> PathBuf {
    if let Some(path) = std::env::var_os("CENOTE_A") {
        return repo::root().join(path);
    }
    let made = dir.join("libcenote.a");
    let script = repo::root().join("scripts/staticlib.sh");
    cc::run(Command::new(script).arg(binary::beside_this_test("libcenote.a")).arg(&made)).unwrap();
    made
}

/// Names that would be global in the program of whoever links the archive.
fn strangers(names: &[String]) -> Vec<String> {
    let strange = names.iter().filter(|name| !name.starts_with("cenote_"));
    strange.map(|name| format!("{name} is global")).collect()
}

#[test]
fn only_names_of_cenote_are_global() {
    let names = binary::archive_symbols(&shipped(&repo::scratch("static_names"))).unwrap();
    repo::no_complaints(&strangers(&names));
    for function in abi::current().functions {
        assert!(names.contains(&function.name), "{} is missing", function.name);
    }
}

fn second(dir: &Path) -> PathBuf {
    let out = dir.join("libsecond.a");
    let source = repo::root().join("tests/staticlib/second.rs");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let mut command = Command::new(rustc);
    command.args(["--edition", "2021", "--crate-type", "staticlib", "-o"]);
    cc::run(command.arg(&out).arg(source)).unwrap();
    out
}

#[test]
fn two_rust_libraries_link_into_one_program() {
    let dir = repo::scratch("static_two");
    let (ours, other) = (shipped(&dir), second(&dir));
    for (name, archives) in [("ours_first", [&ours, &other]), ("ours_last", [&other, &ours])] {
        let program = cc::show(&dir.join(name));
        let include = format!("-I{}", cc::show(&repo::root().join("include")));
        let source = cc::show(&repo::root().join("tests/staticlib/program.c"));
        let mut args = vec!["-std=c11".into(), include, "-o".into(), program.clone(), source];
        args.extend(archives.map(|a| cc::show(a)));
        args.extend(["-lpthread", "-ldl", "-lm"].map(String::from));
        cc::compile(cc::C11, &args).unwrap();
        assert_eq!(cc::run(&mut Command::new(program)).unwrap(), "ok\n", "{name}");
    }
}

#[test]
fn an_archive_as_rustc_makes_it_is_rejected() {
    let names = binary::archive_symbols(&second(&repo::scratch("static_raw"))).unwrap();
    let found = strangers(&names);
    assert!(found.contains(&"second_call is global".into()), "{found:?}");
    assert!(found.iter().any(|f| f.contains("rust_eh_personality")), "{found:?}");
}
