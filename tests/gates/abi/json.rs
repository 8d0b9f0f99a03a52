//! include/cenote.abi.json: one line an entry, so that a diff reads as the change it is.

use super::model::{Abi, Callback, Param};
use cenote::base::Status;

/// Writes the model as JSON.
pub fn write(abi: &Abi, version: &str) -> String {
    let mut out = String::from("{\n");
    let generation = abi.constants.iter().find(|c| c.name == "CENOTE_ABI_VERSION");
    out.push_str(&format!("  \"version\": {},\n", text(version)));
    out.push_str(&format!("  \"abi_version\": {},\n", generation.map_or(0, |c| c.value)));
    section(
        &mut out,
        "types",
        abi.aliases.iter().map(|a| {
            let base = format!("{{\"name\": {}, \"type\": {}", text(&a.name), text(&a.ty));
            format!("{base}{}}}", a.callback.as_ref().map_or(String::new(), callback))
        }),
    );
    section(
        &mut out,
        "constants",
        abi.constants.iter().map(|c| {
            format!(
                "{{\"name\": {}, \"type\": {}, \"value\": {}, {}}}",
                text(&c.name),
                text(&c.ty),
                c.value,
                life(&c.name, &c.since)
            )
        }),
    );
    section(
        &mut out,
        "statuses",
        Status::ALL.iter().map(|(status, name, meaning)| {
            format!(
                "{{\"name\": {}, \"number\": {}, \"text\": {}}}",
                text(name.trim_end_matches('\0')),
                status.0,
                text(meaning.trim_end_matches('\0'))
            )
        }),
    );
    section(
        &mut out,
        "structs",
        abi.structs.iter().map(|s| {
            let fields: Vec<_> = s
                .fields
                .iter()
                .map(|f| {
                    format!(
                        "      {{\"name\": {}, \"type\": {}, \"offset\": {}, \"size\": {}{}}}",
                        text(&f.name),
                        text(&f.ty),
                        f.offset,
                        f.size,
                        f.callback.as_ref().map_or(String::new(), callback)
                    )
                })
                .collect();
            format!(
                "{{\"name\": {}, \"size\": {}, \"align\": {}, {}, \"fields\": [\n{}]}}",
                text(&s.name),
                s.size,
                s.align,
                life(&s.name, &s.since),
                fields.join(",\n")
            )
        }),
    );
    section(
        &mut out,
        "symbols",
        abi.functions.iter().map(|f| {
            format!(
                "{{\"name\": {}, \"noun\": {}, {}, \"return\": {}, \"params\": {}}}",
                text(&f.name),
                text(&f.noun),
                life(&f.name, &f.since),
                text(&f.returns),
                params(&f.params)
            )
        }),
    );
    out.truncate(out.trim_end().trim_end_matches(',').len());
    out.push_str("\n}\n");
    out
}

fn section(out: &mut String, name: &str, entries: impl Iterator<Item = String>) {
    let lines: Vec<_> = entries.map(|e| format!("    {e}")).collect();
    out.push_str(&format!("  \"{name}\": [\n{}\n  ],\n", lines.join(",\n")));
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
