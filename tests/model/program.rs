//! What a program is made of, and how random ones come about.

use proptest::collection::vec;
use proptest::prelude::*;

/// Most streams that a device offers to programs.
pub const STREAMS: usize = 6;

/// One step. `pick` and `stream` count modulo what there is.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Allocate.
    Alloc { size: u64, align: u64, flags: u32, stream: usize },
    /// Free on the stream of the allocation.
    Free { pick: usize },
    /// Free on another stream.
    FreeOn { pick: usize, stream: usize },
    /// Use on another stream, recorded.
    Record { pick: usize, stream: usize },
    /// End a recorded use, or be refused.
    UseEnd { pick: usize, stream: usize },
    /// Pin, fail to free, unpin.
    Pin { pick: usize },
    /// Free wrongly in every way.
    Wrong { pick: usize },
    /// Trim.
    Trim { keep: u64 },
    /// Empty all caches of the device.
    Empty,
    /// Do what is due.
    Poll,
    /// Limit the device to what is held and some more; 0: no limit.
    Limit { room: u64 },
    /// Stop a stream: what is queued on it stays unfinished.
    Hold { stream: usize },
    /// Let all stopped streams go on.
    Release,
    /// Destroy a stream and make a new one in its place, with the same handle if possible.
    Renew { stream: usize },
}

/// A pool and the steps on it.
#[derive(Clone, Debug)]
pub struct Program {
    /// Limit of the pool, 0 for none.
    pub limit: u64,
    /// Slack in parts per million, 0 for the default.
    pub slack_ppm: u32,
    /// Decay in milliseconds, 0 for the default.
    pub decay_ms: u32,
    /// Flag STABLE.
    pub stable: bool,
    /// Bytes to take at creation.
    pub initial: u64,
    /// Steps.
    pub ops: Vec<Op>,
}

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 1..4096u64,
        3 => 4096..80_000u64,
        3 => 60_000..1_100_000u64,
        4 => (1u64 << 20)..(9 << 20),
        2 => (1..6u64).prop_map(|pages| pages << 21),
        1 => (8u64 << 20)..(40 << 20),
    ]
}

fn align() -> impl Strategy<Value = u64> {
    prop_oneof![6 => Just(0u64), 2 => (0..22u32).prop_map(|shift| 1 << shift)]
}

fn flags() -> impl Strategy<Value = u32> {
    prop_oneof![8 => Just(0u32), 1 => Just(1), 1 => Just(2), 1 => Just(4), 1 => 0..8u32]
}

fn op() -> impl Strategy<Value = Op> {
    let (pick, stream) = (0..64usize, 0..STREAMS);
    prop_oneof![
        14 => (size(), align(), flags(), stream.clone())
            .prop_map(|(size, align, flags, stream)| Op::Alloc { size, align, flags, stream }),
        7 => pick.clone().prop_map(|pick| Op::Free { pick }),
        3 => (pick.clone(), stream.clone()).prop_map(|(pick, stream)| Op::FreeOn { pick, stream }),
        3 => (pick.clone(), stream.clone()).prop_map(|(pick, stream)| Op::Record { pick, stream }),
        1 => (pick.clone(), stream.clone()).prop_map(|(pick, stream)| Op::UseEnd { pick, stream }),
        1 => pick.clone().prop_map(|pick| Op::Pin { pick }),
        1 => pick.prop_map(|pick| Op::Wrong { pick }),
        1 => prop_oneof![Just(0u64), 0..(64u64 << 20)].prop_map(|keep| Op::Trim { keep }),
        1 => Just(Op::Empty),
        1 => Just(Op::Poll),
        1 => prop_oneof![2 => Just(0u64), 1 => 1..(32u64 << 20)]
            .prop_map(|room| Op::Limit { room }),
        2 => stream.clone().prop_map(|stream| Op::Hold { stream }),
        1 => Just(Op::Release),
        1 => stream.prop_map(|stream| Op::Renew { stream }),
    ]
}

/// Random programs.
pub fn program() -> impl Strategy<Value = Program> {
    let limit = prop_oneof![2 => Just(0u64), 1 => (8u64 << 20)..(96 << 20)];
    let slack = prop_oneof![2 => Just(0u32), 1 => Just(1u32), 1 => Just(500_000u32)];
    let decay = prop_oneof![3 => Just(0u32), 1 => Just(1u32)];
    let initial = prop_oneof![4 => Just(0u64), 1 => 1..(8u64 << 20)];
    let stable = prop::bool::weighted(0.2);
    (limit, slack, decay, stable, initial, vec(op(), 1..160)).prop_map(
        |(limit, slack_ppm, decay_ms, stable, initial, ops)| Program {
            limit,
            slack_ppm,
            decay_ms,
            stable,
            initial: if limit == 0 { initial } else { 0 },
            ops,
        },
    )
}
