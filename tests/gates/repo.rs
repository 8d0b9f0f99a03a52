//! The files of the project, as the gates see them.

use std::path::{Path, PathBuf};

/// Root of the project.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Text of a file of the project; the gate fails with its path if it cannot be read.
pub fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Folders that hold what tools make.
const MADE: [&str; 10] = [
    ".git",
    "target",
    "build",
    "dist",
    ".venv",
    "__pycache__",
    ".pytest_cache",
    "node_modules",
    ".mypy_cache",
    "proptest-regressions",
];

/// Every file of the project, relative to its root, sorted.
pub fn files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(root(), &mut found);
    found.sort();
    found
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && !MADE.contains(&name.as_str()) && !name.ends_with(".egg-info") {
            collect(&entry.path(), found);
        } else if kind.is_file() && name != ".git" {
            found.extend(entry.path().strip_prefix(root()).map(Path::to_path_buf));
        }
    }
}

/// A fresh folder for what one test makes.
pub fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    folder
}

/// Fails the test with every complaint on a line of its own.
pub fn no_complaints(complaints: &[String]) {
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}
