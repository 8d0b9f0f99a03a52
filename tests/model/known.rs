//! Programs that once found a mistake, shrunk.

use crate::program::{Op, Program};

fn a(size: u64, align: u64, stream: usize) -> Op {
    Op::Alloc { size, align, flags: 0, stream }
}

/// A trim gave back a handle whose page ended in the unfinished range of another stream: the rest
/// of that range lost its tag and was handed out while the stream ran.
pub fn trim_beside_an_unfinished_range() -> Program {
    let ops = vec![
        a(20021249, 0, 0),
        a(1, 1024, 0),
        a(1, 0, 0),
        a(1, 0, 0),
        Op::FreeOn { pick: 14, stream: 0 },
        a(3618817, 0, 2),
        a(1, 0, 0),
        a(1048577, 0, 0),
        Op::Hold { stream: 2 },
        a(1, 1024, 0),
        a(1048577, 0, 0),
        a(65537, 0, 0),
        Op::Free { pick: 0 },
        a(1, 0, 0),
        Op::Free { pick: 3 },
        a(1, 0, 0),
        a(1, 0, 0),
        a(1, 0, 0),
        a(1, 1024, 0),
        a(65537, 0, 0),
        a(1, 0, 0),
        a(65537, 0, 0),
        Op::Free { pick: 5 },
        a(1, 0, 0),
        Op::Trim { keep: 0 },
        a(1048577, 0, 0),
    ];
    Program { limit: 0, slack_ppm: 0, decay_ms: 0, stable: false, initial: 0, ops }
}
