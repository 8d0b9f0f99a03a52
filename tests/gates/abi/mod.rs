//! Drift gate: include/cenote.h and include/cenote.abi.json are what the sources say.
//!
//! `CENOTE_BLESS=1` rewrites both and shows what changed. A change that breaks callers of the same
//! ABI generation is refused even then; before the first release of a generation
//! `CENOTE_ABI_BREAK=unreleased` allows it.

mod compat;
mod generate;
mod json;
pub mod model;
mod sources;

use super::{cc, repo};
use model::Abi;
use serde_json::Value;

const HEADER: &str = "include/cenote.h";
const JSON: &str = "include/cenote.abi.json";
const LAYOUT: &str = "tests/abi_layout.rs";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The ABI as the sources have it now.
pub fn current() -> Abi {
    let sources = sources::read(repo::root()).unwrap_or_else(|e| panic!("src/ffi: {e}"));
    Abi::read(&sources).unwrap_or_else(|e| panic!("src/ffi: {e}"))
}

fn current_header() -> String {
    let sources = sources::read(repo::root()).unwrap_or_else(|e| panic!("src/ffi: {e}"));
    let dir = repo::scratch("abi_header");
    generate::header(repo::root(), &dir, &sources, VERSION).unwrap_or_else(|e| panic!("{e}"))
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{JSON}: {e}"))
}

/// Lines that differ, in the manner of a diff without context.
fn changes(old: &str, new: &str) -> Vec<String> {
    let gone = old.lines().filter(|l| !new.lines().any(|n| n == *l)).map(|l| format!("-{l}"));
    let come = new.lines().filter(|l| !old.lines().any(|o| o == *l)).map(|l| format!("+{l}"));
    gone.chain(come).collect()
}

/// What is wrong with a committed text, given what it should be.
fn drift(path: &str, committed: &str, wanted: &str) -> Vec<String> {
    if committed == wanted {
        return Vec::new();
    }
    let mut found = vec![format!("{path} is not what src/ffi says: run `make bless`")];
    found.extend(changes(committed, wanted));
    found
}

/// True while no version of the project is released: CHANGELOG.md has only an unreleased section.
fn is_unreleased(changelog: &str) -> bool {
    let mut versions = changelog.lines().filter_map(|l| l.strip_prefix("## ["));
    versions.all(|v| v.starts_with("Unreleased"))
}

fn bless(wanted: &[(&str, String)]) {
    let old = std::fs::read_to_string(repo::root().join(JSON)).unwrap_or_default();
    if !old.is_empty() {
        let broken = compat::breaks(&parse(&old), &parse(&wanted[1].1));
        let allowed = std::env::var("CENOTE_ABI_BREAK").is_ok_and(|v| v == "unreleased")
            && is_unreleased(&repo::read("CHANGELOG.md"));
        assert!(
            broken.is_empty() || allowed,
            "this breaks callers; raise CENOTE_ABI_VERSION or undo it:\n{}",
            broken.join("\n")
        );
    }
    for (path, text) in wanted {
        let full = repo::root().join(path);
        let old = std::fs::read_to_string(&full).unwrap_or_default();
        if old != *text {
            println!("{path}:\n{}", changes(&old, text).join("\n"));
            std::fs::write(&full, text).unwrap_or_else(|e| panic!("{path}: {e}"));
        }
    }
}

#[test]
fn header_and_json_are_what_the_sources_say() {
    let abi = current();
    let wanted = [
        (HEADER, current_header()),
        (JSON, json::write(&abi, VERSION)),
        (LAYOUT, layout_test(&abi)),
    ];
    if std::env::var_os("CENOTE_BLESS").is_some() {
        bless(&wanted);
        return;
    }
    let mut complaints = Vec::new();
    for (path, text) in &wanted {
        complaints.extend(drift(path, &repo::read(path), text));
    }
    let (old, new) = (parse(&repo::read(JSON)), parse(&wanted[1].1));
    complaints.extend(compat::breaks(&old, &new));
    repo::no_complaints(&complaints);
}

#[test]
fn a_stale_header_is_rejected() {
    let bad = drift(HEADER, "int cenote_old(void);\n", "int cenote_new(void);\n");
    assert_eq!(bad[1..], ["-int cenote_old(void);", "+int cenote_new(void);"]);
    assert!(drift(HEADER, "same", "same").is_empty());
}

#[test]
fn a_new_struct_or_constant_says_since_when() {
    let abi = current();
    if VERSION.starts_with("0.1.") {
        return; // everything is as old as the first version
    }
    let old = parse(&repo::read(JSON));
    let known = |section: &str, name: &str| {
        old[section].as_array().is_some_and(|l| l.iter().any(|e| e["name"] == name))
    };
    let structs = abi.structs.iter().map(|s| ("structs", &s.name, &s.since));
    let constants = abi.constants.iter().map(|c| ("constants", &c.name, &c.since));
    let silent: Vec<_> = structs
        .chain(constants)
        .filter(|(section, name, since)| since.is_none() && !known(section, name))
        .map(|(_, name, _)| format!("{name}: a new entry needs a Since line"))
        .collect();
    repo::no_complaints(&silent);
}

/// The two descriptions, made by two tools, meet in a C compiler: every function is declared again
/// as the JSON has it, every size, offset, field type and value is asserted.
fn check_c(abi: &Abi) -> String {
    let mut out = String::from("#include <cenote.h>\n");
    for f in &abi.functions {
        let params: Vec<_> = f.params.iter().map(|p| model::declare(&p.ty, &p.name)).collect();
        let params = if params.is_empty() { "void".into() } else { params.join(", ") };
        out.push_str(&format!("{}({params});\n", model::declare(&f.returns, &f.name)));
    }
    let mut claim = |what: String| out.push_str(&format!("_Static_assert({what}, \"\");\n"));
    for s in &abi.structs {
        let name = &s.name;
        claim(format!("sizeof({name}) == {}", s.size));
        claim(format!("_Alignof({name}) == {}", s.align));
        for f in &s.fields {
            let field = format!("(({name} *)0)->{}", f.name);
            claim(format!("offsetof({name}, {}) == {}", f.name, f.offset));
            claim(format!("sizeof({field}) == {}", f.size));
            claim(format!("__builtin_types_compatible_p(__typeof__({field}), {})", f.ty));
        }
    }
    for c in &abi.constants {
        claim(format!("{} == {}", c.name, c.value));
    }
    for (status, name, _) in cenote::base::Status::ALL {
        claim(format!("{} == {}", name.trim_end_matches('\0'), status.0));
    }
    for a in &abi.aliases {
        claim(format!("__builtin_types_compatible_p({}, {})", a.name, a.ty));
    }
    out
}

fn check_by_compiler(abi: &Abi, name: &str) -> Result<(), String> {
    cc::object(cc::C11, &repo::scratch(name), "check", &check_c(abi)).map(|_| ())
}

#[test]
fn the_c_compiler_sees_what_the_json_says() {
    check_by_compiler(&current(), "abi_check").unwrap();
}

#[test]
fn the_c_compiler_rejects_wrong_descriptions() {
    type Spoil = fn(&mut Abi);
    let spoilers: [(&str, Spoil); 5] = [
        ("offset", |a| a.structs[0].fields[1].offset += 4),
        ("size", |a| a.structs[0].size += 8),
        ("type", |a| a.structs[0].fields[0].ty = "int32_t".into()),
        ("value", |a| a.constants[0].value += 1),
        ("parameter", |a| {
            a.functions[0].params.push(model::Param { name: "more".into(), ty: "uint32_t".into() })
        }),
    ];
    for (what, spoil) in spoilers {
        let mut abi = current();
        spoil(&mut abi);
        assert!(check_by_compiler(&abi, "abi_check_bad").is_err(), "a wrong {what} passed");
    }
}

#[test]
fn the_version_macros_agree_with_cargo() {
    let text = generate::version_macros("1.2.3").unwrap();
    for line in ["MAJOR 1", "MINOR 2", "PATCH 3", "STRING \"1.2.3\""] {
        assert!(text.contains(&format!("#define CENOTE_VERSION_{line}\n")), "{line}");
    }
    assert!(generate::version_macros("1.2").is_err());
    let parts: Vec<u32> = VERSION.split('.').map(|p| p.parse().unwrap()).collect();
    let number = parts[0] * 1_000_000 + parts[1] * 1_000 + parts[2];
    let program = format!(
        "#include <cenote.h>\n_Static_assert(CENOTE_VERSION_NUMBER == {number}, \"\");\n\
         _Static_assert(sizeof(CENOTE_VERSION_STRING) == {}, \"\");\n",
        VERSION.len() + 1
    );
    let dir = repo::scratch("abi_version");
    cc::object(cc::C11, &dir, "version", &program).unwrap();
    let wrong = program.replace(&format!("== {number}"), &format!("== {}", number + 1));
    assert!(cc::object(cc::C11, &dir, "wrong", &wrong).is_err());
}

#[test]
fn safety_sections_stay_out_of_the_header() {
    let text = "/**\n * Sum.\n *\n * # Safety\n * Rust only.\n */\nint f(void);\n";
    assert_eq!(generate::strip_safety(text), "/**\n * Sum.\n */\nint f(void);\n");
    assert!(!repo::read(HEADER).contains("# Safety"));
}

#[test]
fn breaking_changes_are_found() {
    let old = parse(&json::write(&current(), VERSION));
    type Spoil = fn(&mut Abi);
    let spoilers: [(&str, Spoil); 6] = [
        ("is gone", |a| drop(a.functions.remove(0))),
        ("changed from", |a| a.functions[1].returns = "uint64_t".into()),
        ("changed from", |a| a.constants[1].value += 1),
        ("moved or changed", |a| a.structs[0].fields.swap(1, 2)),
        ("is gone", |a| drop(a.structs.remove(0))),
        ("changed from", |a| a.aliases[0].ty = "int64_t".into()),
    ];
    for (wanted, spoil) in spoilers {
        let mut abi = current();
        spoil(&mut abi);
        // ABI_VERSION is a constant too: put the generation back if the spoiler hit it.
        let mut new = parse(&json::write(&abi, VERSION));
        new["abi_version"] = old["abi_version"].clone();
        let found = compat::breaks(&old, &new);
        assert!(found.iter().any(|f| f.contains(wanted)), "{wanted}: {found:?}");
        new["abi_version"] = Value::from(99);
        assert!(compat::breaks(&old, &new).is_empty(), "another generation may differ");
    }
}

#[test]
fn additions_break_nobody() {
    let old = parse(&json::write(&current(), VERSION));
    let mut abi = current();
    let mut more = abi.functions[0].clone();
    more.name = "cenote_more".into();
    abi.functions.push(more);
    let mut field = abi.structs[0].fields[0].clone();
    (field.name, field.offset) = ("more".into(), abi.structs[0].size);
    abi.structs[0].fields.push(field);
    assert_eq!(compat::breaks(&old, &parse(&json::write(&abi, VERSION))), Vec::<String>::new());
}

#[test]
fn only_the_first_generation_may_be_broken_before_a_release() {
    assert!(is_unreleased("# Changelog\n\n## [Unreleased]\n"));
    assert!(!is_unreleased("# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-01-01\n"));
}

/// A test of its own that asks rustc for the layout of the real types: generated too, so that no
/// field can be forgotten, and apart from this one, so that a renamed field can still be blessed.
fn layout_test(abi: &Abi) -> String {
    let mut out = String::from(
        "//! Layout of the real types against include/cenote.abi.json. Generated: `make bless`.\n\n\
         use cenote::ffi::types::*;\n\
         use std::mem::{align_of, offset_of, size_of};\n\n\
         type Row = (&'static str, &'static str, usize);\n\n\
         #[rustfmt::skip]\n",
    );
    out.push_str("const LAYOUT: &[Row] = &[\n");
    for s in &abi.structs {
        out.push_str(&format!("    (\"{0}\", \"size\", size_of::<{0}>()),\n", s.name));
        out.push_str(&format!("    (\"{0}\", \"align\", align_of::<{0}>()),\n", s.name));
        for f in &s.fields {
            let (name, field) = (&s.name, &f.name);
            out.push_str(&format!(
                "    (\"{name}\", \".{field}\", offset_of!({name}, {field})),\n"
            ));
        }
    }
    out.push_str("];\n");
    out.push_str(LAYOUT_CHECK);
    out
}

const LAYOUT_CHECK: &str = r#"
fn wrong(json: &serde_json::Value) -> Vec<String> {
    let mut found = Vec::new();
    for (name, what, real) in LAYOUT {
        let structs = json["structs"].as_array().expect("structs");
        let entry = structs.iter().find(|s| s["name"] == *name).expect(name);
        let said = match what.strip_prefix('.') {
            Some(field) => {
                let fields = entry["fields"].as_array().expect(name);
                fields.iter().find(|f| f["name"] == field).expect(what)["offset"].as_u64()
            }
            None => entry[*what].as_u64(),
        };
        if said != Some(*real as u64) {
            found.push(format!("{name} {what}: {real}, the JSON says {said:?}"));
        }
    }
    found
}

fn json() -> serde_json::Value {
    serde_json::from_str(include_str!("../include/cenote.abi.json")).expect("JSON")
}

#[test]
fn the_json_has_the_layout_of_the_real_types() {
    assert_eq!(wrong(&json()), Vec::<String>::new());
}

#[test]
fn a_wrong_layout_is_rejected() {
    let mut bad = json();
    bad["structs"][0]["fields"][1]["offset"] = 99.into();
    bad["structs"][0]["size"] = 1.into();
    assert_eq!(wrong(&bad).len(), 2);
}
"#;
