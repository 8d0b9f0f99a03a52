//! A trace: what a program asked of its allocator, in order. Every input format becomes one of
//! these.
//!
//! Blocks are numbered in the order in which they are allocated, so an operation names its block by
//! a small number and replaying needs no look-up. Nothing about the source stays but the stream
//! values: names, times and call stacks do not change what an allocator does.

pub mod azure;
pub mod compact;
pub mod csv;
pub mod events;
pub mod guard;
pub mod open;
pub mod ops;
pub mod rmm;
pub mod snapshot;
pub mod thin;

use std::collections::HashMap;
use std::fmt;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// Allocate the block.
    Alloc,
    /// Free it.
    Free,
}

/// One operation; `size_bytes` is the block's size for both kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// Requested bytes of the block.
    pub size_bytes: u64,
    /// Number of the block: the n-th allocation of the trace allocates block n.
    pub block: u32,
    /// Index into the trace's streams.
    pub stream: u16,
    /// What happens.
    pub kind: OpKind,
}

/// A whole trace, checked: each free frees a live block, sums do not overflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Name for tables and reports.
    pub name: String,
    /// The operations in order.
    pub ops: Vec<Op>,
    /// How many of the first operations allocate what was live before recording began.
    pub pre_count: usize,
    /// The streams' values in the source.
    pub streams: Vec<u64>,
    /// Number of blocks.
    pub block_count: u32,
}

impl Trace {
    /// Most bytes live at once.
    pub fn peak_live_bytes(&self) -> u64 {
        let (mut live, mut peak) = (0u64, 0u64);
        for op in &self.ops {
            match op.kind {
                OpKind::Alloc => live += op.size_bytes,
                OpKind::Free => live -= op.size_bytes,
            }
            peak = peak.max(live);
        }
        peak
    }
}

/// Why an operation cannot be part of a trace; the reader adds file and line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reject {
    /// The key is allocated already.
    StillLive(u64),
    /// The key is not allocated.
    NeverAllocated(u64),
    /// The key was allocated once, but is free.
    AlreadyFree(u64),
    /// The live bytes would pass what an address space can hold.
    TooMuchLive(u64),
    /// More streams than an operation can name.
    TooManyStreams,
    /// More blocks than an operation can name.
    TooManyBlocks,
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reject::StillLive(key) => write!(f, "allocates {key:#x}, which is still allocated"),
            Reject::NeverAllocated(key) => write!(f, "frees {key:#x}, which was never allocated"),
            Reject::AlreadyFree(key) => write!(f, "frees {key:#x}, which is already free"),
            Reject::TooMuchLive(size) => {
                write!(f, "allocates {size} bytes: more than 2^63 bytes would be live")
            }
            Reject::TooManyStreams => write!(f, "uses more than 65,536 streams"),
            Reject::TooManyBlocks => write!(f, "allocates more than 2^32 - 1 blocks"),
        }
    }
}

/// A live block while a trace is built.
#[derive(Clone, Copy)]
struct Live {
    block: u32,
    size_bytes: u64,
    stream: u16,
}

/// Builds a trace from keyed events and refuses what no program can have done.
#[derive(Default)]
pub struct Builder {
    ops: Vec<Op>,
    pre_count: usize,
    blocks: HashMap<u64, Option<Live>>,
    block_count: u32,
    streams: Vec<u64>,
    stream_index: HashMap<u64, u16>,
    live_bytes: u64,
}

impl Builder {
    /// An empty trace.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Allocate under a key: an id or an address.
    pub fn alloc(&mut self, key: u64, size_bytes: u64, stream: u64) -> Result<(), Reject> {
        if matches!(self.blocks.get(&key), Some(Some(_))) {
            return Err(Reject::StillLive(key));
        }
        let live_bytes = self.live_bytes.checked_add(size_bytes).filter(|sum| *sum < 1 << 63);
        self.live_bytes = live_bytes.ok_or(Reject::TooMuchLive(size_bytes))?;
        let stream = self.stream(stream)?;
        let block = self.block_count;
        self.block_count = block.checked_add(1).ok_or(Reject::TooManyBlocks)?;
        self.blocks.insert(key, Some(Live { block, size_bytes, stream }));
        self.ops.push(Op { size_bytes, block, stream, kind: OpKind::Alloc });
        Ok(())
    }

    /// Free a key, on a stream or on the one that it was allocated on.
    pub fn free(&mut self, key: u64, stream: Option<u64>) -> Result<(), Reject> {
        let live = match self.blocks.get(&key) {
            None => return Err(Reject::NeverAllocated(key)),
            Some(None) => return Err(Reject::AlreadyFree(key)),
            Some(Some(live)) => *live,
        };
        let stream = match stream {
            Some(value) => self.stream(value)?,
            None => live.stream,
        };
        self.blocks.insert(key, None);
        self.live_bytes -= live.size_bytes;
        let Live { block, size_bytes, .. } = live;
        self.ops.push(Op { size_bytes, block, stream, kind: OpKind::Free });
        Ok(())
    }

    /// Everything so far was live before recording began.
    pub fn end_of_pre(&mut self) {
        self.pre_count = self.ops.len();
    }

    /// The finished trace.
    pub fn finish(self, name: String) -> Trace {
        Trace {
            name,
            ops: self.ops,
            pre_count: self.pre_count,
            streams: self.streams,
            block_count: self.block_count,
        }
    }

    fn stream(&mut self, value: u64) -> Result<u16, Reject> {
        if let Some(index) = self.stream_index.get(&value) {
            return Ok(*index);
        }
        let index = u16::try_from(self.streams.len()).map_err(|_| Reject::TooManyStreams)?;
        self.streams.push(value);
        self.stream_index.insert(value, index);
        Ok(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_numbered_in_order_and_keys_may_come_again() {
        let mut b = Builder::new();
        b.alloc(7, 100, 0).unwrap();
        b.alloc(8, 50, 9).unwrap();
        b.free(7, None).unwrap();
        b.alloc(7, 10, 0).unwrap();
        b.free(8, Some(0)).unwrap();
        let t = b.finish("t".into());
        assert_eq!(t.ops.iter().map(|o| o.block).collect::<Vec<_>>(), [0, 1, 0, 2, 1]);
        assert_eq!(t.ops.iter().map(|o| o.stream).collect::<Vec<_>>(), [0, 1, 0, 0, 0]);
        assert_eq!((t.streams, t.block_count), (vec![0, 9], 3));
    }

    #[test]
    fn what_no_program_can_do_is_refused() {
        let mut b = Builder::new();
        assert_eq!(b.free(1, None), Err(Reject::NeverAllocated(1)));
        b.alloc(1, 1 << 62, 0).unwrap();
        assert_eq!(b.alloc(1, 1, 0), Err(Reject::StillLive(1)));
        assert_eq!(b.alloc(2, 1 << 62, 0), Err(Reject::TooMuchLive(1 << 62)));
        assert_eq!(b.alloc(2, u64::MAX, 0), Err(Reject::TooMuchLive(u64::MAX)));
        b.free(1, None).unwrap();
        assert_eq!(b.free(1, None), Err(Reject::AlreadyFree(1)));
    }

    #[test]
    fn streams_are_bounded() {
        let mut b = Builder::new();
        for s in 0..65_536 {
            b.alloc(s, 1, s).unwrap();
        }
        assert_eq!(b.alloc(1 << 40, 1, 1 << 40), Err(Reject::TooManyStreams));
    }

    #[test]
    fn the_peak_is_of_live_bytes() {
        let mut b = Builder::new();
        b.alloc(1, 10, 0).unwrap();
        b.alloc(2, 20, 0).unwrap();
        b.free(1, None).unwrap();
        b.alloc(3, 5, 0).unwrap();
        assert_eq!(b.finish(String::new()).peak_live_bytes(), 30);
    }
}
