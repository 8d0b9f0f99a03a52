//! Test: random programs on a heap, against an oracle of physical memory and unfinished work.
//!
//! The oracle knows for each byte of each handle which freed blocks' work may still run. A block
//! handed out on a stream may only cover bytes whose unfinished work is of that very stream, by
//! whatever place the bytes are reached; and no two live blocks share a byte.

use super::blocks::{route, Route};
use super::grow::GrowRule;
use super::Heap;
use crate::device::PhysHandle;
use crate::space::Sort;
use crate::stream::StreamRef;
use std::collections::HashMap;

/// Bytes of a handle: handle, first and end offset.
type Piece = (u32, u64, u64);

struct Block {
    addr: u64,
    region: u16,
    pieces: Vec<Piece>,
}

struct World {
    heap: Heap,
    streams: Vec<u32>,
    live: Vec<Block>,
    /// Work of freed blocks: stream, epoch, bytes.
    work: Vec<(u32, u64, Piece)>,
    seed: u64,
    slack_bytes: u64,
}

fn overlap(a: &Piece, b: &Piece) -> bool {
    a.0 == b.0 && a.1 < b.2 && b.1 < a.2
}

impl World {
    fn new(seed: u64, streams: u64, slack_bytes: u64) -> World {
        let mut heap = Heap::new(2 << 20, true);
        for (i, sort) in [Sort::Slabs, Sort::Large, Sort::Medium].into_iter().enumerate() {
            heap.add_region((1 + i as u64) << 40, 1 << 36, sort, 0);
        }
        let indices = (0..streams)
            .map(|key| {
                let capture = None;
                let s = StreamRef { key, raw: key, persistent: false, told: true, capture };
                heap.streams.intern(&s, 0)
            })
            .collect();
        World { heap, streams: indices, live: vec![], work: vec![], seed, slack_bytes }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed % below
    }

    fn pieces(&self, region: u16, addr: u64, size: u64) -> Vec<Piece> {
        let r = &self.heap.regions[region as usize];
        let mut pieces = Vec::new();
        for alias in self.heap.aliases_under(region, addr, size) {
            let a = self.heap.handles.alias(alias);
            let base = r.page_addr(a.page as usize);
            let bytes = u64::from(self.heap.handles[a.handle].pages) << 21;
            let (low, high) = (addr.max(base), (addr + size).min(base + bytes));
            pieces.push((a.handle, low - base, high - base));
        }
        pieces
    }

    fn alloc(&mut self, step: u64) {
        let sizes = [600, 5000, 70_000, 900_000, 1_500_000, 2 << 20, 5_000_000, 9 << 20, 21 << 20];
        let size = sizes[self.random(9) as usize];
        let at = self.random(self.streams.len() as u64) as usize;
        let stream = self.streams[at];
        let way: Route = route(size, 0);
        let region = way.sort() as u16;
        let addr = match self.heap.alloc_ready(region, stream, way, size, 512) {
            Some(addr) => addr,
            None => self.grow(region, stream, way, size),
        };
        let Ok(place) = self.heap.live_block(region, addr, false) else { panic!("not live") };
        let used = self.heap.sizes(place).1;
        let pieces = self.pieces(region, addr, used);
        for piece in &pieces {
            for block in &self.live {
                assert!(!block.pieces.iter().any(|p| overlap(p, piece)), "shared, step {step}");
            }
            for (other, epoch, p) in &self.work {
                let runs = overlap(p, piece) && *other != stream;
                assert!(
                    !runs,
                    "step {step}: stream {stream} got work of {other}@{epoch} {piece:?}"
                );
            }
        }
        // Work of its own stream comes before the block's own, and is implied by it from now on.
        self.work.retain(|(_, _, p)| !pieces.iter().any(|piece| overlap(p, piece)));
        self.live.push(Block { addr, region, pieces });
    }

    fn grow(&mut self, region: u16, stream: u32, way: Route, size: u64) -> u64 {
        let range = self.heap.range_size(region, way, size);
        let room = self.slack_bytes.saturating_sub(self.heap.counters.held_bytes);
        let rule = GrowRule {
            within_slack: room,
            allowed: u64::MAX,
            takeover: true,
            single_pages: self.random(4) == 0,
        };
        let plan = self.heap.plan(region, stream, range, 512, rule).expect("room");
        if self.random(16) == 0 {
            self.heap.rollback(plan);
            return self.grow(region, stream, way, size);
        }
        for step in &plan.steps {
            self.heap.handles[step.handle].phys = PhysHandle(u64::from(step.handle));
        }
        self.heap.count_held(plan.created_bytes() as i64);
        self.heap.commit(&plan);
        self.heap.hand_out(plan.block, stream, way, size)
    }

    fn free(&mut self) {
        if self.live.is_empty() {
            return;
        }
        let at = self.random(self.live.len() as u64) as usize;
        let block = self.live.swap_remove(at);
        let on = self.random(self.streams.len() as u64) as usize;
        let stream = self.streams[on];
        let tag = self.heap.streams.tag(stream);
        self.heap.free(block.region, block.addr, stream, None).expect("free");
        self.work.extend(block.pieces.into_iter().map(|p| (stream, tag.epoch, p)));
    }

    fn complete(&mut self) {
        let at = self.random(self.streams.len() as u64) as usize;
        let stream = self.streams[at];
        self.heap.streams.complete(stream);
        let done = self.heap.streams[stream].completed;
        self.work.retain(|(s, epoch, _)| *s != stream || *epoch > done);
        self.heap.collect(&[stream]);
    }

    fn trim(&mut self) {
        let items = self.heap.pick_idle(4, u64::MAX, 64 << 20);
        for item in &items {
            self.heap.returned(item);
            self.heap.count_held(-(item.bytes as i64));
        }
    }
}

fn run(seed: u64, streams: u64, slack_bytes: u64) -> HashMap<&'static str, u64> {
    let mut world = World::new(seed, streams, slack_bytes);
    for step in 0..6000 {
        let full = world.live.len() > 60;
        match world.random(20) {
            0..=8 if !full => world.alloc(step),
            0..=16 => world.free(),
            17 | 18 => world.complete(),
            _ => world.trim(),
        }
    }
    HashMap::from([("takeovers", world.heap.counters.takeovers)])
}

#[test]
fn no_block_covers_unfinished_work_of_another_stream() {
    let mut takeovers = 0;
    for seed in 1..25u64 {
        let figures = run(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15), 1 + seed % 4, 96 << 20);
        takeovers += figures["takeovers"];
    }
    assert!(takeovers > 1000, "the programs never got tight: {takeovers} takeovers");
}
