//! House rules that a machine can check, over every file of the project.

mod dead;
mod layers;
mod shape;
mod tokens;
mod words;

use super::repo;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

/// Texts with a limit on their length and width.
const SOURCES: [&str; 10] = ["rs", "c", "h", "cpp", "hpp", "py", "go", "sh", "cu", "cmake"];

/// Most bytes of the data that travels with the project, all files together.
const DATA_BYTES: u64 = 2 << 20;

/// Rust that is built by no cargo target: a second static library, by the gate in staticlib.rs.
const BUILT_BY_HAND: &str = "tests/staticlib/second.rs";

/// Every file that is text, with its path.
fn texts() -> Vec<(String, String)> {
    let read = |path: &std::path::PathBuf| {
        let text = std::fs::read(repo::root().join(path)).ok()?;
        Some((path.to_string_lossy().into_owned(), String::from_utf8(text).ok()?))
    };
    repo::files().iter().filter_map(read).collect()
}

fn extension(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(_, e)| e)
}

/// True for a file that says at its head that a tool has made it.
fn is_generated(text: &str) -> bool {
    text.lines().take(4).any(|line| line.to_lowercase().contains("generated"))
}

fn rust_sources() -> BTreeMap<String, String> {
    let is_rust = |path: &str| extension(path) == "rs" && path != BUILT_BY_HAND;
    texts().into_iter().filter(|(path, _)| is_rust(path)).collect()
}

#[test]
fn layers_use_only_what_is_below_them() {
    let table = layers::table(&repo::read("ARCHITECTURE.md"));
    assert!(table.len() >= 8, "ARCHITECTURE.md has no layer table under \"## Layers\"");
    let sources = rust_sources();
    let sources = sources.iter().filter(|(path, _)| path.starts_with("src/"));
    let found: Vec<_> =
        sources.flat_map(|(path, text)| layers::complaints(path, text, &table)).collect();
    repo::no_complaints(&found);
}

#[test]
fn sources_keep_their_size() {
    let sources = texts().into_iter().filter(|(p, t)| {
        (SOURCES.contains(&extension(p)) || p.ends_with("Makefile")) && !is_generated(t)
    });
    let found: Vec<_> = sources.flat_map(|(path, text)| shape::size(&path, &text)).collect();
    repo::no_complaints(&found);
}

#[test]
fn rust_keeps_its_shape() {
    let found: Vec<_> =
        rust_sources().iter().flat_map(|(path, text)| shape::rust(path, text)).collect();
    repo::no_complaints(&found);
}

#[test]
fn no_banned_words() {
    let found: Vec<_> = texts().iter().flat_map(|(path, text)| words::banned(path, text)).collect();
    repo::no_complaints(&found);
}

#[test]
fn documents_have_one_title() {
    let documents = texts().into_iter().filter(|(path, _)| {
        extension(path) == "md" && path != "src/ffi/conventions.md" // a chapter of the header
    });
    let found: Vec<_> = documents.flat_map(|(path, text)| words::titles(&path, &text)).collect();
    repo::no_complaints(&found);
}

#[test]
fn scripts_can_run() {
    let scripts = texts().into_iter().filter(|(p, _)| extension(p) == "sh" || p == ".ci/run");
    let found: Vec<_> = scripts
        .flat_map(|(path, text)| {
            let meta = std::fs::metadata(repo::root().join(&path)).expect("metadata");
            words::script(&path, &text, meta.permissions().mode())
        })
        .collect();
    repo::no_complaints(&found);
}

#[test]
fn every_rust_file_is_imported() {
    let files = rust_sources();
    let roots = dead::roots(&repo::read("Cargo.toml"), files.keys());
    repo::no_complaints(&dead::unreached(&files, &roots));
}

/// Data files that together are too large.
fn oversized(sizes: &[(String, u64)]) -> Vec<String> {
    let total: u64 = sizes.iter().map(|(_, bytes)| bytes).sum();
    let complaint = format!("tests/data has {total} bytes, more than {DATA_BYTES}");
    if total > DATA_BYTES {
        vec![complaint]
    } else {
        Vec::new()
    }
}

#[test]
fn shipped_data_stays_small() {
    let data = repo::files().into_iter().filter(|p| p.starts_with("tests/data"));
    let size = |path: std::path::PathBuf| {
        let bytes = std::fs::metadata(repo::root().join(&path)).map_or(0, |m| m.len());
        (path.display().to_string(), bytes)
    };
    repo::no_complaints(&oversized(&data.map(size).collect::<Vec<_>>()));
    assert_eq!(oversized(&[("a".into(), DATA_BYTES), ("b".into(), 1)]).len(), 1);
}

#[test]
fn only_generated_files_are_exempt() {
    assert!(is_generated("/*\n * x.h: generated from y, do not edit\n"));
    assert!(!is_generated("//! Code.\n\n\n\n// generated\n"));
}
