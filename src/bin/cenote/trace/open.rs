//! Opens a file of any format: by its content, or as what the user says it is.

use super::{azure, compact, csv, events, rmm, snapshot, Trace};
use crate::failure::{Failure, Outcome};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The input formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// By content
    Auto,
    /// PyTorch memory snapshot (pickle)
    Snapshot,
    /// Event list: phase,t_us,op,id,bytes,stream
    Csv,
    /// Azure's table of LLM requests: TIMESTAMP,ContextTokens,GeneratedTokens
    Azure,
    /// RMM log: Thread,Time,Action,Pointer,Size,Stream
    Rmm,
    /// cenote's own compact trace
    Cenote,
}

/// Larger files are refused: a recording that long is replayed in parts.
const MOST_FILE_BYTES: u64 = 2 << 30;

/// Read a file: one trace, or for a snapshot one for each device with a history.
pub fn open(path: &Path, format: Format) -> Outcome<Vec<Trace>> {
    let bytes = content(path)?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let format = match format {
        Format::Auto => detect(&bytes).ok_or_else(|| unknown(path, &bytes))?,
        given => given,
    };
    match format {
        Format::Snapshot => return snapshot::read(path, &bytes, &name),
        Format::Cenote => return Ok(vec![compact::read(path, &bytes, name)?]),
        _ => {}
    }
    let text = csv::text(path, &bytes)?;
    let trace = match format {
        Format::Azure => azure::read(path, text, name)?,
        Format::Rmm => rmm::read(path, text, name)?,
        _ => events::read(path, text, name)?,
    };
    Ok(vec![trace])
}

fn content(path: &Path) -> Outcome<Vec<u8>> {
    let fail = |e: std::io::Error| Failure::file(path, format_args!("cannot be read: {e}"));
    let file = File::open(path).map_err(fail)?;
    let length = file.metadata().map_err(fail)?.len();
    let mut bytes = Vec::new();
    if length <= MOST_FILE_BYTES {
        // One byte more than allowed shows that a pipe or a growing file is too long.
        file.take(MOST_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(fail)?;
    }
    if length > MOST_FILE_BYTES || bytes.len() as u64 > MOST_FILE_BYTES {
        return Err(Failure::file(path, "larger than 2 GiB; record or convert it in parts"));
    }
    Ok(bytes)
}

/// The format by the first bytes; for tables, by the names of their columns.
fn detect(bytes: &[u8]) -> Option<Format> {
    if bytes.starts_with(compact::MAGIC) {
        return Some(Format::Cenote);
    }
    if bytes.len() >= 2 && bytes[0] == 0x80 && (2..=5).contains(&bytes[1]) {
        return Some(Format::Snapshot);
    }
    let first_line = bytes.split(|b| *b == b'\n').next().filter(|line| line.len() < 4_096)?;
    let header = csv::header_names(std::str::from_utf8(first_line).ok()?);
    // Most columns are enough: a table that lacks one is better told which than not recognised.
    let resembles = |columns: &[&str]| {
        let found = columns.iter().filter(|c| header.iter().any(|h| h.eq_ignore_ascii_case(c)));
        found.count() + 1 >= columns.len().max(3)
    };
    [(Format::Csv, events::COLUMNS), (Format::Rmm, rmm::COLUMNS), (Format::Azure, azure::COLUMNS)]
        .into_iter()
        .find(|(_, columns)| resembles(columns))
        .map(|(format, _)| format)
}

fn unknown(path: &Path, bytes: &[u8]) -> Failure {
    if bytes.is_empty() {
        return Failure::file(path, "the file is empty");
    }
    Failure::file(
        path,
        "no trace that cenote can read (PyTorch snapshot, event CSV, Azure table, RMM log, \
         .cenotetrace); --from names a format",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_known_by_content() {
        assert_eq!(detect(b"cenotetr\x01"), Some(Format::Cenote));
        assert_eq!(detect(b"\x80\x04}."), Some(Format::Snapshot));
        assert_eq!(detect(b"phase,t_us,op,id,bytes,stream\r\n"), Some(Format::Csv));
        assert_eq!(detect(b"phase,t_us,op,id,stream\n"), Some(Format::Csv));
        assert_eq!(detect(b"Thread,Time,Action,Pointer,Size,Stream\n"), Some(Format::Rmm));
        assert_eq!(detect(b"TIMESTAMP,ContextTokens,GeneratedTokens\n"), Some(Format::Azure));
        assert_eq!(detect(b"TIMESTAMP,ContextTokens\n"), Some(Format::Azure));
        for other in [&b""[..], b"\x80", b"\x80\x09", b"id,lower,upper,size\n", b"\xff\xfe,\n"] {
            assert_eq!(detect(other), None, "{other:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_one_line_with_the_name() {
        let e = open(Path::new("/nonexistent/trace"), Format::Auto).unwrap_err();
        assert!(e.to_string().starts_with("/nonexistent/trace: cannot be read"), "{e}");
        assert_eq!(e.code(), 2);
        let e = open(Path::new("/"), Format::Auto).unwrap_err();
        assert!(e.to_string().starts_with("/: cannot be read"), "{e}");
    }
}
