//! Running a program on a pool and on the model of it.

use crate::api;
use crate::program::{Op, Program};
use cenote::base::Status;
use proptest::test_runner::TestCaseError;
use std::collections::BTreeMap;

/// Outcome of a program.
pub type Outcome = Result<(), TestCaseError>;

/// Fail the program unless a condition holds.
#[macro_export]
macro_rules! holds {
    ($condition:expr, $($reason:tt)*) => {
        if !$condition {
            return Err(proptest::test_runner::TestCaseError::fail(format!($($reason)*)));
        }
    };
}

/// A live block, as the model knows it.
#[derive(Clone, Debug)]
pub struct Block {
    /// Start.
    pub addr: u64,
    /// Bytes asked for.
    pub size: u64,
    /// The byte that fills it.
    pub tag: u8,
    /// Number of the stream it was allocated on.
    pub stream: usize,
    /// The device's note of the write.
    pub note: u64,
    /// Numbers of streams with a recorded use that has not ended.
    pub recorded: Vec<usize>,
}

/// Who reads and writes blocks.
pub trait Device {
    /// The stream of a number, as calls name it.
    fn stream(&self, number: usize) -> u64;
    /// Work is asynchronous, so that uses are recorded.
    fn asynchronous(&self) -> bool;
    /// Events complete later than what they follow.
    fn late(&self) -> bool;
    /// Fill a new block on its stream.
    fn write(&mut self, block: &mut Block) -> Outcome;
    /// Check a block on another stream, after the write.
    fn read(&mut self, block: &Block, stream: usize) -> Outcome;
    /// Order a stream after the write and check the block there for the last time.
    fn finish(&mut self, block: &Block, stream: usize) -> Outcome;
    /// A step of the program has passed.
    fn step(&mut self);
    /// Stop a stream.
    fn hold(&mut self, stream: usize);
    /// Let all stopped streams go on.
    fn release(&mut self);
    /// A stream is stopped, so that waiting for it would be for ever.
    fn stopped(&self) -> bool;
    /// Replace a stream by a new one; false if the device has no streams that end.
    fn renew(&mut self, stream: usize) -> bool;
    /// Wait for everything; the mistakes found so far.
    fn settle(&mut self) -> Outcome;
    /// The device when all pools are empty.
    fn empty(&mut self) -> Outcome;
}

struct Model<'a> {
    pool: u64,
    limit: u64,
    live: BTreeMap<u64, Block>,
    tags: u8,
    allocs: u64,
    frees: u64,
    device: &'a mut dyn Device,
}

/// Run a program; the first rule that it breaks.
pub fn execute(program: &Program, device: &mut dyn Device) -> Outcome {
    api::device_limit(-1, u64::MAX).map_err(|e| TestCaseError::fail(format!("{e:?}")))?;
    let made = api::pool_of(|desc| {
        desc.device = -1;
        desc.limit_bytes = program.limit;
        desc.slack_ppm = program.slack_ppm;
        desc.decay_ms = program.decay_ms;
        desc.flags = u32::from(program.stable);
        desc.initial_bytes = program.initial;
    });
    let pool = made.map_err(|status| TestCaseError::fail(format!("no pool: {status:?}")))?;
    let limit = if program.limit == 0 { u64::MAX } else { program.limit };
    let live = BTreeMap::new();
    let mut model = Model { pool, limit, live, tags: 0, allocs: 0, frees: 0, device };
    let outcome = model.steps(&program.ops);
    let _ = api::device_limit(-1, u64::MAX);
    let ended = model.end();
    outcome.and(ended)
}

impl Model<'_> {
    fn steps(&mut self, ops: &[Op]) -> Outcome {
        for &op in ops {
            self.step(op)?;
            self.device.step();
            self.check_figures()?;
        }
        Ok(())
    }

    fn picked(&self, pick: usize) -> Option<Block> {
        let count = self.live.len();
        (count > 0).then(|| self.live.values().nth(pick % count).cloned()).flatten()
    }

    fn step(&mut self, op: Op) -> Outcome {
        match op {
            Op::Alloc { size, align, flags, stream } => self.alloc(size, align, flags, stream),
            Op::Free { pick } => self.with(pick, |m, block| m.free(&block, block.stream)),
            Op::FreeOn { pick, stream } => self.with(pick, |m, block| m.free(&block, stream)),
            Op::Record { pick, stream } => self.with(pick, |m, block| m.record(&block, stream)),
            Op::UseEnd { pick, stream } => self.with(pick, |m, block| m.use_end(&block, stream)),
            Op::Pin { pick } => self.with(pick, |m, block| m.pin(&block)),
            Op::Wrong { pick } => self.with(pick, |m, block| m.wrong(&block)),
            Op::Trim { keep } => self.trim(keep),
            Op::Empty => self.must("empty_cache", api::empty_cache(-1).map(|_| ())),
            Op::Poll => self.must("poll", api::poll()),
            Op::Limit { room } => self.limit_device(room),
            Op::Hold { stream } => {
                self.device.hold(stream);
                Ok(())
            }
            Op::Release => {
                self.device.release();
                Ok(())
            }
            Op::Renew { stream } => {
                if self.device.renew(stream) {
                    self.live.values_mut().for_each(|b| b.recorded.retain(|&s| s != stream));
                }
                Ok(())
            }
        }
    }

    fn with(&mut self, pick: usize, step: impl FnOnce(&mut Self, Block) -> Outcome) -> Outcome {
        match self.picked(pick) {
            Some(block) => step(self, block),
            None => Ok(()),
        }
    }

    fn must(&self, what: &str, answer: api::Answer) -> Outcome {
        holds!(answer.is_ok(), "{what} answers {answer:?}");
        Ok(())
    }

    fn refused(&self, what: &str, answer: api::Answer, wanted: Status) -> Outcome {
        holds!(answer == Err(wanted), "{what} answers {answer:?}, not {wanted:?}");
        Ok(())
    }

    fn alloc(&mut self, size: u64, align: u64, flags: u32, stream: usize) -> Outcome {
        let on = self.device.stream(stream);
        let flags = flags | u32::from(self.device.stopped());
        let made = api::alloc_with(self.pool, size, align, flags, on);
        let addr = match made {
            Ok(addr) => addr,
            Err(Status::E_LIMIT | Status::E_OUT_OF_MEMORY) => return Ok(()),
            Err(Status::E_WOULD_BLOCK) if flags & 1 != 0 => return Ok(()),
            Err(Status::E_WOULD_GROW) if flags & 2 != 0 => return Ok(()),
            Err(status) => {
                return Err(TestCaseError::fail(format!("alloc of {size} answers {status:?}")))
            }
        };
        self.allocs += 1;
        holds!(addr != 0 && addr % align.max(512) == 0, "{addr:#x} is not aligned to {align}");
        let before = self.live.range(..addr + size).next_back();
        let free = before.is_none_or(|(_, b)| b.addr + b.size <= addr);
        holds!(free, "{addr:#x}+{size} overlaps {before:x?}");
        self.tags = self.tags % 250 + 1;
        let recorded = Vec::new();
        let mut block = Block { addr, size, tag: self.tags, stream, note: 0, recorded };
        self.device.write(&mut block)?;
        self.live.insert(addr, block);
        Ok(())
    }

    fn free(&mut self, block: &Block, stream: usize) -> Outcome {
        self.device.finish(block, stream)?;
        let on = self.device.stream(stream);
        let freed = if block.tag.is_multiple_of(2) {
            api::free(block.addr, on)
        } else {
            api::free_sized(block.addr, block.size, on)
        };
        self.must("free", freed)?;
        self.live.remove(&block.addr);
        self.frees += 1;
        Ok(())
    }

    fn record(&mut self, block: &Block, stream: usize) -> Outcome {
        self.device.read(block, stream)?;
        self.must("record_stream", api::record(block.addr, self.device.stream(stream)))?;
        if let Some(b) = self.live.get_mut(&block.addr) {
            b.recorded.retain(|&s| s != stream);
            b.recorded.push(stream);
        }
        Ok(())
    }

    fn use_end(&mut self, block: &Block, stream: usize) -> Outcome {
        let ended = api::use_end(block.addr, self.device.stream(stream));
        if !self.device.asynchronous() {
            return self.must("use_end where nothing is recorded", ended);
        }
        if !block.recorded.contains(&stream) {
            return self.refused("use_end", ended, Status::E_NOT_RECORDED);
        }
        if let Some(b) = self.live.get_mut(&block.addr) {
            b.recorded.retain(|&s| s != stream);
        }
        self.must("use_end", ended)
    }

    fn pin(&mut self, block: &Block) -> Outcome {
        self.must("pin", api::pin(block.addr, true))?;
        let on = self.device.stream(block.stream);
        self.refused("free of a pinned block", api::free(block.addr, on), Status::E_PINNED)?;
        self.must("unpin", api::pin(block.addr, false))?;
        self.refused("unpin", api::pin(block.addr, false), Status::E_ARGUMENT)
    }

    fn wrong(&mut self, block: &Block) -> Outcome {
        let (addr, on) = (block.addr, self.device.stream(block.stream));
        if block.size > 1 {
            let inside = api::free(addr + block.size - 1, on);
            self.refused("free inside", inside, Status::E_INTERIOR_POINTER)?;
        }
        let sized = api::free_sized(addr, block.size + 1, on);
        self.refused("free_sized", sized, Status::E_SIZE_MISMATCH)?;
        let info = api::info(addr + block.size - 1);
        let info = info.map_err(|e| TestCaseError::fail(format!("block_info answers {e:?}")))?;
        holds!(info.base == addr && info.requested_bytes == block.size, "info {:#x}", info.base);
        holds!(info.usable_bytes >= block.size, "usable {}", info.usable_bytes);
        Ok(())
    }

    fn trim(&mut self, keep: u64) -> Outcome {
        let before = api::stats(self.pool).held_bytes;
        let trimmed = api::trim(self.pool, keep);
        let trimmed = trimmed.map_err(|e| TestCaseError::fail(format!("trim answers {e:?}")))?;
        let after = api::stats(self.pool).held_bytes;
        holds!(before - after == trimmed.returned_bytes, "{before} - {after} held by trim");
        let left = trimmed.pending_bytes + trimmed.kept_bytes;
        holds!(keep > 0 || left == after, "{left} left of {after} held");
        Ok(())
    }

    fn limit_device(&mut self, room: u64) -> Outcome {
        let held = api::stats(self.pool).held_bytes;
        let limit = if room == 0 { u64::MAX } else { held + room };
        self.must("device_limit", api::device_limit(-1, limit))
    }

    fn check_figures(&mut self) -> Outcome {
        let s = api::stats(self.pool);
        let live: u64 = self.live.values().map(|b| b.size).sum();
        let count = self.live.len() as u64;
        holds!(s.live_bytes == live, "{} live, not {live}", s.live_bytes);
        holds!(s.live_blocks == count, "{} blocks, not {count}", s.live_blocks);
        let counts = (s.alloc_count, s.free_count);
        holds!(counts == (self.allocs, self.frees), "{counts:?} calls");
        holds!(s.used_bytes >= live && s.used_bytes <= s.held_bytes, "{} used", s.used_bytes);
        let sum = s.used_bytes + s.pending_bytes + s.cached_bytes;
        holds!(sum == s.held_bytes, "{sum} of {} held", s.held_bytes);
        holds!(s.held_bytes <= self.limit, "{} held, limit {}", s.held_bytes, self.limit);
        holds!(s.peak_held_bytes >= s.held_bytes && s.peak_live_bytes >= live, "peaks");
        Ok(())
    }

    /// Free everything: nothing is left, and the pool can be destroyed.
    fn end(&mut self) -> Outcome {
        let mut outcome = Ok(());
        for block in self.live.values().cloned().collect::<Vec<_>>() {
            let freed = self.free(&block, block.stream);
            outcome = outcome.and(freed);
        }
        outcome = outcome.and(self.device.settle()).and(self.nothing_left());
        // Whatever was wrong: a pool that stays would take addresses from the programs after it.
        let destroyed = self.must("destroy", api::destroy(self.pool));
        outcome.and(destroyed).and(self.device.empty())
    }

    fn nothing_left(&mut self) -> Outcome {
        // Where events are late, the first trim records them, the second collects blocks and gives
        // their slabs up on the slabs' own streams, the third collects those.
        for _ in 0..if self.device.late() { 3 } else { 1 } {
            self.must("trim", api::trim(self.pool, 0).map(|_| ()))?;
            self.device.settle()?;
        }
        let s = api::stats(self.pool);
        let left = (s.held_bytes, s.used_bytes, s.pending_bytes, s.cached_bytes);
        holds!(left == (0, 0, 0, 0), "left in the end: {left:?}");
        Ok(())
    }
}
