//! Words that do not belong in the project, and the form of its documents.

/// Marks of unfinished work. Put together here, so that this file passes its own gate.
const UNFINISHED: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];

/// Calls that must not be left in.
const CALLS: [&str; 3] =
    [concat!("to", "do!("), concat!("unimpl", "emented!("), concat!("db", "g!(")];

/// Folders of somebody's machine.
const PLACES: [&str; 3] = [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/wo", "rk/")];

/// Banned words of any text of the project.
pub fn banned(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let at = format!("{path}:{}", index + 1);
        let mut words = line.split(|c: char| !c.is_alphanumeric());
        if let Some(word) = words.find(|w| UNFINISHED.contains(w)) {
            found.push(format!("{at}: {word}"));
        }
        if let Some(call) = CALLS.iter().find(|c| line.contains(**c)) {
            found.push(format!("{at}: {call}"));
        }
        if let Some(place) = PLACES.iter().find(|p| names_place(line, p)) {
            found.push(format!("{at}: {place} is a folder of one machine"));
        }
    }
    found
}

/// True where a path starts with the folder; `a/b/…` and `$X/b/…` do not.
fn names_place(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-})*".contains(c))
    })
}

/// A document has one title, and it comes first.
pub fn titles(path: &str, text: &str) -> Vec<String> {
    let mut in_code = false;
    let mut titles = 0;
    for line in text.lines() {
        in_code ^= line.trim_start().starts_with("```");
        titles += usize::from(!in_code && line.starts_with("# "));
    }
    if titles == 1 {
        return Vec::new();
    }
    vec![format!("{path}: {titles} titles, not 1")]
}

/// A script is executable and says by what.
pub fn script(path: &str, text: &str, mode: u32) -> Vec<String> {
    let mut found = Vec::new();
    if !text.starts_with("#!") {
        found.push(format!("{path}: no #! line"));
    }
    if mode & 0o111 == 0 {
        found.push(format!("{path}: not executable"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{banned, script, titles, CALLS, PLACES, UNFINISHED};

    #[test]
    fn unfinished_work_is_rejected() {
        for word in UNFINISHED.iter().chain(&CALLS) {
            assert_eq!(banned("a", &format!("x = 1; // {word} later")).len(), 1, "{word}");
        }
        assert!(banned("a", "mktemp XXXXXXXX").is_empty());
    }

    #[test]
    fn folders_of_a_machine_are_rejected() {
        for place in PLACES {
            assert_eq!(banned("a", &format!("see {place}x")).len(), 1, "{place}");
            assert_eq!(banned("a", &format!("\"{place}x\"")).len(), 1, "{place}");
            assert!(banned("a", &format!("$BUILD{place}x, ${{B}}{place}x")).is_empty());
        }
    }

    #[test]
    fn documents_with_no_title_or_two_are_rejected() {
        assert_eq!(titles("a", "text\n").len(), 1);
        assert_eq!(titles("a", "# One\n\n# Two\n").len(), 1);
        assert!(titles("a", "# One\n\n```sh\n# comment\n```\n").is_empty());
    }

    #[test]
    fn scripts_that_cannot_run_are_rejected() {
        assert_eq!(script("a", "echo\n", 0o644).len(), 2);
        assert!(script("a", "#!/bin/sh\n", 0o755).is_empty());
    }
}
