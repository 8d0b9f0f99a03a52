//! Giving memory back: trim, decay, destruction.

use super::{now_ms, Pool};
use crate::base::{Error, Result, Status};
use crate::heap::Heap;
use parking_lot::MutexGuard;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Handles given back before the lock is taken again, so that others allocate meanwhile.
const SLICE: usize = 32;
/// How long a trim lets events become complete that were recorded in it. An idle device needs a few
/// microseconds; a busy one is not waited for.
const SETTLE: Duration = Duration::from_micros(300);
/// Shortest time between two decays.
const DECAY_TICK_MS: u64 = 100;

/// What a trim did, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// Given back to the driver.
    pub returned: u64,
    /// Kept because frees are not finished.
    pub pending: u64,
    /// Kept because live blocks use their handles.
    pub kept: u64,
}

impl Pool {
    /// Give idle memory back until at most `keep` bytes are held.
    pub fn trim(&self, keep: u64) -> Result<Trimmed> {
        self.check_open()?;
        if let Some(e) = self.backend.sticky() {
            return Err(e);
        }
        let mut heap = self.heap.lock();
        heap.now_ms = now_ms();
        self.collect_graphs(&mut heap);
        heap.flush_slabs();
        self.settle(&mut heap)?;
        heap.flush_slabs();
        self.settle(&mut heap)?;
        let surplus = heap.counters.held_bytes.saturating_sub(keep);
        let returned = self.release_idle(&mut heap, u64::MAX, surplus);
        // The driver may have been asked for the first time since the context was lost.
        if let Some(e) = self.backend.sticky() {
            return Err(e);
        }
        heap.counters.reference_live_bytes = heap.counters.live_bytes;
        let idle = heap.handles.idle_pages << heap.page_shift;
        let pending = if keep == 0 { idle } else { heap.pending_bytes().min(idle) };
        let kept = heap.counters.held_bytes - idle;
        Ok(Trimmed { returned, pending, kept })
    }

    /// Close open epochs and collect what finishes within a moment.
    fn settle(&self, heap: &mut MutexGuard<'_, Heap>) -> Result<()> {
        self.close_everything(heap);
        let start = Instant::now();
        loop {
            self.poll_events(heap)?;
            if !heap.streams.has_events() || start.elapsed() > SETTLE {
                return Ok(());
            }
            MutexGuard::unlocked(heap, std::thread::yield_now);
        }
    }

    /// Give back idle handles that were idle since before `idle_before_ms`, at least `wanted` bytes
    /// if there are so many. The bytes given back.
    pub(super) fn release_idle(
        &self,
        heap: &mut MutexGuard<'_, Heap>,
        idle_before_ms: u64,
        wanted: u64,
    ) -> u64 {
        let mut returned = 0;
        while returned < wanted {
            // Whole handles: the last one may give a little more than was wanted.
            let most = (wanted - returned).saturating_add(8 << heap.page_shift);
            let items = heap.pick_idle(SLICE, idle_before_ms, most);
            if items.is_empty() {
                break;
            }
            let bytes: u64 = items.iter().map(|item| item.bytes).sum();
            MutexGuard::unlocked(heap, || {
                for item in &items {
                    self.give_back(item);
                }
                self.ledger.give(bytes);
            });
            let whole = if self.virtual_memory { Vec::new() } else { heap.regions_of(&items) };
            for item in &items {
                heap.returned(item);
            }
            for region in whole {
                heap.drop_whole_region(region);
            }
            heap.count_held(-(bytes as i64));
            returned += bytes;
        }
        returned
    }

    /// What is due: graphs that are gone, idle pages past their time.
    pub(super) fn due(&self, heap: &mut MutexGuard<'_, Heap>) {
        self.collect_graphs(heap);
        let Some(decay) = self.desc.decay_ms else { return };
        let now = heap.now_ms;
        if now < self.decayed_ms.load(Relaxed) + DECAY_TICK_MS.min(u64::from(decay)) {
            return;
        }
        self.decayed_ms.store(now, Relaxed);
        let Some(before) = now.checked_sub(u64::from(decay)) else { return };
        self.release_idle(heap, before, u64::MAX - (16 << 20));
    }

    /// After a free in a pool without decay time: give back what is finished within a moment.
    pub(super) fn give_back_at_once(&self, heap: &mut MutexGuard<'_, Heap>) -> Result<()> {
        self.settle(heap)?;
        self.release_idle(heap, u64::MAX, u64::MAX - (16 << 20));
        Ok(())
    }

    /// The same, asked for by the runtime's poll.
    pub fn poll(&self) -> Result<()> {
        if let Some(e) = self.backend.sticky() {
            return Err(e);
        }
        let mut heap = self.heap.lock();
        heap.now_ms = now_ms();
        if self.desc.decay_ms.is_some() && heap.streams.has_open() {
            self.close_everything(&mut heap);
        }
        self.poll_events(&mut heap)?;
        self.due(&mut heap);
        Ok(())
    }

    /// Destroy the pool: refused with live blocks, unless `force`.
    pub fn destroy(&self, force: bool) -> Result<()> {
        if let Some(e) = self.backend.sticky().filter(|_| !force) {
            return Err(e);
        }
        {
            let heap = self.heap.lock();
            let live = heap.counters.live_blocks;
            if live > 0 && !force {
                return Err(Error::new(Status::E_POOL_BUSY, "live blocks").bytes(live, 0));
            }
        }
        if self.closed.swap(true, Relaxed) {
            return Err(Error::new(Status::E_HANDLE, "pool was destroyed"));
        }
        let device = self.desc.device;
        let lost = self.backend.synchronize(device).is_err();
        let mut heap = self.heap.lock();
        let progressed = heap.streams.finish_all();
        heap.collect(&progressed);
        let ids: Vec<_> = heap.handles.ids().collect();
        for id in ids {
            if lost {
                break;
            }
            let bytes = u64::from(heap.handles[id].pages) << heap.page_shift;
            let places: Vec<u64> = heap.handles[id]
                .aliases
                .iter()
                .map(|&a| {
                    let a = heap.handles.alias(a);
                    heap.regions[a.region as usize].page_addr(a.page as usize)
                })
                .collect();
            let phys = heap.handles[id].phys;
            for addr in places {
                if !self.virtual_memory {
                    break;
                }
                (self.hooks.mapping)(false, device, addr, bytes, phys.0);
                let _ = self.backend.unmap(device, addr, bytes);
            }
            let _ = self.backend.release(device, phys, bytes);
        }
        self.ledger.give(heap.counters.held_bytes);
        heap.streams.clear_events(device, self.backend);
        drop(heap);
        self.unreserve();
        self.captures.clear();
        // The pool's record is leaked, its metadata is not.
        *self.heap.lock() = Heap::new(self.page_bytes, self.asynchronous);
        Ok(())
    }
}
