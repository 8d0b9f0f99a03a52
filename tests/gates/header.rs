//! include/cenote.h as its reader meets it: every function documented, every language served.

use super::{cc, repo};

/// A function of the header: its documentation and its declaration, each on one line.
#[derive(Debug, PartialEq)]
struct Declared {
    doc: String,
    text: String,
}

/// The functions of a header, each with the comment before it.
fn functions(header: &str) -> Vec<Declared> {
    let mut found = Vec::new();
    let (mut doc, mut text) = (String::new(), String::new());
    let (mut in_comment, mut in_macro) = (false, false);
    let mut depth = 0i32;
    for line in header.lines() {
        let trimmed = line.trim();
        if trimmed.starts_with("/*") {
            (in_comment, doc) = (true, String::new());
        }
        if in_comment {
            doc.push_str(trimmed.trim_matches(&['/', '*'][..]).trim());
            doc.push(' ');
            in_comment = !trimmed.ends_with("*/");
            continue;
        }
        let is_macro = in_macro || trimmed.starts_with('#');
        in_macro = is_macro && trimmed.ends_with('\\');
        if is_macro || trimmed.starts_with("extern \"C\"") {
            continue;
        }
        depth += trimmed.matches('{').count() as i32 - trimmed.matches('}').count() as i32;
        text.push_str(trimmed);
        text.push(' ');
        if depth <= 0 && trimmed.ends_with(';') {
            let whole = std::mem::take(&mut text).trim().to_string();
            if whole.contains('(') && !whole.starts_with("typedef") {
                found.push(Declared { doc: std::mem::take(&mut doc), text: whole });
            }
        }
        depth = depth.max(0);
    }
    found
}

/// True if the doc has the line, by itself or by pointing at another function's.
fn says(doc: &str, key: &str) -> bool {
    doc.contains(&format!("{key}:"))
        || (doc.contains(key) && (doc.contains("are those of") || doc.contains(": as cenote_")))
}

/// What the documentation of one function lacks.
fn lacks(function: &Declared) -> Vec<String> {
    let name = function.text.split('(').next().unwrap_or("").rsplit([' ', '*']).next();
    let params = function.text.split_once('(').map_or("", |(_, p)| p);
    let mut keys = vec!["Threads", "Since"];
    if params.contains('*') {
        keys.push("Ownership");
    }
    if function.text.starts_with("cenote_status ") {
        keys.push("Errors");
    }
    let missing = keys.into_iter().filter(|key| !says(&function.doc, key));
    missing.map(|key| format!("{}: no {key} line", name.unwrap_or("?"))).collect()
}

/// Names of cenote that the text speaks of and does not declare: documentation that has rotted.
/// A name in quotes is a text that a function returns.
fn unknown_names(header: &str) -> Vec<String> {
    let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let mut code = String::new();
    let mut in_comment = false;
    for line in header.lines() {
        in_comment |= line.trim_start().starts_with("/*");
        if !in_comment {
            code.push_str(line);
            code.push('\n');
        }
        in_comment &= !line.trim_end().ends_with("*/");
    }
    let known: std::collections::BTreeSet<_> = code.split(word).collect();
    let unquoted: String = header.split('"').step_by(2).collect();
    let mut found: Vec<_> = unquoted
        .split(word)
        .filter(|w| w.starts_with("cenote_") || w.starts_with("CENOTE_"))
        .filter(|w| !w.ends_with('_') && !known.contains(w))
        .map(|w| format!("{w} is spoken of and not declared"))
        .collect();
    found.sort();
    found.dedup();
    found
}

#[test]
fn every_function_is_documented() {
    let found = functions(&repo::read("include/cenote.h"));
    assert!(found.len() >= 30, "the parser sees only {} functions", found.len());
    let complaints: Vec<_> = found.iter().flat_map(lacks).collect();
    repo::no_complaints(&complaints);
}

#[test]
fn the_parser_sees_every_symbol() {
    let declared = functions(&repo::read("include/cenote.h"));
    for function in super::abi::current().functions {
        let call = format!("{}(", function.name);
        assert!(declared.iter().any(|d| d.text.contains(&call)), "{} is not seen", function.name);
    }
}

#[test]
fn undocumented_functions_are_rejected() {
    let bad = "/** Frees. */\ncenote_status cenote_free(void *ptr);\n";
    let found: Vec<_> = functions(bad).iter().flat_map(lacks).collect();
    for key in ["Threads", "Since", "Ownership", "Errors"] {
        assert!(found.contains(&format!("cenote_free: no {key} line")), "{key}: {found:?}");
    }
    let good = "/** Frees. Ownership: yours. Threads: any. Errors: none. Since: 0.1. */\n\
                cenote_status cenote_free(void *ptr);\n";
    assert!(functions(good).iter().flat_map(lacks).next().is_none());
    let bare = "uint32_t cenote_bare(void);\n";
    assert_eq!(functions(bare).iter().flat_map(lacks).count(), 2);
}

#[test]
fn the_text_names_only_what_exists() {
    repo::no_complaints(&unknown_names(&repo::read("include/cenote.h")));
}

#[test]
fn a_name_that_does_not_exist_is_rejected() {
    let bad = "/** As cenote_gone. */\nint cenote_here(void);\n";
    assert_eq!(unknown_names(bad), ["cenote_gone is spoken of and not declared"]);
}

#[test]
fn the_header_compiles_alone_everywhere() {
    let dir = repo::scratch("header_alone");
    for (name, lang) in [("c99", cc::C99), ("c11", cc::C11), ("cxx17", cc::CXX17)] {
        cc::object(lang, &dir, name, "#include <cenote.h>\n#include <cenote.h>\n").unwrap();
    }
    // The compiler must be one that complains: an unused variable is an error.
    let bad = "#include <cenote.h>\nstatic int f(void) { int unused; return 0; }\n";
    assert!(cc::object(cc::C99, &dir, "bad", bad).is_err());
}

#[test]
fn two_files_may_include_the_header() {
    for (lang, folder) in [(cc::C99, "header_twice_c"), (cc::CXX17, "header_twice_cxx")] {
        let dir = repo::scratch(folder);
        let one = "#include <cenote.h>\nint other(void);\nint main(void) { return other(); }\n";
        let two = "#include <cenote.h>\nint other(void);\n\
                   int other(void) { return CENOTE_OK + (int)sizeof(cenote_error) * 0; }\n";
        let objects = [
            cc::object(lang, &dir, "one", one).unwrap(),
            cc::object(lang, &dir, "two", two).unwrap(),
        ];
        let program = cc::show(&dir.join("program"));
        let args = ["-o".into(), program.clone(), cc::show(&objects[0]), cc::show(&objects[1])];
        cc::compile(lang, &args).unwrap();
        cc::run(&mut std::process::Command::new(program)).unwrap();
    }
}
