//! Blocks: slab blocks and whole ranges, from allocation to free.

use super::size_class::{class_of, CLASSES, SIZES, SLAB_MAX, SPANS, UNIT};
use super::slab::state;
use super::{Heap, Place};
use crate::base::units::{GRAIN, SMALL_MAX};
use crate::base::{Error, Result, Status};
use crate::space::ranges::Id;
use crate::space::{Kind, Sort, Tag};

/// Allocations after which a pool that becomes empty gives its cached slabs back: often enough to
/// start a round afresh, too seldom to matter to a loop that holds one block at a time.
const SWEEP_AFTER: u64 = 256;

/// How a request is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// A block of a slab of this class.
    Slab(usize),
    /// A range of a medium region.
    Medium,
    /// A range of a large region.
    Large,
}

impl Route {
    /// The sort of region that serves it; the first regions of a pool stand in this order.
    #[inline]
    pub fn sort(self) -> Sort {
        match self {
            Route::Slab(_) => Sort::Slabs,
            Route::Medium => Sort::Medium,
            Route::Large => Sort::Large,
        }
    }
}

/// The route of a request.
#[inline]
pub fn route(size: u64, align: u64) -> Route {
    if size > SMALL_MAX {
        Route::Large
    } else if size <= SLAB_MAX && align <= GRAIN {
        Route::Slab(class_of(size))
    } else {
        Route::Medium
    }
}

impl Heap {
    /// A block from what is ready; none if the pool must grow.
    pub fn alloc_ready(
        &mut self,
        region: u16,
        stream: u32,
        route: Route,
        requested: u64,
        align: u64,
    ) -> Option<u64> {
        if let Route::Slab(class) = route {
            if let Some(addr) = self.take_from_slab(stream, class, requested) {
                return Some(addr);
            }
        }
        let size = self.range_size(region, route, requested);
        let id = self.take_ready(region, stream, size, align);
        (id != 0).then(|| self.hand_out(id, stream, route, requested))
    }

    /// Bytes of the range that serves a request.
    pub fn range_size(&self, region: u16, route: Route, requested: u64) -> u64 {
        match route {
            Route::Slab(class) => SPANS[class],
            _ => self.block_size(region, requested),
        }
    }

    /// A live range becomes a block, or a slab and its first block.
    pub fn hand_out(&mut self, id: Id, stream: u32, route: Route, requested: u64) -> u64 {
        let (addr, size, region) =
            (self.ranges[id].addr, self.ranges[id].size, self.ranges[id].region as usize);
        self.regions[region].map_block(addr, size, id);
        self.regions[region].live += 1;
        if self.regions[region].graph == 0 {
            self.recall[self.regions[region].sort as usize].note(size, addr);
        }
        if let Route::Slab(class) = route {
            let slab = self.slabs.create(addr, id, stream, class);
            self.ranges[id].slab = slab;
            self.list_slab(slab);
            if let Some(addr) = self.take_from_slab(stream, class, requested) {
                return addr;
            }
        }
        self.ranges[id].requested = requested;
        self.count_alloc(requested, size);
        addr
    }

    fn partial(&self, stream: u32, class: usize) -> u32 {
        self.streams[stream].partial.get(class).copied().unwrap_or(0)
    }

    fn set_partial(&mut self, stream: u32, class: usize, slab: u32) {
        let heads = &mut self.streams[stream].partial;
        if heads.is_empty() {
            heads.resize(CLASSES, 0);
        }
        heads[class] = slab;
    }

    fn take_from_slab(&mut self, stream: u32, class: usize, requested: u64) -> Option<u64> {
        let mut slab = self.partial(stream, class);
        if slab == 0 {
            slab = self.adopt(stream, class)?;
        }
        let addr = self.slabs[slab].take(requested);
        if self.slabs[slab].free_count == 0 {
            self.unlist_slab(slab);
        }
        self.count_alloc(requested, SIZES[class]);
        Some(addr)
    }

    /// A partly free slab of a stream that was retired and is finished.
    fn adopt(&mut self, stream: u32, class: usize) -> Option<u32> {
        let dead = self.streams.heir()?;
        let slab = self.partial(dead, class);
        if slab == 0 {
            if self.streams[dead].partial.iter().all(|&s| s == 0) {
                self.streams.bury(dead);
            }
            return None;
        }
        self.unlist_slab(slab);
        self.slabs[slab].owner = stream;
        self.list_slab(slab);
        Some(slab)
    }

    fn list_slab(&mut self, slab: u32) {
        let (owner, class) = (self.slabs[slab].owner, self.slabs[slab].class as usize);
        let head = self.partial(owner, class);
        self.slabs[slab].listed = true;
        self.slabs[slab].prev = 0;
        self.slabs[slab].next = head;
        if head != 0 {
            self.slabs[head].prev = slab;
        }
        self.set_partial(owner, class, slab);
    }

    fn unlist_slab(&mut self, slab: u32) {
        let (owner, class) = (self.slabs[slab].owner, self.slabs[slab].class as usize);
        let (prev, next) = (self.slabs[slab].prev, self.slabs[slab].next);
        self.slabs[slab].listed = false;
        if prev == 0 {
            self.set_partial(owner, class, next);
        } else {
            self.slabs[prev].next = next;
        }
        if next != 0 {
            self.slabs[next].prev = prev;
        }
    }

    /// A slab block may be handed out again. An empty slab goes back unless it is the only one
    /// left.
    pub(crate) fn give_to_slab(&mut self, slab: u32, index: usize) {
        self.slabs[slab].give(index);
        if !self.slabs[slab].listed {
            self.list_slab(slab);
        }
        let s = &self.slabs[slab];
        if s.free_count == s.blocks && (s.prev != 0 || s.next != 0) {
            self.release_slab(slab);
        }
    }

    /// Give an empty slab's span back.
    fn release_slab(&mut self, slab: u32) {
        self.unlist_slab(slab);
        let (range, owner) = (self.slabs[slab].range, self.slabs[slab].owner);
        let size = self.ranges[range].size;
        if self.asynchronous {
            self.streams.note_free(owner, size);
        }
        let tag = self.tag_now(owner);
        self.ranges[range].slab = 0;
        self.slabs.discard(slab);
        self.finish_range(range, tag);
    }

    /// Give back every empty slab.
    pub fn flush_slabs(&mut self) {
        for stream in 0..self.streams.indices().end {
            for class in 0..CLASSES {
                let mut slab = self.partial(stream, class);
                while slab != 0 {
                    let next = self.slabs[slab].next;
                    if self.slabs[slab].free_count == self.slabs[slab].blocks {
                        self.release_slab(slab);
                    }
                    slab = next;
                }
            }
        }
    }

    /// A range is no longer a block: its handles lose a user and its memory is ready again.
    pub(crate) fn finish_range(&mut self, id: Id, tag: Option<Tag>) {
        let (addr, size, region) =
            (self.ranges[id].addr, self.ranges[id].size, self.ranges[id].region);
        self.regions[region as usize].map_block(addr, size, 0);
        let r = &mut self.regions[region as usize];
        r.live -= 1;
        if r.live == 0 && r.graph == 0 {
            let sort = r.sort as usize;
            self.recall[sort].emptied();
        }
        self.release_span(region, addr, size, tag);
        self.free_range(id, tag);
    }

    /// Give back a block that no work ever used.
    pub fn discard_unused(&mut self, id: Id) {
        self.count_free(self.ranges[id].requested, self.ranges[id].size);
        self.finish_range(id, None);
    }

    /// Free a block on a stream. `expected` checks the size asked for.
    pub fn free(
        &mut self,
        region: u16,
        addr: u64,
        stream: u32,
        expected: Option<u64>,
    ) -> Result<()> {
        let place = self.live_block(region, addr, false)?;
        let (requested, used) = self.sizes(place);
        if let Some(expected) = expected.filter(|&e| e != requested) {
            return Err(Error::new(Status::E_SIZE_MISMATCH, "size").bytes(expected, requested));
        }
        let mut waits = false;
        if self.has_extra(place) {
            if self.extra.get(&addr).is_some_and(|e| e.pins > 0) {
                return Err(Error::new(Status::E_PINNED, "address"));
            }
            waits = self.settle_uses(region, addr, stream, used);
        }
        self.count_free(requested, used);
        match place {
            Place::Range(id) => self.free_whole(id, addr, stream, waits, used),
            Place::Slab { slab, index } => {
                self.free_in_slab(region, slab, index, addr, stream, waits);
            }
        }
        if self.counters.live_blocks == 0 && self.counters.allocs - self.swept_at > SWEEP_AFTER {
            // The next round starts from an empty heap, as this one did.
            self.swept_at = self.counters.allocs;
            self.flush_slabs();
        }
        Ok(())
    }

    fn free_whole(&mut self, id: Id, addr: u64, stream: u32, waits: bool, used: u64) {
        if self.asynchronous {
            self.streams.note_free(stream, used);
        }
        let tag = self.tag_now(stream);
        if waits {
            self.ranges[id].kind = Kind::Pending;
            self.counters.pending_bytes += used;
            if let Some(extra) = self.extra.get_mut(&addr) {
                extra.tag = tag;
            }
            return;
        }
        self.finish_range(id, tag);
    }

    fn free_in_slab(
        &mut self,
        region: u16,
        slab: u32,
        index: usize,
        addr: u64,
        stream: u32,
        waits: bool,
    ) {
        let foreign = self.asynchronous && self.slabs[slab].owner != stream;
        if !waits && !foreign {
            if self.asynchronous {
                // Its own stream may use it at once; whoever adopts the slab must wait for the
                // epoch.
                self.streams.note_free(stream, SIZES[self.slabs[slab].class as usize]);
            }
            self.give_to_slab(slab, index);
            return;
        }
        let used = SIZES[self.slabs[slab].class as usize];
        self.slabs[slab].states[index] = state::PENDING;
        self.counters.pending_bytes += used;
        if foreign {
            self.streams.note_free(stream, used);
            self.wait_for(region, addr, self.streams.tag(stream));
        }
    }

    /// Bytes requested and used, of a live block.
    pub fn sizes(&self, place: Place) -> (u64, u64) {
        match place {
            Place::Range(id) => (self.ranges[id].requested, self.ranges[id].size),
            Place::Slab { slab, index } => {
                let s = &self.slabs[slab];
                (s.requested(index), SIZES[s.class as usize])
            }
        }
    }

    /// Start of a block.
    pub fn start(&self, place: Place) -> u64 {
        match place {
            Place::Range(id) => self.ranges[id].addr,
            Place::Slab { slab, index } => {
                let s = &self.slabs[slab];
                s.base + index as u64 * SIZES[s.class as usize]
            }
        }
    }

    /// A live block by its start, or by any byte of it.
    pub fn live_block(&self, region: u16, addr: u64, interior: bool) -> Result<Place> {
        let place = self.locate(region, addr, interior)?;
        let live = match place {
            Place::Range(id) => self.ranges[id].kind == Kind::Live,
            Place::Slab { slab, index } => {
                self.slabs[slab].states[index] & !state::EXTRA == state::LIVE
            }
        };
        if live {
            Ok(place)
        } else {
            Err(Error::new(Status::E_DOUBLE_FREE, "address"))
        }
    }

    const _UNIT_IS_THE_SMALL_GRANULE: () = assert!(UNIT == 1 << 13);
}
