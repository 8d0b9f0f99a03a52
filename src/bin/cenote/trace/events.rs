//! The event list of a PyTorch recording: `phase,t_us,op,id,bytes,stream`.
//!
//! `pre` rows were live when recording began; `segment_alloc` and `segment_free` tell what the
//! recorded allocator did and are passed over, for the replayed one decides that itself.

use super::csv::{Row, Table};
use super::{Builder, Trace};
use crate::failure::{Failure, Outcome};
use std::path::Path;

/// Columns of the format.
pub const COLUMNS: &[&str] = &["phase", "t_us", "op", "id", "bytes", "stream"];
const PHASE: usize = 0;
const TIME: usize = 1;
const OP: usize = 2;
const ID: usize = 3;
const BYTES: usize = 4;
const STREAM: usize = 5;

/// Read an event list.
pub fn read(path: &Path, text: &str, name: String) -> Outcome<Trace> {
    let table = Table::new(path, text, COLUMNS)?;
    let mut builder = Builder::new();
    let mut recording = false;
    for row in table.rows() {
        let row = row?;
        let pre = match row.text(PHASE) {
            "pre" => true,
            "rec" => false,
            other => return Err(row.fail(format_args!("phase \"{other}\" is neither pre nor rec"))),
        };
        if pre && recording {
            return Err(row.fail("a pre row after the first rec row"));
        }
        if !pre && !recording {
            builder.end_of_pre();
            recording = true;
        }
        event(&row, pre, &mut builder)?;
    }
    if builder.is_empty() {
        return Err(Failure::file(path, "holds no operation"));
    }
    if !recording {
        builder.end_of_pre();
    }
    Ok(builder.finish(name))
}

fn event(row: &Row, pre: bool, builder: &mut Builder) -> Outcome<()> {
    row.number(TIME)?;
    let (size_bytes, stream) = (row.number(BYTES)?, row.handle(STREAM)?);
    let done = match row.text(OP) {
        "alloc" => builder.alloc(row.number(ID)?, size_bytes, stream),
        "free" if !pre => builder.free(row.number(ID)?, Some(stream)),
        "segment_alloc" | "segment_free" if !pre => Ok(()),
        other => return Err(row.fail(format_args!("op \"{other}\" is unknown here"))),
    };
    done.map_err(|reject| row.fail(reject))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::OpKind;

    const HEAD: &str = "phase,t_us,op,id,bytes,stream\n";

    fn parse(rows: &str) -> Outcome<Trace> {
        read(Path::new("x.csv"), &format!("{HEAD}{rows}"), "x".into())
    }

    #[test]
    fn pre_blocks_come_first_and_segments_are_passed_over() {
        let t = parse(
            "pre,0,alloc,9,100,0\nrec,1,segment_alloc,0,2097152,0\nrec,1,alloc,1,50,7\n\
             rec,2,free,9,100,0\n",
        )
        .unwrap();
        assert_eq!((t.pre_count, t.ops.len(), t.streams.as_slice()), (1, 3, &[0, 7][..]));
        assert_eq!(t.ops[2].kind, OpKind::Free);
        assert_eq!(parse("pre,0,alloc,1,1,0\n").unwrap().pre_count, 1);
    }

    #[test]
    fn bad_rows_are_named_by_their_line() {
        let message = |rows: &str| parse(rows).unwrap_err().to_string();
        assert_eq!(message(""), "x.csv: holds no operation");
        assert_eq!(
            message("rec,0,alloc,1,8,0\nrec,1,free,2,8,0\n"),
            "x.csv:3: frees 0x2, which was never allocated"
        );
        assert_eq!(
            message("rec,0,alloc,1,8,0\nrec,1,free,1,8,0\nrec,1,free,1,8,0\n"),
            "x.csv:4: frees 0x1, which is already free"
        );
        assert_eq!(message("rec,0,alloc,1,-8,0\n"), "x.csv:2: column \"bytes\": -8 is negative");
        assert!(message("rec,0,alloc,1,8,0\npre,0,alloc,2,8,0\n").contains(":3: a pre row"));
        assert!(message("pre,0,free,2,8,0\n").contains("op \"free\" is unknown here"));
        assert!(message("mid,0,free,2,8,0\n").contains("neither pre nor rec"));
        assert!(message("rec,0,grow,2,8,0\n").contains("op \"grow\""));
        assert!(message("rec,0,alloc,1\n").contains("the row has no column \"bytes\""));
    }
}
