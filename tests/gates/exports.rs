//! The shared library shows exactly the symbols of the ABI table, under its SONAME, and is small.
//!
//! `CENOTE_SO` names the library to look at (the shipped one, in `make test`); without it the one
//! that cargo built for this test run is looked at, whose size says nothing.

use super::{abi, binary, cc, repo};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const SONAME: &str = "libcenote.so.0";
const MOST_BYTES: u64 = 2_000_000;

/// Libraries that every Linux process with a C runtime has.
const MAY_NEED: [&str; 7] =
    ["libc.", "libm.", "libgcc_s.", "libpthread.", "libdl.", "librt.", "ld-linux"];

fn library() -> (PathBuf, bool) {
    match std::env::var_os("CENOTE_SO") {
        Some(path) => (repo::root().join(path), true),
        None => (binary::beside_this_test("libcenote.so"), false),
    }
}

fn wanted() -> Vec<String> {
    abi::current().functions.into_iter().map(|f| f.name).collect()
}

/// Symbols that are missing, and symbols that should not be there.
fn differences(has: &[String], wanted: &[String]) -> Vec<String> {
    let (has, wanted): (BTreeSet<_>, BTreeSet<_>) = (has.iter().collect(), wanted.iter().collect());
    let missing = wanted.difference(&has).map(|name| format!("{name} is not exported"));
    let stray =
        has.difference(&wanted).map(|name| format!("{name} is exported and not in the ABI"));
    missing.chain(stray).collect()
}

fn link_complaints(dynamic: &binary::Dynamic) -> Vec<String> {
    let mut found = Vec::new();
    if dynamic.soname != SONAME {
        found.push(format!("SONAME is {:?}, not {SONAME}", dynamic.soname));
    }
    for name in &dynamic.needed {
        if !MAY_NEED.iter().any(|ok| name.starts_with(ok)) {
            found.push(format!("needs {name}"));
        }
    }
    found
}

fn size_complaint(bytes: u64) -> Option<String> {
    (bytes >= MOST_BYTES).then(|| format!("{bytes} bytes, not below {MOST_BYTES}"))
}

#[test]
fn the_library_exports_exactly_the_abi() {
    let (path, _) = library();
    let has = binary::dynamic_symbols(&path).unwrap();
    repo::no_complaints(&differences(&has, &wanted()));
}

#[test]
fn the_library_has_its_name_and_needs_only_libc() {
    let (path, _) = library();
    repo::no_complaints(&link_complaints(&binary::dynamic(&path).unwrap()));
}

#[test]
fn the_shipped_library_is_small() {
    assert!(size_complaint(MOST_BYTES).is_some() && size_complaint(MOST_BYTES - 1).is_none());
    let (path, is_shipped) = library();
    if !is_shipped {
        println!("skipped: size of the library (CENOTE_SO does not name the shipped one)");
        return;
    }
    let bytes = std::fs::metadata(&path).unwrap_or_else(|e| panic!("{path:?}: {e}")).len();
    println!("{}: {bytes} bytes", path.display());
    assert_eq!(size_complaint(bytes), None);
}

/// A real shared library with faults, made by the C compiler.
fn bad_library(dir: &Path) -> PathBuf {
    let source = dir.join("bad.c");
    let text = "int cenote_version(void);\nint cenote_version(void) { return 0; }\n\
                int stray(void);\nint stray(void) { return 0; }\n";
    std::fs::write(&source, text).unwrap();
    let library = dir.join("libbad.so");
    let args = ["-shared", "-fPIC", "-Wl,-soname,libbad.so.1", "-o"].map(String::from);
    let files = [cc::show(&library), cc::show(&source)];
    cc::compile(cc::C11, &[&args[..], &files[..]].concat()).unwrap();
    library
}

#[test]
fn a_bad_library_is_rejected() {
    let library = bad_library(&repo::scratch("exports_bad"));
    let has = binary::dynamic_symbols(&library).unwrap();
    let found = differences(&has, &wanted());
    assert!(found.contains(&"stray is exported and not in the ABI".into()), "{found:?}");
    assert!(found.contains(&"cenote_alloc is not exported".into()), "{found:?}");
    assert!(!found.iter().any(|f| f.contains("cenote_version")), "{found:?}");
    let mut dynamic = binary::dynamic(&library).unwrap();
    assert_eq!(link_complaints(&dynamic), ["SONAME is \"libbad.so.1\", not libcenote.so.0"]);
    dynamic.needed.push("libcuda.so.1".into());
    assert_eq!(link_complaints(&dynamic).len(), 2);
    assert!(binary::dynamic_symbols(Path::new("no such file")).is_err());
}
