//! Giving idle handles back, with all their places.

use super::Heap;
use crate::device::PhysHandle;
use crate::space::handles::{AliasId, HandleId, HANDLE_PAGES_MAX};
use crate::space::ranges::Id;
use crate::space::Kind;

/// A place to unmap.
#[derive(Clone, Copy, Debug)]
pub struct Unmap {
    /// Address.
    pub addr: u64,
    /// Bytes.
    pub bytes: u64,
    pub(super) alias: AliasId,
    pub(super) range: Id,
}

/// A handle to give back: unmap every place, then release.
#[derive(Debug)]
pub struct Return {
    /// The driver's handle.
    pub phys: PhysHandle,
    /// Bytes.
    pub bytes: u64,
    /// Its places.
    pub unmaps: Vec<Unmap>,
    handle: HandleId,
}

impl Heap {
    /// Up to `count` idle handles that nothing uses any more, marked busy. `idle_before_ms` spares
    /// younger ones; `most_bytes` bounds the sum.
    pub fn pick_idle(&mut self, count: usize, idle_before_ms: u64, most_bytes: u64) -> Vec<Return> {
        let mut picked = Vec::new();
        let mut bytes = 0;
        for pages in (1..=HANDLE_PAGES_MAX).rev() {
            let mut id = self.handles.oldest(pages);
            while id != 0 && picked.len() < count {
                let size = u64::from(self.handles[id].pages) << self.page_shift;
                if bytes + size > most_bytes && bytes > 0 {
                    break;
                }
                let next = self.handles.younger(id);
                if self.handles[id].idle_since_ms > idle_before_ms {
                    break;
                }
                let streams = &self.streams;
                if self.handles.finished(id, |t| streams.done(t)) {
                    picked.push(self.take_idle(id));
                    bytes += size;
                }
                id = next;
            }
        }
        picked
    }

    fn take_idle(&mut self, id: HandleId) -> Return {
        self.handles.unlist(id);
        self.handles[id].busy = true;
        let bytes = u64::from(self.handles[id].pages) << self.page_shift;
        let aliases = self.handles[id].aliases.clone();
        let unmaps = aliases.iter().map(|&alias| self.close_place(alias, bytes)).collect();
        Return { phys: self.handles[id].phys, bytes, unmaps, handle: id }
    }

    pub(super) fn close_place(&mut self, alias: AliasId, bytes: u64) -> Unmap {
        let (region, page, blocked) = {
            let a = self.handles.alias(alias);
            (a.region, a.page as usize, a.blocked)
        };
        let addr = self.regions[region as usize].page_addr(page);
        let range = if blocked != 0 {
            self.handles.alias_mut(alias).blocked = 0;
            self.ranges[blocked].kind = Kind::Busy;
            blocked
        } else {
            let near = self.range_at(region, addr);
            self.flip_alias(alias, near, Kind::Busy)
        };
        Unmap { addr, bytes, alias, range }
    }

    /// The ready range that contains an address.
    fn range_at(&self, region: u16, addr: u64) -> Id {
        let mut found = self.ranges.containing(self.root(region, 0), addr);
        let mut stream = 1;
        while found == 0 && stream < self.streams.indices().end {
            found = self.ranges.containing(self.root(region, stream), addr);
            stream += 1;
        }
        found
    }

    /// Regions of handles that are whole driver allocations.
    pub fn regions_of(&self, items: &[Return]) -> Vec<u16> {
        let places = items.iter().flat_map(|item| &item.unmaps);
        places.map(|place| self.handles.alias(place.alias).region).collect()
    }

    /// The driver took the handle back.
    pub fn returned(&mut self, item: &Return) {
        for place in &item.unmaps {
            self.unmapped(place);
        }
        self.handles.drop_handle(item.handle);
    }

    pub(super) fn unmapped(&mut self, place: &Unmap) {
        let (region, page, handle) = {
            let a = self.handles.alias(place.alias);
            (a.region as usize, a.page as usize, a.handle)
        };
        let pages = self.handles[handle].pages as usize;
        self.regions[region].pages[page..page + pages].fill(0);
        self.handles.drop_alias(place.alias);
        self.unmap_range(place.range);
    }
}
