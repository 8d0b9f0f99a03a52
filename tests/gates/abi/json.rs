//! include/cenote.abi.json: one line an entry, so that a diff reads as the change it is.

use super::model::{Abi, Alias, Callback, Constant, Field, Function, Param, Struct};
use cenote::base::Status;

/// Writes the model as JSON.
pub fn write(abi: &Abi, version: &str) -> String {
    let generation = abi.constants.iter().find(|c| c.name == "CENOTE_ABI_VERSION");
    let sections = [
        section("types", abi.aliases.iter().map(alias)),
        section("constants", abi.constants.iter().map(constant)),
        section("statuses", Status::ALL.iter().map(status)),
        section("structs", abi.structs.iter().map(structure)),
        section("symbols", abi.functions.iter().map(symbol)),
    ];
    format!(
        "{{\n  \"version\": {},\n  \"abi_version\": {},\n{}\n}}\n",
        text(version),
        generation.map_or(0, |c| c.value),
        sections.join(",\n")
    )
}

fn alias(a: &Alias) -> String {
    let pointer = a.callback.as_ref().map_or(String::new(), callback);
    format!("{{\"name\": {}, \"type\": {}{pointer}}}", text(&a.name), text(&a.ty))
}

fn constant(c: &Constant) -> String {
    let (name, ty, life) = (text(&c.name), text(&c.ty), life(&c.name, &c.since));
    format!("{{\"name\": {name}, \"type\": {ty}, \"value\": {}, {life}}}", c.value)
}

fn status((status, name, meaning): &(Status, &str, &str)) -> String {
    let (name, meaning) = (text(name.trim_end_matches('\0')), text(meaning.trim_end_matches('\0')));
    format!("{{\"name\": {name}, \"number\": {}, \"text\": {meaning}}}", status.0)
}

fn structure(s: &Struct) -> String {
    let fields: Vec<_> = s.fields.iter().map(field).collect();
    format!(
        "{{\"name\": {}, \"size\": {}, \"align\": {}, {}, \"fields\": [\n{}]}}",
        text(&s.name),
        s.size,
        s.align,
        life(&s.name, &s.since),
        fields.join(",\n")
    )
}

fn field(f: &Field) -> String {
    format!(
        "      {{\"name\": {}, \"type\": {}, \"offset\": {}, \"size\": {}{}}}",
        text(&f.name),
        text(&f.ty),
        f.offset,
        f.size,
        f.callback.as_ref().map_or(String::new(), callback)
    )
}

fn symbol(f: &Function) -> String {
    format!(
        "{{\"name\": {}, \"noun\": {}, {}, \"return\": {}, \"params\": {}}}",
        text(&f.name),
        text(&f.noun),
        life(&f.name, &f.since),
        text(&f.returns),
        params(&f.params)
    )
}

fn section(name: &str, entries: impl Iterator<Item = String>) -> String {
    let lines: Vec<_> = entries.map(|e| format!("    {e}")).collect();
    format!("  \"{name}\": [\n{}\n  ]", lines.join(",\n"))
}

/// Experimental names carry an `x`; everything else is promised for the whole ABI generation.
fn life(name: &str, since: &Option<String>) -> String {
    let lower = name.to_lowercase();
    let stability = if lower.starts_with("cenote_x_") { "experimental" } else { "stable" };
    let since = since.as_deref().unwrap_or("0.1");
    format!("\"since\": {}, \"stability\": \"{stability}\"", text(since))
}

fn callback(c: &Callback) -> String {
    format!(", \"return\": {}, \"params\": {}", text(&c.returns), params(&c.params))
}

fn params(list: &[Param]) -> String {
    let items: Vec<_> = list
        .iter()
        .map(|p| format!("{{\"name\": {}, \"type\": {}}}", text(&p.name), text(&p.ty)))
        .collect();
    format!("[{}]", items.join(", "))
}

fn text(s: &str) -> String {
    serde_json::Value::from(s).to_string()
}
