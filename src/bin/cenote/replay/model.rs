//! A model allocator for the engine's tests: first fit over pages that are kept until
//! `empty_cache`.

use super::allocator::{Allocator, Refused, Stats};
use std::collections::BTreeMap;

const PAGE_BYTES: u64 = 1 << 21;
const BASE: u64 = 1 << 40;

/// The model; its last fields are faults that a test can plant.
#[derive(Default)]
pub struct Model {
    pub(super) live: BTreeMap<u64, u64>,
    pub(super) pages: u64,
    pub(super) stats: Stats,
    pub(super) ticks: u64,
    pub(super) alloc_count: u64,
    pub(super) limit_bytes: Option<u64>,
    pub(super) overlap_at: Option<u64>,
    pub(super) miscount_bytes: u64,
    pub(super) keeps_bytes: u64,
}

impl Allocator for Model {
    fn alloc(&mut self, size_bytes: u64, _stream: u16) -> Result<u64, Refused> {
        self.alloc_count += 1;
        if self.limit_bytes.is_some_and(|limit| self.stats.live_bytes + size_bytes > limit) {
            return Err(Refused(2002));
        }
        if self.overlap_at == Some(self.alloc_count) {
            return Ok(*self.live.keys().next().unwrap_or(&BASE));
        }
        if size_bytes == 0 {
            return Ok(0);
        }
        let mut at = BASE;
        for (start, size) in &self.live {
            if at + size_bytes <= *start {
                break;
            }
            at = start + size;
        }
        self.live.insert(at, size_bytes);
        let pages = (at + size_bytes - BASE).div_ceil(PAGE_BYTES);
        self.stats.driver_calls.create += pages.saturating_sub(self.pages);
        self.pages = self.pages.max(pages);
        self.stats.live_bytes += size_bytes;
        self.stats.held_bytes = self.pages * PAGE_BYTES;
        self.stats.peak_live_bytes = self.stats.peak_live_bytes.max(self.stats.live_bytes);
        self.stats.peak_held_bytes = self.stats.peak_held_bytes.max(self.stats.held_bytes);
        Ok(at)
    }

    fn free(&mut self, address: u64, _stream: u16) -> Result<(), Refused> {
        if address == 0 {
            return Ok(());
        }
        let size_bytes = self.live.remove(&address).ok_or(Refused(1010))?;
        self.stats.live_bytes -= size_bytes;
        Ok(())
    }

    fn tick(&mut self) {
        self.ticks += 1;
    }

    fn settle(&mut self) -> Result<(), Refused> {
        Ok(())
    }

    fn stats(&mut self) -> Result<Stats, Refused> {
        let mut stats = self.stats;
        stats.peak_live_bytes += self.miscount_bytes;
        Ok(stats)
    }

    fn reset_peaks(&mut self) -> Result<(), Refused> {
        self.stats.peak_live_bytes = self.stats.live_bytes;
        self.stats.peak_held_bytes = self.stats.held_bytes;
        Ok(())
    }

    fn empty_cache(&mut self) -> Result<(), Refused> {
        self.pages = 0;
        self.stats.held_bytes = self.keeps_bytes;
        Ok(())
    }

    fn host_visible(&self) -> bool {
        false
    }

    fn explain(&self, refused: Refused) -> String {
        format!("the model says {refused}")
    }
}
