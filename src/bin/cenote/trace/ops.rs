//! A trace as lines that any program can read: "+ ID BYTES" allocates a block, "- ID" frees it.

use super::{OpKind, Trace};
use std::fmt::Write;

/// The operations, one a line, under a comment that says what they are.
pub fn write(trace: &Trace) -> String {
    let mut out = format!("# {}: + ID BYTES allocates, - ID frees\n", trace.name);
    for op in &trace.ops {
        let done = match op.kind {
            OpKind::Alloc => writeln!(out, "+ {} {}", op.block, op.size_bytes),
            OpKind::Free => writeln!(out, "- {}", op.block),
        };
        debug_assert!(done.is_ok(), "writing to a string cannot fail");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Op;

    #[test]
    fn each_operation_is_a_line() {
        let op = |kind, block, size_bytes| Op { size_bytes, block, stream: 0, kind };
        let trace = Trace {
            name: "small".into(),
            ops: vec![op(OpKind::Alloc, 0, 512), op(OpKind::Free, 0, 512)],
            pre_count: 0,
            streams: vec![0],
            block_count: 1,
        };
        assert_eq!(write(&trace), "# small: + ID BYTES allocates, - ID frees\n+ 0 512\n- 0\n");
    }
}
