//! What callers do with blocks after allocation, and the pool's figures.

use super::Pool;
use crate::base::Result;
use crate::heap::{Heap, Place};
use crate::space::ranges::Id;
use crate::stream::StreamRef;

/// Facts of a live block.
#[derive(Clone, Debug)]
pub struct BlockFacts {
    /// Start.
    pub base: u64,
    /// Bytes asked for.
    pub requested: u64,
    /// Bytes that may be used.
    pub usable: u64,
    /// Pins.
    pub pins: u32,
    /// Reservation.
    pub reservation: (u64, u64),
    /// Address, bytes and driver's handle of each handle under it.
    pub segments: Vec<(u64, u64, u64)>,
    /// It belongs to a graph.
    pub captured: bool,
}

/// A pool's figures.
#[derive(Clone, Copy, Debug, Default)]
pub struct PoolStats {
    /// The heap's counters.
    pub heap: crate::heap::Counters,
    /// Bytes freed and not known to be finished.
    pub pending_bytes: u64,
    /// Largest request that ready memory could serve.
    pub largest_free_bytes: u64,
    /// Events recorded and queried.
    pub events: (u64, u64),
}

impl Pool {
    /// Free a block in stream order. `expected`: the size asked for, to be checked.
    pub fn free(
        &self,
        region: u16,
        addr: u64,
        expected: Option<u64>,
        stream: &StreamRef,
    ) -> Result<()> {
        self.check_open()?;
        if let Some(e) = self.backend.sticky() {
            return Err(e);
        }
        let mut heap = self.heap.lock();
        super::tick(&mut heap);
        let index = self.freeing_stream(&mut heap, region, stream);
        heap.free(region, addr, index, expected)?;
        if self.desc.decay_ms == Some(0) {
            return self.give_back_at_once(&mut heap);
        }
        if heap.asynchronous && stream.capture.is_none() {
            let held = heap.counters.held_bytes;
            if heap.streams.wants_close(index, held) && !self.captures.runs_on(stream.raw) {
                // The block is free whatever the driver says now: later calls close the epoch, ask
                // again, and find a lost context.
                let _ = self.close_own(&mut heap, index, stream.raw);
                let _ = self.poll_events(&mut heap);
            }
        }
        Ok(())
    }

    /// Facts of the live block that contains an address.
    pub fn block(&self, region: u16, addr: u64) -> Result<BlockFacts> {
        self.check_open()?;
        let heap = self.heap.lock();
        let place = heap.live_block(region, addr, true)?;
        let (requested, usable) = heap.sizes(place);
        let base = heap.start(place);
        let r = &heap.regions[region as usize];
        let segments = heap
            .aliases_under(region, base, usable)
            .into_iter()
            .map(|alias| {
                let a = heap.handles.alias(alias);
                let h = &heap.handles[a.handle];
                (r.page_addr(a.page as usize), u64::from(h.pages) << heap.page_shift, h.phys.0)
            })
            .collect();
        Ok(BlockFacts {
            base,
            requested,
            usable,
            pins: heap.pins(place),
            reservation: (r.base, r.size),
            segments,
            captured: r.graph != 0,
        })
    }

    /// Pin or unpin the block that starts at an address.
    pub fn pin(&self, region: u16, addr: u64, up: bool) -> Result<()> {
        self.check_open()?;
        let mut heap = self.heap.lock();
        let place = heap.live_block(region, addr, false)?;
        heap.pin(place, up)
    }

    /// The block is used on another stream too.
    pub fn record_use(&self, region: u16, addr: u64, stream: &StreamRef) -> Result<()> {
        self.check_open()?;
        let mut heap = self.heap.lock();
        let place = heap.live_block(region, addr, false)?;
        if heap.asynchronous {
            let index = self.freeing_stream(&mut heap, region, stream);
            heap.record_use(place, index);
        }
        Ok(())
    }

    /// The use of the block on the stream ends here.
    pub fn end_use(&self, region: u16, addr: u64, stream: &StreamRef) -> Result<()> {
        self.check_open()?;
        let mut heap = self.heap.lock();
        let place = heap.live_block(region, addr, false)?;
        if !heap.asynchronous {
            return Ok(());
        }
        let index = self.stream_index(&mut heap, stream);
        heap.end_use(place, index)?;
        self.close_own(&mut heap, index, stream.raw)
    }

    /// A registered stream ends: its open frees get their event now.
    pub fn retire(&self, stream: &StreamRef) {
        let mut heap = self.heap.lock();
        if let Some(index) = heap.streams.find(stream.key) {
            if !self.captures.runs_on(stream.raw) {
                let _ = self.close_own(&mut heap, index, stream.raw);
            }
            heap.streams.retire(stream.key);
        }
    }

    /// Figures.
    pub fn stats(&self) -> PoolStats {
        let mut heap = self.heap.lock();
        if self.backend.sticky().is_none() {
            let _ = self.poll_events(&mut heap);
        }
        let unused = heap.counters.held_bytes.saturating_sub(heap.counters.used_bytes);
        PoolStats {
            heap: heap.counters,
            // An unfinished range whose memory was taken over by its own stream is in use already.
            pending_bytes: heap.pending_bytes().min(unused),
            largest_free_bytes: largest_ready(&heap),
            events: (heap.streams.recorded, heap.streams.queried),
        }
    }

    /// Peaks fall to the present.
    pub fn reset_peaks(&self) {
        let c = &mut self.heap.lock().counters;
        c.peak_live_bytes = c.live_bytes;
        c.peak_held_bytes = c.held_bytes;
    }

    /// Take memory from the driver ahead of use.
    pub fn preallocate(&self, bytes: u64, stream: &StreamRef) -> Result<()> {
        // Whole pages are what comes from the driver; less could become a block of a slab, which
        // would stay live.
        let bytes = bytes.max(self.heap.lock().page_bytes());
        let request = super::alloc::Request::new(bytes, 0, 0)?;
        let addr = self.alloc(request, stream)?;
        let mut heap = self.heap.lock();
        let region = crate::heap::blocks::route(bytes, 0).sort() as u16;
        if let Place::Range(id) = heap.live_block(region, addr, false)? {
            heap.discard_unused(id);
        }
        heap.counters = crate::heap::Counters {
            held_bytes: heap.counters.held_bytes,
            peak_held_bytes: heap.counters.peak_held_bytes,
            reserved_bytes: heap.counters.reserved_bytes,
            ..Default::default()
        };
        Ok(())
    }
}

/// Largest run of ready memory of any region whose handles are free to be used there.
fn largest_ready(heap: &Heap) -> u64 {
    let mut largest = 0;
    for index in 0..heap.regions.len() as u16 {
        let mut id: Id = heap.regions[index as usize].first;
        let mut run = 0;
        while id != 0 {
            let range = &heap.ranges[id];
            if range.kind == crate::space::Kind::Ready {
                run = heap.usable_run(index, range.addr, range.size, run, &mut largest);
            } else {
                run = 0;
            }
            id = range.next;
        }
    }
    largest
}
