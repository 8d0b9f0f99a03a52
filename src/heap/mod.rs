//! Layer 4: the heap of a pool. Metadata only: it knows addresses, handles and epochs, and never
//! calls the driver except to record and query events.
//!
//! - Blocks up to 64 KiB come from slabs (`slab`), whose spans are ranges of a region of slabs.
//! - Blocks up to 1 MiB are ranges of a medium region, in units of 8 KiB.
//! - Larger blocks are ranges of a large region, in units of 512 bytes.
//! - `fit` finds a ready range and takes the handles under it; `grow` plans driver calls where
//!   there is none; `reclaim` picks idle handles to give back; `pending` follows frees to
//!   their last use.

pub mod blocks;
pub mod fit;
pub mod grow;
#[cfg(test)]
mod ordering;
pub mod pending;
pub mod recall;
pub mod reclaim;
pub mod size_class;
pub mod slab;

use crate::base::{Error, Result, Status};
use crate::space::handles::AliasId;
use crate::space::ranges::Id;
use crate::space::{Handles, Kind, Ranges, Region, Sort, Tag};
use crate::stream::Streams;
use pending::Extra;
use slab::Slabs;
use std::collections::HashMap;

/// Graph id of a region whose graph was released: the next capture takes it over.
pub const NO_GRAPH: u64 = u64::MAX;

/// Spare places: on the host each is a mapping of the process, which has 65,530. On the H200 60,000
/// were tried too: serving at slack 0.01 then took over four times as long.
const SPARE_ALIASES: usize = 12_000;

/// What the heap counts; every figure is exact under the pool's lock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Bytes requested by live blocks.
    pub live_bytes: u64,
    /// The same rounded up to blocks.
    pub used_bytes: u64,
    /// Live blocks.
    pub live_blocks: u64,
    /// Bytes freed, with their last use not known to be finished.
    pub pending_bytes: u64,
    /// Bytes of all handles.
    pub held_bytes: u64,
    /// Bytes of address space.
    pub reserved_bytes: u64,
    /// Peak of `live_bytes`.
    pub peak_live_bytes: u64,
    /// Peak of `held_bytes`.
    pub peak_held_bytes: u64,
    /// Peak of live that the slack refers to; falls back to the present at a trim.
    pub reference_live_bytes: u64,
    /// Allocations and frees.
    pub allocs: u64,
    /// See `allocs`.
    pub frees: u64,
    /// Idle handles given another place instead of new memory.
    pub takeovers: u64,
}

/// The heap.
pub struct Heap {
    /// Ranges of all regions.
    pub ranges: Ranges,
    /// Physical memory.
    pub handles: Handles,
    /// Reservations; the first three are one of each sort, in the order of `Sort`.
    pub regions: Vec<Region>,
    /// Streams.
    pub streams: Streams,
    /// Slabs.
    pub slabs: Slabs,
    /// Pins, recorded uses and waiting frees by block address.
    pub extra: HashMap<u64, Extra>,
    /// Places of the block being made whose free neighbours must carry a tag.
    retags: Vec<(AliasId, Tag)>,
    /// Where ranges were put before, by sort of region.
    pub recall: [recall::Recall; 3],
    /// Allocations when the pool was last swept because it was empty.
    pub swept_at: u64,
    /// Figures.
    pub counters: Counters,
    /// Slack in parts per million beyond the base, while takeovers are frequent.
    pub extra_slack_ppm: u32,
    /// Judgements in a row that found takeovers frequent.
    pub busy_windows: u32,
    /// Allocations and takeovers when that was last judged.
    pub judged: (u64, u64),
    /// log2 of the page size.
    pub page_shift: u32,
    /// Largest handle in pages that growth makes.
    pub handle_pages_max: usize,
    /// Idle handles may be taken over and keep several aliases.
    pub takeover: bool,
    /// Work is asynchronous: frees carry tags.
    pub asynchronous: bool,
    /// The runtime's clock in milliseconds, read now and then.
    pub now_ms: u64,
    /// Calls, to say when that is.
    pub calls: u32,
}

/// What an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A block of its own range.
    Range(Id),
    /// A slab block.
    Slab {
        /// The slab.
        slab: u32,
        /// Index of the block.
        index: usize,
    },
}

impl Heap {
    /// An empty heap.
    pub fn new(page_bytes: u64, asynchronous: bool) -> Heap {
        Heap {
            ranges: Ranges::default(),
            handles: Handles::default(),
            regions: Vec::new(),
            streams: Streams::default(),
            slabs: Slabs::default(),
            extra: HashMap::new(),
            retags: Vec::new(),
            recall: Default::default(),
            swept_at: 0,
            counters: Counters::default(),
            extra_slack_ppm: 0,
            busy_windows: 0,
            judged: (0, 0),
            page_shift: page_bytes.trailing_zeros(),
            handle_pages_max: crate::space::handles::HANDLE_PAGES_MAX,
            takeover: true,
            asynchronous,
            now_ms: 0,
            calls: 0,
        }
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> u64 {
        1 << self.page_shift
    }

    /// Add a reservation, wholly unmapped.
    pub fn add_region(&mut self, base: u64, size: u64, sort: Sort, graph: u64) -> u16 {
        let index = self.regions.len() as u16;
        let mut region = Region::new(base, size, self.page_shift, sort);
        region.graph = graph;
        if size > 0 {
            let id = self.ranges.new_record(index, base, size, Kind::Unmapped);
            region.unmapped = self.ranges.insert(0, id);
            region.first = id;
        }
        self.regions.push(region);
        self.counters.reserved_bytes += size;
        index
    }

    /// Add a whole driver allocation: a region with one handle, ready from the start.
    pub fn add_whole_region(
        &mut self,
        base: u64,
        size: u64,
        sort: Sort,
        graph: u64,
        phys: crate::device::PhysHandle,
    ) -> u16 {
        let mut region = Region::new(base, size, self.page_shift, sort);
        region.graph = graph;
        // A slot of a region that was given back is used again.
        let free = self.regions.iter().skip(3).position(|r| r.size == 0 && r.graph == NO_GRAPH);
        let index = free.map_or(self.regions.len(), |at| at + 3) as u16;
        let handle = self.handles.new_handle((size >> self.page_shift) as u32);
        let alias = self.handles.new_alias(handle, index, 0);
        region.pages.fill(alias);
        let id = self.ranges.new_record(index, base, size, Kind::Ready);
        region.first = id;
        match free {
            Some(_) => self.regions[index as usize] = region,
            None => self.regions.push(region),
        }
        let h = &mut self.handles[handle];
        h.phys = phys;
        h.busy = false;
        h.home = alias;
        h.private = graph != 0;
        h.idle_since_ms = self.now_ms;
        if graph == 0 {
            self.handles.list(handle);
        }
        self.ready_insert(id);
        self.counters.reserved_bytes += size;
        index
    }

    /// A whole driver allocation went back: its region is empty.
    pub fn drop_whole_region(&mut self, index: u16) {
        let region = &mut self.regions[index as usize];
        let first = std::mem::take(&mut region.first);
        self.counters.reserved_bytes -= region.size;
        let sort = region.sort;
        *region = Region::new(0, 0, self.page_shift, sort);
        region.graph = NO_GRAPH;
        if first != 0 {
            self.ranges.drop_record(first);
        }
    }

    /// The tag of a free on a stream now; none where work is not asynchronous.
    pub fn tag_now(&self, stream: u32) -> Option<Tag> {
        self.asynchronous.then(|| self.streams.tag(stream))
    }

    fn root(&self, region: u16, stream: u32) -> Id {
        if stream == 0 {
            return self.regions[region as usize].clean;
        }
        self.streams[stream].roots.get(region as usize).copied().unwrap_or(0)
    }

    fn set_root(&mut self, region: u16, stream: u32, root: Id) {
        if stream == 0 {
            self.regions[region as usize].clean = root;
            return;
        }
        let roots = &mut self.streams[stream].roots;
        if roots.len() <= region as usize {
            roots.resize(region as usize + 1, 0);
        }
        roots[region as usize] = root;
    }

    /// Put a ready range into the tree and the list of its stream.
    pub(crate) fn ready_insert(&mut self, id: Id) {
        let (region, stream) = (self.ranges[id].region, self.ranges[id].stream);
        self.ranges[id].kind = Kind::Ready;
        let root = self.root(region, stream);
        let root = self.ranges.insert(root, id);
        self.set_root(region, stream, root);
        if stream != 0 {
            self.tag_append(id);
        }
    }

    /// Take a ready range out of both.
    pub(crate) fn ready_remove(&mut self, id: Id) {
        let (region, stream) = (self.ranges[id].region, self.ranges[id].stream);
        debug_assert_eq!(self.ranges[id].kind, Kind::Ready);
        let root = self.root(region, stream);
        let root = self.ranges.remove(root, id);
        self.set_root(region, stream, root);
        if stream != 0 {
            self.tag_remove(id);
        }
    }

    /// A ready range changed its bounds within its gap.
    pub(crate) fn ready_resized(&mut self, id: Id) {
        let root = self.root(self.ranges[id].region, self.ranges[id].stream);
        self.ranges.resized(root, id);
    }

    pub(crate) fn tag_append(&mut self, id: Id) {
        let stream = self.ranges[id].stream;
        let tail = self.streams[stream].tag_tail;
        self.ranges[id].tag_prev = tail;
        self.ranges[id].tag_next = 0;
        if tail == 0 {
            self.streams[stream].tag_head = id;
        } else {
            self.ranges[tail].tag_next = id;
        }
        self.streams[stream].tag_tail = id;
    }

    pub(crate) fn tag_remove(&mut self, id: Id) {
        let stream = self.ranges[id].stream;
        let (prev, next) = (self.ranges[id].tag_prev, self.ranges[id].tag_next);
        if prev == 0 {
            self.streams[stream].tag_head = next;
        } else {
            self.ranges[prev].tag_next = next;
        }
        if next == 0 {
            self.streams[stream].tag_tail = prev;
        } else {
            self.ranges[next].tag_prev = prev;
        }
    }

    /// A new block is live.
    pub(crate) fn count_alloc(&mut self, requested: u64, used: u64) {
        let c = &mut self.counters;
        c.allocs += 1;
        c.live_blocks += 1;
        c.live_bytes += requested;
        c.used_bytes += used;
        c.peak_live_bytes = c.peak_live_bytes.max(c.live_bytes);
        c.reference_live_bytes = c.reference_live_bytes.max(c.live_bytes);
    }

    /// A block is no longer live.
    pub(crate) fn count_free(&mut self, requested: u64, used: u64) {
        let c = &mut self.counters;
        c.frees += 1;
        c.live_blocks -= 1;
        c.live_bytes -= requested;
        c.used_bytes -= used;
    }

    /// Physical memory came or went.
    pub(crate) fn count_held(&mut self, bytes: i64) {
        let c = &mut self.counters;
        c.held_bytes = c.held_bytes.wrapping_add_signed(bytes);
        c.peak_held_bytes = c.peak_held_bytes.max(c.held_bytes);
    }

    /// The block at an address, live or waiting; `interior` accepts any byte of it.
    pub fn locate(&self, region: u16, addr: u64, interior: bool) -> Result<Place> {
        let foreign = Error::new(Status::E_FOREIGN_POINTER, "address");
        let candidates = self.regions[region as usize].lookup(addr);
        for id in candidates.into_iter().filter(|&id| id != 0) {
            let range = &self.ranges[id];
            if addr < range.addr || addr >= range.addr + range.size {
                continue;
            }
            if range.slab != 0 {
                let Some((index, start)) = self.slabs[range.slab].index_of(addr) else {
                    return Err(foreign);
                };
                if !start && !interior {
                    return Err(Error::new(Status::E_INTERIOR_POINTER, "address"));
                }
                return Ok(Place::Slab { slab: range.slab, index });
            }
            if addr != range.addr && !interior {
                return Err(Error::new(Status::E_INTERIOR_POINTER, "address"));
            }
            return Ok(Place::Range(id));
        }
        Err(self.why_absent(region, addr))
    }

    /// An address without a block: freed memory, or never allocated at all.
    fn why_absent(&self, region: u16, addr: u64) -> Error {
        let region = &self.regions[region as usize];
        let mapped = region.pages[region.page_of(addr)] != 0;
        if mapped && addr.is_multiple_of(crate::base::units::GRAIN) {
            Error::new(Status::E_DOUBLE_FREE, "address")
        } else {
            Error::new(Status::E_FOREIGN_POINTER, "address")
        }
    }

    /// Walk a ready range: bytes in a row, with `run` before them, that the handles under them
    /// allow to be used here. The run at its end; `largest` is raised.
    pub fn usable_run(
        &self,
        region: u16,
        addr: u64,
        size: u64,
        mut run: u64,
        largest: &mut u64,
    ) -> u64 {
        let r = &self.regions[region as usize];
        for alias in self.aliases_under(region, addr, size) {
            let a = self.handles.alias(alias);
            let handle = &self.handles[a.handle];
            let low = r.page_addr(a.page as usize);
            let high = low + (u64::from(handle.pages) << self.page_shift);
            let here = high.min(addr + size) - low.max(addr);
            let usable = !handle.busy && (handle.active == 0 || handle.active == alias);
            run = if usable { run + here } else { 0 };
            *largest = (*largest).max(run);
        }
        run
    }

    /// The aliases under a span of addresses, in order, each once.
    pub(crate) fn aliases_under(&self, region: u16, addr: u64, size: u64) -> Vec<AliasId> {
        let r = &self.regions[region as usize];
        let (mut page, last) = (r.page_of(addr), r.page_of(addr + size - 1));
        let mut found = Vec::new();
        while page <= last {
            let alias = r.pages[page];
            found.push(alias);
            let record = self.handles.alias(alias);
            page = record.page as usize + self.handles[record.handle].pages as usize;
        }
        found
    }
}
