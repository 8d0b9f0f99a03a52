//! include/cenote.h: cbindgen's declarations under the preamble, shaped for the C reader.

use super::model::Abi;
use cenote::base::Status;
use std::path::Path;

/// Makes the header of sources given as (noun, text). They are written to `dir`, for cbindgen reads
/// files.
pub fn header(
    root: &Path,
    dir: &Path,
    sources: &[(String, String)],
    version: &str,
) -> Result<String, String> {
    let mut config = cbindgen::Config::from_file(root.join("cbindgen.toml"))?;
    let conventions = root.join("src/ffi/conventions.md");
    let conventions = std::fs::read_to_string(&conventions).map_err(|e| e.to_string())?;
    config.header = Some(preamble(&conventions));
    config.after_includes = Some(format!("\n{}\n{}", version_macros(version)?, status_macros()));
    let mut builder = cbindgen::Builder::new().with_config(config);
    for (noun, text) in sources {
        let file = dir.join(format!("{noun}.rs"));
        std::fs::write(&file, text).map_err(|e| e.to_string())?;
        builder = builder.with_src(file);
    }
    let bindings = builder.generate().map_err(|e| e.to_string())?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    let text = String::from_utf8(text).map_err(|e| e.to_string())?;
    Ok(banners(&one_line_comments(&strip_safety(&text)), &Abi::read(sources)?))
}

fn preamble(conventions: &str) -> String {
    let mut out =
        String::from("/*\n * cenote.h: generated from src/ffi, do not edit; `make bless`.\n *\n");
    for line in conventions.lines() {
        out.push_str(format!(" * {line}").trim_end());
        out.push('\n');
    }
    out.push_str(" */");
    out
}

/// The version of the header as macros; the composed number grows with every version.
pub fn version_macros(version: &str) -> Result<String, String> {
    let numbers: Vec<u32> = version
        .split('.')
        .map(|part| part.parse().map_err(|_| format!("version {version} is not three numbers")))
        .collect::<Result<_, _>>()?;
    let [major, minor, patch] = numbers[..] else {
        return Err(format!("version {version} is not three numbers"));
    };
    Ok(format!(
        "/** Version of this header. */\n\
         #define CENOTE_VERSION_MAJOR {major}\n\
         #define CENOTE_VERSION_MINOR {minor}\n\
         #define CENOTE_VERSION_PATCH {patch}\n\
         /** The three as one number that grows with every version. */\n\
         #define CENOTE_VERSION_NUMBER \\\n    \
         (CENOTE_VERSION_MAJOR * 1000000 + CENOTE_VERSION_MINOR * 1000 + CENOTE_VERSION_PATCH)\n\
         #define CENOTE_VERSION_STRING \"{version}\"\n"
    ))
}

fn status_macros() -> String {
    let mut out = String::from("/* ---- Statuses: the values of cenote_status ---- */\n\n");
    for (status, name, meaning) in Status::ALL {
        let (name, meaning) = (name.trim_end_matches('\0'), meaning.trim_end_matches('\0'));
        out.push_str(&format!("/** {}. */\n#define {name} {}\n", capital(meaning), status.0));
    }
    out
}

fn capital(text: &str) -> String {
    if text.split(' ').next().is_some_and(|word| word.contains('_')) {
        return text.into();
    }
    let mut chars = text.chars();
    let first = chars.next().map_or(String::new(), |c| c.to_uppercase().to_string());
    first + chars.as_str()
}

/// Drops the "# Safety" sections: they speak to the Rust reader.
pub fn strip_safety(header: &str) -> String {
    let mut out: Vec<&str> = Vec::new();
    let mut inside = false;
    for line in header.lines() {
        let trimmed = line.trim();
        if trimmed == "* # Safety" {
            inside = true;
            while out.last().is_some_and(|l| l.trim() == "*") {
                out.pop();
            }
        } else if inside && trimmed == "*/" {
            inside = false;
        }
        if !inside {
            out.push(line);
        }
    }
    out.join("\n") + "\n"
}

/// A comment of one line takes one line.
fn one_line_comments(header: &str) -> String {
    let lines: Vec<&str> = header.lines().collect();
    let mut out = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        if let [open, text, close] = lines[at..lines.len().min(at + 3)] {
            let short = text.trim().strip_prefix("* ").filter(|t| t.len() < 88);
            if let (true, Some(text), true) = (open.trim() == "/**", short, close.trim() == "*/") {
                out.push(format!("{open} {text} */"));
                at += 3;
                continue;
            }
        }
        out.push(lines[at].to_string());
        at += 1;
    }
    out.join("\n") + "\n"
}

/// Puts a line with the noun before the first function of each noun.
fn banners(header: &str, abi: &Abi) -> String {
    let mut lines: Vec<String> = header.lines().map(str::to_string).collect();
    for (noun, title) in abi.nouns.iter().rev() {
        let Some(first) = abi.functions.iter().find(|f| &f.noun == noun) else { continue };
        let call = format!("{}(", first.name);
        let Some(at) = lines.iter().position(|l| is_declaration(l, &call)) else { continue };
        let start =
            lines[..at].iter().rposition(|l| l.trim_start().starts_with("/**")).unwrap_or(at);
        lines.insert(start, format!("/* ---- {} ---- */\n", title.trim_end_matches('.')));
    }
    lines.join("\n") + "\n"
}

fn is_declaration(line: &str, call: &str) -> bool {
    line.contains(call) && !line.trim_start().starts_with('*')
}
