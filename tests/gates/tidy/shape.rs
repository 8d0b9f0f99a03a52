//! Lengths, attributes and safety comments.

use super::tokens::{closing, is_name, spells, tokens, Token};

const FILE_LINES: usize = 700;
const FUNCTION_LINES: usize = 70;
const COLUMNS: usize = 100;

/// Lines above an `unsafe` in which its safety comment must stand.
const SAFETY_LINES: usize = 8;

/// Files that are too long, and lines that are too wide. Addresses of pages cannot be broken.
pub fn size(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let lines = text.lines().count();
    if lines > FILE_LINES {
        found.push(format!("{path}: {lines} lines, more than {FILE_LINES}"));
    }
    for (index, line) in text.lines().enumerate() {
        let width = line.chars().count();
        if width > COLUMNS && !line.contains("://") {
            found.push(format!("{path}:{}: {width} columns, more than {COLUMNS}", index + 1));
        }
    }
    found
}

/// Rust functions that are too long, `allow` and `ignore` without a reason, `unsafe` without proof.
pub fn rust(path: &str, text: &str) -> Vec<String> {
    let tokens = match tokens(text) {
        Ok(tokens) => tokens,
        Err(e) => return vec![format!("{path}: {e}")],
    };
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        let line = tokens[at].line;
        let complaint = function(&tokens, at)
            .or_else(|| attribute(&tokens, at))
            .or_else(|| safety(&tokens, at, &lines));
        found.extend(complaint.map(|what| format!("{path}:{line}: {what}")));
    }
    found
}

fn function(tokens: &[Token], at: usize) -> Option<String> {
    if tokens[at].text != "fn" || !tokens.get(at + 1).is_some_and(is_name) {
        return None;
    }
    let mut open = at;
    while !matches!(tokens.get(open)?.text.as_str(), "{" | ";") {
        open = if matches!(tokens[open].text.as_str(), "(" | "[") {
            closing(tokens, open) + 1
        } else {
            open + 1
        };
    }
    if tokens[open].text == ";" {
        return None;
    }
    let lines = tokens[closing(tokens, open)].line - tokens[at].line + 1;
    let name = &tokens[at + 1].text;
    (lines > FUNCTION_LINES)
        .then(|| format!("fn {name} has {lines} lines, more than {FUNCTION_LINES}"))
}

fn attribute(tokens: &[Token], at: usize) -> Option<String> {
    let open = match tokens[at].text.as_str() {
        "#" if spells(tokens, at + 1, &["!", "["]) => at + 2,
        "#" if spells(tokens, at + 1, &["["]) => at + 1,
        _ => return None,
    };
    let inside = &tokens[open..closing(tokens, open)];
    for name in ["allow", "expect"] {
        let is_used = (0..inside.len()).any(|i| spells(inside, i, &[name, "("]));
        if is_used && !(0..inside.len()).any(|i| spells(inside, i, &["reason", "="])) {
            return Some(format!("`{name}` without a reason"));
        }
    }
    let is_bare = spells(inside, 1, &["ignore"]) && !spells(inside, 2, &["="]);
    is_bare.then(|| "`ignore` without a reason".into())
}

fn safety(tokens: &[Token], at: usize, lines: &[&str]) -> Option<String> {
    let next = tokens.get(at + 1).map_or("", |t| t.text.as_str());
    if tokens[at].text != "unsafe" || !matches!(next, "{" | "impl") {
        return None;
    }
    let line = tokens[at].line;
    let near = &lines[line.saturating_sub(SAFETY_LINES + 1)..line.min(lines.len())];
    let is_proved = near.iter().any(|l| l.contains("SAFETY:"));
    (!is_proved).then(|| "`unsafe` without a SAFETY comment".into())
}

#[cfg(test)]
mod tests {
    use super::{rust, size};

    #[test]
    fn long_files_and_lines_are_rejected() {
        assert_eq!(size("a", &"x\n".repeat(701)).len(), 1);
        assert_eq!(size("a", &"x\n".repeat(700)).len(), 0);
        assert_eq!(size("a", &"x".repeat(101)).len(), 1);
        assert_eq!(size("a", &"ä".repeat(100)).len(), 0);
        assert_eq!(size("a", &format!("https://{}", "x".repeat(100))).len(), 0);
    }

    #[test]
    fn long_functions_are_rejected() {
        let body =
            |lines: usize| format!("fn f() {{\n{}}}\n", "    g(\"{\"); // }\n".repeat(lines));
        assert_eq!(rust("a", &body(69)).len(), 1);
        assert_eq!(rust("a", &body(68)).len(), 0);
        assert_eq!(rust("a", &format!("impl A {{ {} }}", body(90))).len(), 1);
        assert_eq!(rust("a", &format!("macro_rules! m {{ () => {{ {} }} }}", body(90))).len(), 1);
        assert_eq!(rust("a", "trait T { fn f(a: [u8; 4]); }").len(), 0);
    }

    #[test]
    fn attributes_without_a_reason_are_rejected() {
        assert_eq!(rust("a", "#[allow(dead_code)] fn f() {}").len(), 1);
        assert_eq!(rust("a", "#![allow(dead_code)]").len(), 1);
        assert_eq!(rust("a", "#[cfg_attr(x, allow(dead_code))] fn f() {}").len(), 1);
        assert_eq!(rust("a", "#[test]\n#[ignore]\nfn f() {}").len(), 1);
        assert_eq!(rust("a", "#[allow(dead_code, reason = \"r\")] fn f() {}").len(), 0);
        assert_eq!(rust("a", "#[ignore = \"needs a GPU\"] fn f() {}").len(), 0);
        assert_eq!(rust("a", "// #[allow(x)]\nconst A: &str = \"#[ignore]\";").len(), 0);
    }

    #[test]
    fn unsafe_without_a_proof_is_rejected() {
        assert_eq!(rust("a", "fn f() {\n    unsafe { g() }\n}").len(), 1);
        assert_eq!(rust("a", "unsafe impl Send for A {}").len(), 1);
        assert_eq!(rust("a", "fn f() {\n    // SAFETY: checked.\n    unsafe { g() }\n}").len(), 0);
        assert_eq!(rust("a", "unsafe fn f() {}").len(), 0);
    }
}
