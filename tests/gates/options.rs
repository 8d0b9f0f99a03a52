//! docs/options.md: the table of options is the library's own, and no variable is undocumented.

use super::repo;
use cenote::runtime::config::OPTIONS;
use std::collections::BTreeSet;

const DOCUMENT: &str = "docs/options.md";
const START: &str = "<!-- options: written by `make bless` from src/runtime/config.rs -->\n";
const END: &str = "<!-- /options -->\n";

/// The table as markdown.
fn table() -> String {
    let mut out =
        String::from("| variable | option | default | meaning |\n| --- | --- | --- | --- |\n");
    for option in OPTIONS {
        let default = if option.default.is_empty() { "none" } else { option.default };
        out.push_str(&format!(
            "| `{}` | `{}` | {default} | {} |\n",
            variable(option.name),
            option.name,
            option.help.replace('|', "\\|")
        ));
    }
    out
}

fn variable(name: &str) -> String {
    format!("CENOTE_{}", name.to_uppercase())
}

/// The document with the table put between its marks.
fn with_table(document: &str, table: &str) -> Option<String> {
    let (before, rest) = document.split_once(START)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{START}\n{table}\n{END}{after}"))
}

#[test]
fn the_table_of_options_is_the_librarys() {
    let document = repo::read(DOCUMENT);
    let wanted = with_table(&document, &table()).expect("the marks of the table are gone");
    if std::env::var_os("CENOTE_BLESS").is_some() {
        std::fs::write(repo::root().join(DOCUMENT), wanted).expect(DOCUMENT);
        return;
    }
    assert!(document == wanted, "{DOCUMENT} has not the options of the library: run `make bless`");
}

#[test]
fn a_stale_table_is_rejected() {
    let old = format!("# T\n{START}\n| old |\n\n{END}rest\n");
    let new = with_table(&old, "| new |\n").unwrap();
    assert!(new != old && new.contains("| new |") && !new.contains("| old |"));
    assert_eq!(with_table(&new, "| new |\n").unwrap(), new);
    assert!(with_table("# T\n", "x").is_none());
}

/// Environment variables of cenote that a text reads.
fn variables(text: &str) -> BTreeSet<String> {
    const READS: [&str; 9] = [
        "var(\"",
        "var_os(\"",
        "environ.get(\"",
        "environ[\"",
        "getenv(\"",
        "Getenv(\"",
        "LookupEnv(\"",
        "${",
        "$",
    ];
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices("CENOTE_") {
        let name: String = text[at..]
            .chars()
            .take_while(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || *c == '_')
            .collect();
        if READS.iter().any(|read| text[..at].ends_with(read)) {
            found.insert(name);
        }
    }
    found
}

/// Variables that are read in a text and not in the document.
fn undocumented(path: &str, text: &str, document: &str) -> Vec<String> {
    let names = variables(text).into_iter();
    let is_unknown = |name: &String| !document.contains(&format!("`{name}`"));
    names.filter(is_unknown).map(|name| format!("{path}: {name} is not in {DOCUMENT}")).collect()
}

#[test]
fn every_variable_is_documented() {
    let document = repo::read(DOCUMENT);
    // CMake's own variables look like a shell's.
    let is_other = |path: &str| path.ends_with("CMakeLists.txt") || path.ends_with(".in");
    let mut found = Vec::new();
    for path in repo::files() {
        let path = path.display().to_string();
        if let (false, Ok(text)) =
            (is_other(&path), std::fs::read_to_string(repo::root().join(&path)))
        {
            found.extend(undocumented(&path, &text, &document));
        }
    }
    repo::no_complaints(&found);
}

#[test]
fn a_variable_that_is_not_documented_is_rejected() {
    let name = concat!("CENOTE_", "NEW");
    for read in ["std::env::var(\"", "os.environ.get(\"", "os.Getenv(\"", "echo ${", "echo $"] {
        assert_eq!(undocumented("a", &format!("{read}{name}"), "").len(), 1, "{read}");
    }
    assert!(undocumented("a", &format!("var(\"{name}\")"), &format!("`{name}`")).is_empty());
    assert!(undocumented("a", "return CENOTE_OK;", "").is_empty());
}
