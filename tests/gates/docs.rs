//! Documents say what is: commands exist, versions agree, links lead somewhere, words are defined.

use super::repo;
use std::collections::BTreeSet;

/// Words that ARCHITECTURE.md must define: the nouns of the sources and of the documents.
const WORDS: [&str; 26] = [
    "alias",
    "arena",
    "backend",
    "block",
    "capture",
    "decay",
    "device",
    "epoch",
    "event",
    "handle",
    "held",
    "kind",
    "live",
    "orphan",
    "page",
    "pending",
    "pin",
    "pool",
    "region",
    "reservation",
    "slab",
    "slack",
    "span",
    "stream",
    "takeover",
    "trim",
];

/// Every document, with its path.
fn documents() -> Vec<(String, String)> {
    let is_document = |path: &std::path::PathBuf| path.extension().is_some_and(|e| e == "md");
    let paths = repo::files().into_iter().filter(is_document);
    paths.map(|p| p.display().to_string()).map(|p| (p.clone(), repo::read(&p))).collect()
}

/// The targets of a Makefile.
fn targets(makefile: &str) -> BTreeSet<String> {
    let heads = makefile.lines().filter_map(|line| line.split_once(':').map(|(head, _)| head));
    let is_name =
        |head: &&str| !head.is_empty() && head.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    heads.filter(is_name).map(str::to_string).collect()
}

/// Commands `make X` in code, where X is no target.
fn unknown_commands(path: &str, text: &str, targets: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        in_code ^= line.trim_start().starts_with("```");
        let spans: Vec<&str> = match in_code {
            true => vec![line.trim()],
            false => line.split('`').skip(1).step_by(2).collect(),
        };
        for span in spans {
            let Some(rest) = span.strip_prefix("make ") else { continue };
            let name = rest.split_whitespace().next().unwrap_or("");
            if !targets.contains(name) && !name.contains('=') {
                found.push(format!("{path}: `make {name}` is no target"));
            }
        }
    }
    found
}

/// Value of a line `key = "value"`.
fn setting<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut lines =
        text.lines().filter_map(|l| l.strip_prefix(key)?.trim_start().strip_prefix('='));
    lines.next().and_then(|value| value.split('"').nth(1))
}

/// Versions that differ from Cargo.toml's. A Python project may read it instead of saying it.
fn version_complaints(cargo: &str, header: &str, pyproject: &str, changelog: &str) -> Vec<String> {
    let Some(version) = setting(cargo, "version") else {
        return vec!["Cargo.toml has no version".into()];
    };
    let mut found = Vec::new();
    if !header.contains(&format!("#define CENOTE_VERSION_STRING \"{version}\"\n")) {
        found.push(format!("the header is not of version {version}"));
    }
    match setting(pyproject, "version") {
        Some(other) if other != version => found.push(format!("pyproject.toml says {other}")),
        None if !pyproject.contains("dynamic = [\"version\"]") => {
            found.push("pyproject.toml says no version".into())
        }
        _ => {}
    }
    let newest = changelog.lines().find_map(|l| l.strip_prefix("## [")?.split(']').next());
    if !matches!(newest, Some(v) if v == version || v == "Unreleased") {
        found.push(format!("CHANGELOG.md begins with {newest:?}"));
    }
    found
}

/// Links to files of the project, and to headings, that lead nowhere.
fn dead_links(path: &str, text: &str, exists: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut found = Vec::new();
    for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        if link.contains("://") || link.starts_with("mailto:") {
            continue;
        }
        let (file, anchor) = link.split_once('#').map_or((link, None), |(f, a)| (f, Some(a)));
        let target = match (file, folder) {
            ("", _) => path.to_string(),
            (_, "") => file.to_string(),
            _ => format!("{folder}/{file}"),
        };
        let is_there = exists(&target).is_some_and(|t| anchor.is_none_or(|a| has_heading(&t, a)));
        if !is_there {
            found.push(format!("{path}: {link} leads nowhere"));
        }
    }
    found
}

/// True if a heading of the text has this anchor, made as forges make it.
fn has_heading(text: &str, anchor: &str) -> bool {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let slug = |line: &str| -> String {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(slug).any(|s| s == anchor)
}

/// Words of the list without a definition, and words defined twice.
fn glossary_complaints(architecture: &str, words: &[&str]) -> Vec<String> {
    let section = architecture.split("\n## ").find(|s| s.starts_with("Glossary")).unwrap_or("");
    let defined: Vec<&str> = section
        .lines()
        .filter_map(|line| line.strip_prefix("- **")?.split_once("**: "))
        .filter(|(_, meaning)| meaning.len() > 10)
        .map(|(word, _)| word)
        .collect();
    let count = |word: &str| defined.iter().filter(|d| **d == word).count();
    let wrong = words.iter().filter(|word| count(word) != 1);
    wrong.map(|word| format!("ARCHITECTURE.md defines \"{word}\" {} times", count(word))).collect()
}

/// Code of a document that no test compiles: each block of a language follows a line
/// `<!-- snippet: FILE -->` and stands in that file word for word.
fn loose_snippets(text: &str, read: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    const LANGUAGES: [&str; 5] = ["```c\n", "```cpp\n", "```python\n", "```go\n", "```rust\n"];
    let mut found = Vec::new();
    for language in LANGUAGES {
        for (at, _) in text.match_indices(language) {
            let code = text[at + language.len()..].split("```").next().unwrap_or("");
            let before = text[..at].trim_end().rsplit('\n').next().unwrap_or("");
            let file = before.strip_prefix("<!-- snippet: ").and_then(|b| b.strip_suffix(" -->"));
            let is_tested = file.and_then(read).is_some_and(|source| source.contains(code));
            if !is_tested {
                let first = code.lines().next().unwrap_or("");
                found.push(format!("not in {}: {first} …", file.unwrap_or("any file named")));
            }
        }
    }
    found
}

#[test]
fn code_in_the_readme_is_tested() {
    let read = |path: &str| std::fs::read_to_string(repo::root().join(path)).ok();
    let readme = repo::read("README.md");
    repo::no_complaints(&loose_snippets(&readme, &read));
    for language in ["```c\n", "```cpp\n", "```python\n", "```go\n", "```rust\n"] {
        assert!(readme.contains(language), "no example in {}", language.trim());
    }
}

#[test]
fn code_that_is_not_tested_is_rejected() {
    let read = |path: &str| (path == "a.c").then(|| "int a;\nint b;\n".to_string());
    let with = |mark: &str, code: &str| format!("{mark}\n```c\n{code}```\n");
    let mark = "<!-- snippet: a.c -->";
    assert!(loose_snippets(&with(mark, "int b;\n"), &read).is_empty());
    assert_eq!(loose_snippets(&with(mark, "int c;\n"), &read).len(), 1);
    assert_eq!(loose_snippets(&with("<!-- snippet: b.c -->", "int b;\n"), &read).len(), 1);
    assert_eq!(loose_snippets(&with("Text.", "int b;\n"), &read).len(), 1);
}

#[test]
fn commands_in_documents_exist() {
    let targets = targets(&repo::read("Makefile"));
    let documents = documents();
    let found = documents.iter().flat_map(|(path, text)| unknown_commands(path, text, &targets));
    repo::no_complaints(&found.collect::<Vec<_>>());
    for needed in ["demo", "test", "check", "bench", "bench-smoke", "gpu", "bless", "install"] {
        assert!(targets.contains(needed), "make {needed} is gone");
    }
}

#[test]
fn commands_that_do_not_exist_are_rejected() {
    let targets = targets("all: x\n\tcmd: y\nPATH := z\nbench-smoke:\n");
    assert_eq!(targets.iter().collect::<Vec<_>>(), ["all", "bench-smoke"]);
    let text = "`make all`, `make setup-gpu`, make no sense\n```sh\nmake gone # x\nmake all\n```\n";
    assert_eq!(unknown_commands("a", text, &targets).len(), 2);
}

#[test]
fn versions_agree() {
    let pyproject = repo::read("bindings/python/pyproject.toml");
    let (cargo, header) = (repo::read("Cargo.toml"), repo::read("include/cenote.h"));
    let changelog = repo::read("CHANGELOG.md");
    repo::no_complaints(&version_complaints(&cargo, &header, &pyproject, &changelog));
    let least = setting(&cargo, "rust-version").expect("rust-version");
    let readme = repo::read("README.md");
    assert!(readme.contains(&format!("Rust {least}")), "README.md does not say Rust {least}");
}

#[test]
fn versions_that_differ_are_rejected() {
    let header = "#define CENOTE_VERSION_STRING \"1.2.3\"\n";
    let log = "# Changelog\n\n## [1.2.3] - 2026-01-01\n";
    let check = |cargo, py, log| version_complaints(cargo, header, py, log).len();
    let (cargo, dynamic) = ("version = \"1.2.3\"\n", "dynamic = [\"version\"]\n");
    assert_eq!(check(cargo, cargo, log), 0);
    assert_eq!(check(cargo, dynamic, "## [Unreleased]\n"), 0);
    assert_eq!(check("version = \"1.2.4\"\n", cargo, log), 3);
    assert_eq!(check(cargo, "name = \"x\"\n", log), 1);
    assert_eq!(check(cargo, cargo, "## [1.2.2]\n"), 1);
}

#[test]
fn links_lead_somewhere() {
    let exists = |path: &str| {
        let full = repo::root().join(path);
        let is_there = full.exists();
        is_there.then(|| std::fs::read_to_string(full).unwrap_or_default())
    };
    let documents = documents();
    let found = documents.iter().flat_map(|(path, text)| dead_links(path, text, &exists));
    repo::no_complaints(&found.collect::<Vec<_>>());
}

#[test]
fn links_that_lead_nowhere_are_rejected() {
    let exists = |path: &str| (path == "docs/a.md").then(|| "# A title, long\n".to_string());
    let bad = "[a](b.md) [c](a.md#gone) [d](../docs/a.md)";
    assert_eq!(dead_links("docs/x.md", bad, &exists).len(), 3);
    let good = "[a](a.md) [b](a.md#a-title-long) [c](https://example.org/x)";
    assert!(dead_links("docs/x.md", good, &exists).is_empty());
}

#[test]
fn the_words_are_defined() {
    repo::no_complaints(&glossary_complaints(&repo::read("ARCHITECTURE.md"), &WORDS));
}

#[test]
fn words_without_a_definition_are_rejected() {
    let text =
        "# A\n\n## Glossary\n\n- **pool**: where blocks come from.\n- **page**: x\n\n## B\n\n\
                - **live**: outside of the glossary.\n";
    assert_eq!(glossary_complaints(text, &["pool", "page", "live"]).len(), 2);
}
