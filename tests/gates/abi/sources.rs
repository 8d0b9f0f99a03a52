//! The sources of the ABI: `src/ffi`, with the types that it takes from lower layers put in.

use quote::ToTokens;
use std::path::Path;
use syn::{Item, UseTree};

/// The order of the nouns in the header; a noun that is not here comes after them, by name.
const NOUNS: [&str; 7] = ["types", "runtime", "device", "pool", "block", "stream", "torch"];

/// Every source of `src/ffi` that describes something, as (noun, text), in the header's order.
pub fn read(root: &Path) -> Result<Vec<(String, String)>, String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root.join("src/ffi")).map_err(|e| e.to_string())? {
        let path = entry.map_err(|e| e.to_string())?.path();
        let noun = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_some_and(|e| e == "rs") {
            let text = text_of(&path)?;
            if text.contains("#[no_mangle]") || noun == "types" {
                found.push((noun, text));
            }
        }
    }
    let place = |noun: &str| NOUNS.iter().position(|n| *n == noun).unwrap_or(NOUNS.len());
    found.sort_by_key(|(noun, _)| (place(noun), noun.clone()));
    for (noun, text) in &mut found {
        let taken = borrowed(root, text).map_err(|e| format!("{noun}.rs: {e}"))?;
        text.push_str(&taken);
    }
    Ok(found)
}

fn text_of(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Text of the items that a source re-exports by `pub use crate::layer::file::cenote_name;`.
fn borrowed(root: &Path, text: &str) -> Result<String, String> {
    let file = syn::parse_file(text).map_err(|e| e.to_string())?;
    let mut out = String::new();
    for item in &file.items {
        let Item::Use(used) = item else { continue };
        if !matches!(used.vis, syn::Visibility::Public(_)) {
            continue;
        }
        let path = segments(&used.tree);
        if let Some((name, modules)) = path.split_last() {
            if name.to_lowercase().starts_with("cenote_") {
                out.push_str(&item_text(root, modules, name)?);
            }
        }
    }
    Ok(out)
}

/// The names of a plain path `a::b::c`; empty for lists and globs, which the ABI does not use.
fn segments(tree: &UseTree) -> Vec<String> {
    match tree {
        UseTree::Name(name) => vec![name.ident.to_string()],
        UseTree::Path(path) => {
            let rest = segments(&path.tree);
            let head = std::iter::once(path.ident.to_string());
            if rest.is_empty() {
                rest
            } else {
                head.chain(rest).collect()
            }
        }
        _ => Vec::new(),
    }
}

fn item_text(root: &Path, modules: &[String], name: &str) -> Result<String, String> {
    let modules = modules.strip_prefix(&["crate".to_string()]).unwrap_or(modules);
    let base = modules.iter().fold(root.join("src"), |path, module| path.join(module));
    let (file, folder) = (base.with_extension("rs"), base.join("mod.rs"));
    let text = text_of(if file.exists() { &file } else { &folder })?;
    let parsed = syn::parse_file(&text).map_err(|e| e.to_string())?;
    let found = parsed.items.iter().find(|item| match item {
        Item::Struct(s) => s.ident == name,
        Item::Type(t) => t.ident == name,
        Item::Const(c) => c.ident == name,
        _ => false,
    });
    let item = found.ok_or(format!("{name} is not in {}", modules.join("::")))?;
    Ok(format!("\n{}\n", item.to_token_stream()))
}
