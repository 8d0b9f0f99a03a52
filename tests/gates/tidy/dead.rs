//! Rust files that nothing imports.

use super::tokens::{is_name, tokens};
use std::collections::{BTreeMap, BTreeSet};

/// Files that no root reaches through `mod` and `#[path]`. `files` has the text of every Rust file.
pub fn unreached(files: &BTreeMap<String, String>, roots: &BTreeSet<String>) -> Vec<String> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<String> = roots.iter().filter(|r| files.contains_key(*r)).cloned().collect();
    while let Some(path) = open.pop() {
        if reached.insert(path.clone()) {
            let is_root = roots.contains(&path);
            let named = modules(&path, &files[&path], is_root);
            open.extend(named.into_iter().filter(|p| files.contains_key(p)));
        }
    }
    let dead = files.keys().filter(|path| !reached.contains(*path));
    dead.map(|path| format!("{path}: imported by nothing")).collect()
}

/// Paths at which the modules that a file names may be.
fn modules(path: &str, text: &str, is_root: bool) -> Vec<String> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let inside = match name {
        "mod.rs" => folder.to_string(),
        _ if is_root => folder.to_string(),
        _ => format!("{folder}/{}", name.trim_end_matches(".rs")),
    };
    let tokens = tokens(text).unwrap_or_default();
    let mut found = Vec::new();
    for at in 0..tokens.len().saturating_sub(2) {
        let word = tokens[at].text.as_str();
        if word == "mod" && is_name(&tokens[at + 1]) && tokens[at + 2].text == ";" {
            let module = &tokens[at + 1].text;
            found.push(format!("{inside}/{module}.rs"));
            found.push(format!("{inside}/{module}/mod.rs"));
        }
        if word == "path" && tokens[at + 1].text == "=" {
            let given = tokens[at + 2].text.trim_matches('"');
            found.push(normal(&format!("{folder}/{given}")));
        }
    }
    found
}

/// The path without its `..` parts.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// The files that cargo builds by itself, and those that Cargo.toml names.
pub fn roots<'a>(cargo: &str, files: impl Iterator<Item = &'a String>) -> BTreeSet<String> {
    let mut found: BTreeSet<String> =
        ["src/lib.rs", "build.rs"].into_iter().map(str::to_string).collect();
    for line in cargo.lines() {
        if let Some(path) = line.strip_prefix("path = ") {
            found.insert(path.trim().trim_matches('"').to_string());
        }
    }
    for path in files {
        let parts: Vec<_> = path.split('/').collect();
        let is_test = matches!(parts[..], ["tests" | "benches", _])
            || matches!(parts[..], ["tests" | "benches", _, "main.rs"]);
        if is_test {
            found.insert(path.clone());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{roots, unreached};
    use std::collections::BTreeMap;

    #[test]
    fn files_that_nothing_imports_are_rejected() {
        let sources = [
            ("src/lib.rs", "mod a; // mod dead;"),
            ("src/a/mod.rs", "mod b;"),
            ("src/a/b.rs", "mod c;"),
            ("src/a/b/c.rs", ""),
            ("src/dead.rs", ""),
            ("tests/t.rs", "#[path = \"../other/o.rs\"] mod o;"),
            ("tests/kit/mod.rs", ""),
            ("tests/fake/lib.rs", ""),
            ("other/o.rs", ""),
        ];
        let files: BTreeMap<_, _> =
            sources.iter().map(|(p, t)| (p.to_string(), t.to_string())).collect();
        let roots = roots("[[example]]\npath = \"tests/fake/lib.rs\"\n", files.keys());
        let dead = unreached(&files, &roots);
        assert_eq!(dead.len(), 2, "{dead:?}");
        assert!(dead[0].starts_with("src/dead.rs") && dead[1].starts_with("tests/kit/mod.rs"));
    }
}
