//! The promise: within one ABI generation nothing stable is removed or changed.

use serde_json::Value;
use std::collections::BTreeMap;

/// What breaks callers of `old` when they meet `new`. Additions break nobody.
pub fn breaks(old: &Value, new: &Value) -> Vec<String> {
    if old["abi_version"] != new["abi_version"] {
        return Vec::new();
    }
    let mut found = Vec::new();
    for section in ["types", "constants", "statuses", "symbols"] {
        let (old, new) = (by_name(&old[section]), by_name(&new[section]));
        for (name, entry) in old.into_iter().filter(|(_, e)| is_stable(e)) {
            match new.get(name) {
                None => found.push(format!("{section}: {name} is gone")),
                Some(now) if shape(now) != shape(entry) => {
                    found.push(format!("{section}: {name} changed from {entry} to {now}"))
                }
                Some(_) => {}
            }
        }
    }
    struct_breaks(&by_name(&old["structs"]), &by_name(&new["structs"]), &mut found);
    found
}

/// A struct may grow at its end; every field it had stays where and what it was.
fn struct_breaks(
    old: &BTreeMap<&str, &Value>,
    new: &BTreeMap<&str, &Value>,
    found: &mut Vec<String>,
) {
    for (name, entry) in old.iter().filter(|(_, e)| is_stable(e)) {
        let Some(now) = new.get(name) else {
            found.push(format!("structs: {name} is gone"));
            continue;
        };
        if now["align"] != entry["align"] {
            found.push(format!("structs: alignment of {name} changed"));
        }
        let (was, is) = (list(&entry["fields"]), list(&now["fields"]));
        for (index, field) in was.iter().enumerate() {
            if is.get(index) != Some(field) {
                found.push(format!("structs: {name}.{} moved or changed", text(&field["name"])));
            }
        }
    }
}

fn is_stable(entry: &Value) -> bool {
    entry.get("stability").is_none_or(|s| s == "stable")
}

/// What a caller depends on: not the wording of a status, nor in which chapter a symbol stands.
fn shape(entry: &Value) -> Value {
    let mut entry = entry.clone();
    if let Some(map) = entry.as_object_mut() {
        map.remove("text");
        map.remove("noun");
        for param in map.get_mut("params").and_then(Value::as_array_mut).into_iter().flatten() {
            param.as_object_mut().map(|p| p.remove("name"));
        }
    }
    entry
}

fn by_name(section: &Value) -> BTreeMap<&str, &Value> {
    list(section).iter().map(|e| (text(&e["name"]), e)).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}
