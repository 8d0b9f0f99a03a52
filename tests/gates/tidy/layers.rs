//! The layer rule: a folder uses only folders of its own row of the table, or of rows above it.

use super::tokens::{closing, is_name, spells, tokens, Token};

/// Rows of the layer table in ARCHITECTURE.md, lowest layer first, each with its folders.
pub fn table(architecture: &str) -> Vec<Vec<String>> {
    let section = architecture.split("\n## ").find(|s| s.starts_with("Layers"));
    let rows = section.unwrap_or("").lines().filter(|line| {
        let first = line.trim_start_matches('|').trim_start();
        line.starts_with('|') && first.starts_with(|c: char| c.is_ascii_digit())
    });
    rows.map(|row| {
        let cell = row.split('|').nth(2).unwrap_or("");
        cell.split('`').skip(1).step_by(2).map(str::to_string).collect()
    })
    .collect()
}

/// Uses of a higher layer, and of things at the crate's root, in a file of `src`.
pub fn complaints(path: &str, text: &str, table: &[Vec<String>]) -> Vec<String> {
    let inside = path.strip_prefix("src/").unwrap_or(path);
    let folder = inside.split(['/', '.']).next().unwrap_or("");
    if inside == "lib.rs" || folder == "bin" {
        return Vec::new(); // the root of the crate and programs that use it from outside
    }
    let rank = |name: &str| table.iter().position(|row| row.iter().any(|f| f == name));
    let Some(own) = rank(folder) else {
        return vec![format!("{path}: `{folder}` is not in the layer table of ARCHITECTURE.md")];
    };
    let tokens = match tokens(text) {
        Ok(tokens) => tokens,
        Err(e) => return vec![format!("{path}: {e}")],
    };
    let mut found = Vec::new();
    for (name, line) in roots(&tokens, depth(inside)) {
        match rank(&name) {
            None => found.push(format!("{path}:{line}: crate::{name} is no layer")),
            Some(other) if other > own => {
                found.push(format!("{path}:{line}: `{folder}` uses `{name}`, a layer above it"))
            }
            Some(_) => {}
        }
    }
    found
}

/// How many modules lie between a file of `src` and the crate's root: src/a/mod.rs is 1 deep.
fn depth(inside: &str) -> usize {
    let parts = inside.trim_end_matches(".rs").split('/');
    parts.filter(|part| *part != "mod").count()
}

/// First names after the crate's root in every path: `crate::a`, `crate::{a, b}`, `super::super::a`
/// where that reaches the root.
fn roots(tokens: &[Token], depth: usize) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    let mut inner = 0; // inline modules, such as `mod tests { … }`, are one deeper
    let mut ends: Vec<usize> = Vec::new();
    while at < tokens.len() {
        while ends.last().is_some_and(|end| *end < at) {
            ends.pop();
            inner -= 1;
        }
        if tokens[at].text == "mod" && tokens.get(at + 2).is_some_and(|t| t.text == "{") {
            ends.push(closing(tokens, at + 2));
            inner += 1;
        }
        let start = if spells(tokens, at, &["crate", ":", ":"]) {
            Some(at + 3)
        } else {
            supers(tokens, at, depth + inner)
        };
        if let Some(start) = start {
            names(tokens, start, &mut found);
            at = start;
        }
        at += 1;
    }
    found
}

/// Where the path goes on, if a chain of `super::` at `at` reaches the root.
fn supers(tokens: &[Token], at: usize, depth: usize) -> Option<usize> {
    let is_first = at < 3 || tokens[at - 1].text != ":" || tokens[at - 3].text != "super";
    if !is_first {
        return None;
    }
    let mut count = 0;
    while spells(tokens, at + 3 * count, &["super", ":", ":"]) {
        count += 1;
    }
    (count > 0 && count >= depth).then_some(at + 3 * count)
}

/// Names at the head of a path, or of each path in a `{…}` list.
fn names(tokens: &[Token], start: usize, found: &mut Vec<(String, usize)>) {
    let Some(first) = tokens.get(start) else { return };
    if is_name(first) {
        found.push((first.text.clone(), first.line));
        return;
    }
    if first.text != "{" {
        return;
    }
    let end = closing(tokens, start);
    let mut at = start + 1;
    while at < end {
        if matches!(tokens[at].text.as_str(), "{" | "(" | "[") {
            at = closing(tokens, at);
        } else if is_name(&tokens[at]) && matches!(tokens[at - 1].text.as_str(), "{" | ",") {
            found.push((tokens[at].text.clone(), tokens[at].line));
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{complaints, table};

    const TABLE: &str = "# A\n\n## Layers\n\n| | folder | what |\n| --- | --- | --- |\n\
                         | 0 | `base` | pure |\n| 1 | `pool` · `arena` | both |\n\
                         | 2 | `ffi` | top |\n\n## Next\n\n| 3 | `no` | x |\n";

    fn found(path: &str, text: &str) -> usize {
        complaints(path, text, &table(TABLE)).len()
    }

    #[test]
    fn the_table_is_read() {
        assert_eq!(table(TABLE), [vec!["base"], vec!["pool", "arena"], vec!["ffi"]]);
    }

    #[test]
    fn uses_of_a_higher_layer_are_rejected() {
        assert_eq!(found("src/base/a.rs", "use crate::pool::X;"), 1);
        assert_eq!(found("src/base/a.rs", "fn f() { crate::ffi::g() }"), 1);
        assert_eq!(found("src/pool/a.rs", "use crate::{base::{A, B}, ffi::C};"), 1);
        assert_eq!(found("src/pool/a.rs", "use super::super::ffi::C;"), 1);
        assert_eq!(found("src/pool/mod.rs", "use super::ffi::C;"), 1);
        assert_eq!(found("src/base/a.rs", "mod tests { use super::super::super::ffi::C; }"), 1);
        assert_eq!(found("src/pool/a.rs", "use crate::Shortcut;"), 1);
        assert_eq!(found("src/stray/a.rs", ""), 1);
    }

    #[test]
    fn uses_of_the_same_or_a_lower_layer_pass() {
        assert_eq!(found("src/ffi/a.rs", "use crate::{base::A, pool, arena::B};"), 0);
        assert_eq!(found("src/pool/a.rs", "use crate::arena::B; use super::ffi_like::C;"), 0);
        assert_eq!(found("src/pool/a.rs", "// crate::ffi\nconst A: &str = \"crate::ffi\";"), 0);
        assert_eq!(found("src/lib.rs", "use crate::ffi::A;"), 0);
    }
}
