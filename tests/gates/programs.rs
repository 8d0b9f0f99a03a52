//! C programs: each of tests/c is compiled without a warning, linked, and run on the host backend.
//! A program succeeds with exit code 0 and nothing on stderr, the library's own exit included.

use super::{binary, cc, repo};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles a program against the library of this test run.
fn build(lang: cc::Language, source: &Path, dir: &Path) -> Result<PathBuf, String> {
    let library = binary::beside_this_test("libcenote.so");
    let _ = std::fs::remove_file(dir.join("libcenote.so.0"));
    std::os::unix::fs::symlink(&library, dir.join("libcenote.so.0")).map_err(|e| e.to_string())?;
    let name = source.file_stem().unwrap_or_default().to_string_lossy();
    let program = dir.join(format!("{name}{}", lang.standard));
    let args = [
        lang.standard.to_string(),
        format!("-I{}", cc::show(&repo::root().join("include"))),
        "-o".into(),
        cc::show(&program),
        cc::show(source),
        cc::show(&dir.join("libcenote.so.0")),
        format!("-Wl,-rpath,{}", dir.display()),
    ];
    cc::compile(lang, &args)?;
    Ok(program)
}

fn succeeds(program: &Path) -> Result<(), String> {
    let out = Command::new(program)
        .env("CENOTE_BACKEND", "host")
        .output()
        .map_err(|e| format!("{}: {e}", program.display()))?;
    let said = String::from_utf8_lossy(&out.stderr);
    if out.status.success() && said.is_empty() {
        return Ok(());
    }
    Err(format!("{}: {}\n{said}", program.display(), out.status))
}

#[test]
fn the_c_programs_succeed() {
    let dir = repo::scratch("programs");
    let mut count = 0;
    for source in repo::files().iter().filter(|p| p.starts_with("tests/c")) {
        if source.extension().is_some_and(|e| e == "c") {
            for lang in [cc::C99, cc::C11] {
                let program = build(lang, &repo::root().join(source), &dir).unwrap();
                succeeds(&program).unwrap();
            }
            count += 1;
        }
    }
    assert!(count >= 3, "only {count} programs in tests/c");
}

#[test]
fn a_program_that_fails_or_speaks_is_rejected() {
    let dir = repo::scratch("programs_bad");
    let bad = [
        ("fails", "int main(void) { return 1; }\n"),
        ("speaks", "#include <stdio.h>\nint main(void) { fputs(\"x\", stderr); return 0; }\n"),
    ];
    for (name, text) in bad {
        let source = dir.join(format!("{name}.c"));
        std::fs::write(&source, text).unwrap();
        let program = build(cc::C11, &source, &dir).unwrap();
        assert!(succeeds(&program).is_err(), "{name}");
    }
}
