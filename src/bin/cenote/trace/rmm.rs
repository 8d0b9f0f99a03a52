//! RMM's allocation log: `Thread,Time,Action,Pointer,Size,Stream`.
//!
//! RMM writes `free` before it frees and `allocate` after it has allocated, so the order of the
//! file is an order in which every address is live once. Streams are hexadecimal in RMM's own
//! files, decimal in what other tools write. An `allocate failure` changed nothing and is passed
//! over, as are blocks of no bytes, which RMM logs with a null pointer.

use super::csv::{Row, Table};
use super::{Builder, Trace};
use crate::failure::{Failure, Outcome};
use std::path::Path;

/// Columns of the format; Thread and Time do not matter here.
pub const COLUMNS: &[&str] = &["Action", "Pointer", "Size", "Stream"];
const ACTION: usize = 0;
const POINTER: usize = 1;
const SIZE: usize = 2;
const STREAM: usize = 3;

/// Read an RMM log.
pub fn read(path: &Path, text: &str, name: String) -> Outcome<Trace> {
    let table = Table::new(path, text, COLUMNS)?;
    let mut builder = Builder::new();
    for row in table.rows() {
        event(&row?, &mut builder)?;
    }
    if builder.is_empty() {
        return Err(Failure::file(path, "holds no operation"));
    }
    Ok(builder.finish(name))
}

fn event(row: &Row, builder: &mut Builder) -> Outcome<()> {
    let pointer = row.handle(POINTER)?;
    let (size_bytes, stream) = (row.number(SIZE)?, row.handle(STREAM)?);
    let done = match row.text(ACTION) {
        "allocate failure" => Ok(()),
        "allocate" | "free" if pointer == 0 && size_bytes == 0 => Ok(()),
        "allocate" if pointer == 0 => return Err(row.fail("allocates a null pointer")),
        "allocate" => builder.alloc(pointer, size_bytes, stream),
        "free" => builder.free(pointer, Some(stream)),
        other => return Err(row.fail(format_args!("action \"{other}\" is unknown"))),
    };
    done.map_err(|reject| row.fail(reject))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "Thread,Time,Action,Pointer,Size,Stream\n";

    fn parse(rows: &str) -> Outcome<Trace> {
        read(Path::new("r.csv"), &format!("{HEAD}{rows}"), "r".into())
    }

    #[test]
    fn hexadecimal_and_decimal_mean_the_same() {
        let t = parse(
            "1,10:00:00.000001,allocate,0x7f00,4096,0x10\n\
             1,10:00:00.000002,allocate failure,(nil),99999999,0x10\n\
             1,10:00:00.000002,allocate,(nil),0,0\n\
             2,10:00:00.000003,free,32512,4096,16\n",
        )
        .unwrap();
        assert_eq!((t.ops.len(), t.block_count, t.streams.as_slice()), (2, 1, &[16][..]));
    }

    #[test]
    fn columns_may_stand_in_another_order() {
        let text = "Stream,Size,Pointer,Action\n0,8,0x1,allocate\n";
        assert_eq!(read(Path::new("r"), text, "r".into()).unwrap().ops.len(), 1);
    }

    #[test]
    fn bad_rows_are_named_by_their_line() {
        let message = |rows: &str| parse(rows).unwrap_err().to_string();
        assert_eq!(message("1,0,free,0x5,8,0\n"), "r.csv:2: frees 0x5, which was never allocated");
        assert_eq!(
            message("1,0,allocate,0x5,8,0\n1,0,allocate,0x5,8,0\n"),
            "r.csv:3: allocates 0x5, which is still allocated"
        );
        assert!(message("1,0,allocate,0x0,8,0\n").contains("null pointer"));
        assert!(message("1,0,resize,0x5,8,0\n").contains("action \"resize\" is unknown"));
        assert!(message("1,0,allocate,0x5,-8,0\n").contains("-8 is negative"));
        assert!(message("1,0,allocate,0xzz,8,0\n").contains("is not a number"));
        assert_eq!(message(""), "r.csv: holds no operation");
    }
}
