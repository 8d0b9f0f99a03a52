//! Finding a ready range, taking it, and giving it back.

use super::Heap;
use crate::base::units::round_up;
use crate::space::handles::{AliasId, Conflict};
use crate::space::ranges::Id;
use crate::space::{Kind, Tag};

/// Candidates looked at before a request counts as a miss. Each is O(log n), so a miss never scans.
const TRIES: usize = 24;
/// Aliases found in use elsewhere before a request counts as a miss. Each is marked, and not met
/// again until its handle was idle, so the cost is spread over those changes.
const FLIPS: usize = 512;

impl Heap {
    /// A live range of `size` bytes from ready memory that `stream` may use; 0 if there is none.
    pub fn take_ready(&mut self, region: u16, stream: u32, size: u64, align: u64) -> Id {
        if let Some(id) = self.take_recalled(region, stream, size, align) {
            return id;
        }
        let mut from = 0;
        let mut want = size;
        let (mut tries, mut flips) = (0, 0);
        while tries < TRIES && flips < FLIPS {
            if tries == 6 {
                // Many misfits: ask for enough room to fit at any offset.
                want = size + self.page_bytes().max(align);
            }
            let id = self.lowest(region, stream, from, want);
            if id == 0 {
                return 0;
            }
            let range = self.ranges[id];
            let start = self.regions[region as usize].fit(range.addr, size, align);
            if start + size > range.addr + range.size {
                from = range.addr + 1;
                tries += 1;
                continue;
            }
            match self.acquire_span(region, start, size, stream) {
                Ok(()) => {
                    let block = self.carve(id, start, size);
                    self.settle_tags(block);
                    return block;
                }
                Err((alias, Conflict::Elsewhere)) => {
                    self.flip_alias(alias, id, Kind::Blocked);
                    flips += 1;
                }
                Err((_, Conflict::Unfinished)) => {
                    from = range.addr + 1;
                    tries += 1;
                }
            }
        }
        0
    }

    /// The place where the block was put last time, if it is free.
    fn take_recalled(&mut self, region: u16, stream: u32, size: u64, align: u64) -> Option<Id> {
        let r = &self.regions[region as usize];
        if r.graph != 0 {
            return None;
        }
        let addr = self.recall[r.sort as usize].predict(size)?;
        let r = &self.regions[region as usize];
        if addr < r.base || addr + size > r.base + r.size || addr % align != 0 {
            return None;
        }
        let mut id = self.ranges.containing(self.root(region, 0), addr);
        if id == 0 && self.asynchronous {
            id = self.ranges.containing(self.root(region, stream), addr);
        }
        if id == 0 || addr + size > self.ranges[id].addr + self.ranges[id].size {
            return None;
        }
        self.acquire_span(region, addr, size, stream).ok()?;
        let block = self.carve(id, addr, size);
        self.settle_tags(block);
        Some(block)
    }

    /// The lowest ready range that the stream may use.
    fn lowest(&self, region: u16, stream: u32, from: u64, size: u64) -> Id {
        let clean = self.ranges.first_fit(self.root(region, 0), from, size);
        if !self.asynchronous {
            return clean;
        }
        let own = self.ranges.first_fit(self.root(region, stream), from, size);
        match (clean, own) {
            (0, id) | (id, 0) => id,
            (a, b) if self.ranges[a].addr < self.ranges[b].addr => a,
            (_, b) => b,
        }
    }

    /// Use the handles under a span. On a conflict nothing is taken.
    pub(crate) fn acquire_span(
        &mut self,
        region: u16,
        addr: u64,
        size: u64,
        stream: u32,
    ) -> Result<(), (AliasId, Conflict)> {
        let r = &self.regions[region as usize];
        let (first, last) = (r.page_of(addr), r.page_of(addr + size - 1));
        let mut page = first;
        while page <= last {
            let alias = self.regions[region as usize].pages[page];
            let streams = &self.streams;
            match self.handles.acquire(alias, stream, |t| streams.done(t)) {
                Ok(None) => {}
                Ok(Some(tag)) => self.retags.push((alias, tag)),
                Err(conflict) => {
                    self.undo_acquire(region, first, page);
                    return Err((alias, conflict));
                }
            }
            let record = self.handles.alias(alias);
            page = record.page as usize + self.handles[record.handle].pages as usize;
        }
        Ok(())
    }

    pub(crate) fn undo_acquire(&mut self, region: u16, first: usize, end: usize) {
        self.retags.clear();
        let mut page = first;
        while page < end {
            let alias = self.regions[region as usize].pages[page];
            let (handle, at) = {
                let record = self.handles.alias(alias);
                (record.handle, record.page as usize)
            };
            if self.handles.release(alias, None, self.now_ms) {
                // The tags of its ranges no longer say everything: the next use must ask the
                // handle.
                self.handles[handle].home = 0;
            }
            page = at + self.handles[handle].pages as usize;
        }
    }

    /// After the block was carved: where it took handles through another place than the last one,
    /// with work of its own stream unfinished, the free ranges beside it on those handles are that
    /// work's too. They were clean or finished before, or the handle would not have been given.
    pub(crate) fn settle_tags(&mut self, block: Id) {
        while let Some((alias, tag)) = self.retags.pop() {
            let a = *self.handles.alias(alias);
            let low = self.regions[a.region as usize].page_addr(a.page as usize);
            let high = low + u64::from(self.handles[a.handle].pages) * self.page_bytes();
            while let Some(id) = self.untagged_beside(block, low, high, tag) {
                self.retag(id, low, high, tag);
            }
        }
    }

    /// A ready range between two addresses, on either side of a block, that lacks a tag.
    fn untagged_beside(&self, block: Id, low: u64, high: u64, tag: Tag) -> Option<Id> {
        let lacks = |id: Id| {
            let r = &self.ranges[id];
            r.kind == Kind::Ready && !(r.stream == tag.stream && r.epoch >= tag.epoch)
        };
        let mut id = self.ranges[block].next;
        while id != 0 && self.ranges[id].addr < high {
            if lacks(id) {
                return Some(id);
            }
            id = self.ranges[id].next;
        }
        id = self.ranges[block].prev;
        while id != 0 && self.ranges[id].addr + self.ranges[id].size > low {
            if lacks(id) {
                return Some(id);
            }
            id = self.ranges[id].prev;
        }
        None
    }

    fn retag(&mut self, mut id: Id, low: u64, high: u64, tag: Tag) {
        self.ready_remove(id);
        if self.ranges[id].addr < low {
            let rest = self.ranges.split(id, low);
            self.ready_insert(id);
            id = rest;
        }
        if self.ranges[id].addr + self.ranges[id].size > high {
            let rest = self.ranges.split(id, high);
            self.ready_insert(rest);
        }
        self.free_range(id, Some(tag));
    }

    /// One live block less on the handles under a span.
    pub(crate) fn release_span(&mut self, region: u16, addr: u64, size: u64, tag: Option<Tag>) {
        let r = &self.regions[region as usize];
        let (mut page, last) = (r.page_of(addr), r.page_of(addr + size - 1));
        while page <= last {
            let alias = self.regions[region as usize].pages[page];
            let (handle, at) = {
                let record = self.handles.alias(alias);
                (record.handle, record.page as usize)
            };
            if self.handles.release(alias, tag, self.now_ms) {
                self.unblock(handle);
            }
            page = at + self.handles[handle].pages as usize;
        }
    }

    /// The handle is idle: its other places may be used again. Their ranges carry no tag, because
    /// use through another alias than the last one always asks the handle.
    pub(crate) fn unblock(&mut self, handle: u32) {
        if self.handles[handle].aliases.len() < 2 {
            return;
        }
        for i in 0..self.handles[handle].aliases.len() {
            let alias = self.handles[handle].aliases[i];
            let id = std::mem::take(&mut self.handles.alias_mut(alias).blocked);
            if id != 0 {
                self.free_range(id, None);
            }
        }
    }

    /// Cut a live range out of a ready one (in its tree). What is left keeps its tag.
    fn carve(&mut self, id: Id, start: u64, size: u64) -> Id {
        let range = self.ranges[id];
        let (front, end) = (start - range.addr, range.addr + range.size);
        if range.stream != 0 {
            self.streams.note_reuse(range.stream, size);
        }
        if front == 0 && start + size == end {
            self.ready_remove(id);
            self.ranges[id].stream = 0;
            self.ranges[id].kind = Kind::Live;
            return id;
        }
        if front == 0 {
            // The common case: the rest stays the same node of the tree.
            let block = self.ranges.new_record(range.region, start, size, Kind::Live);
            self.ranges[block].prev = range.prev;
            self.ranges[block].next = id;
            if range.prev != 0 {
                self.ranges[range.prev].next = block;
            } else {
                self.regions[range.region as usize].first = block;
            }
            self.ranges[id].prev = block;
            self.ranges[id].addr += size;
            self.ranges[id].size -= size;
            self.ready_resized(id);
            return block;
        }
        let block = self.ranges.split(id, start);
        self.ready_resized(id);
        if start + size < end {
            let rest = self.ranges.split(block, start + size);
            self.ready_insert(rest);
        }
        self.ranges[block].stream = 0;
        self.ranges[block].kind = Kind::Live;
        block
    }

    /// Make a range (in no tree) ready, and join it with its neighbours.
    pub(crate) fn free_range(&mut self, id: Id, tag: Option<Tag>) {
        let (mut stream, mut epoch) = tag.map_or((0, 0), |t| (t.stream, t.epoch));
        let (prev, next) = (self.ranges[id].prev, self.ranges[id].next);
        let size = self.ranges[id].size;
        let with_prev = self.joins(prev, size, &mut stream, &mut epoch);
        let with_next = self.joins(next, size, &mut stream, &mut epoch);
        let keep = if with_prev && self.ranges[prev].stream == stream {
            prev
        } else if with_next && self.ranges[next].stream == stream {
            next
        } else {
            id
        };
        let low = if with_prev { prev } else { id };
        let high = if with_next { next } else { id };
        let addr = self.ranges[low].addr;
        let end = self.ranges[high].addr + self.ranges[high].size;
        for (other, joined) in [(prev, with_prev), (next, with_next)] {
            if joined && other != keep {
                self.ready_remove(other);
            }
        }
        for (other, joined) in [(prev, with_prev), (id, true), (next, with_next)] {
            if joined && other != keep {
                self.forget(other);
            }
        }
        self.ranges[keep].addr = addr;
        self.ranges[keep].size = end - addr;
        self.ranges[keep].requested = 0;
        self.ranges[keep].slab = 0;
        self.ranges[keep].uses = 0;
        if keep == id {
            self.ranges[id].stream = stream;
            self.ranges[id].epoch = epoch;
            self.ready_insert(id);
        } else {
            self.ready_resized(keep);
            if stream != 0 && self.ranges[keep].epoch != epoch {
                self.ranges[keep].epoch = epoch;
                self.tag_remove(keep);
                self.tag_append(keep);
            }
        }
    }

    /// Drop a record; the region's first range is kept right.
    pub(crate) fn forget(&mut self, id: Id) {
        let (region, prev, next) =
            (self.ranges[id].region as usize, self.ranges[id].prev, self.ranges[id].next);
        if prev == 0 {
            self.regions[region].first = next;
        }
        self.ranges.drop_record(id);
    }

    /// Whether a ready neighbour joins a range that becomes ready with a tag, and the tag of both.
    /// Same stream: always. Clean beside tagged: if there is only one stream, or if the clean part
    /// is the smaller one, so that little is kept from other streams until the epoch ends.
    fn joins(&self, other: Id, size: u64, stream: &mut u32, epoch: &mut u64) -> bool {
        if other == 0 || self.ranges[other].kind != Kind::Ready {
            return false;
        }
        let n = &self.ranges[other];
        if n.stream == *stream {
            *epoch = (*epoch).max(n.epoch);
            return true;
        }
        let one_stream = self.streams.count() == 1;
        if n.stream == 0 {
            return one_stream || n.size <= size;
        }
        if *stream == 0 && (one_stream || size <= n.size) {
            *stream = n.stream;
            *epoch = n.epoch;
            return true;
        }
        false
    }

    /// Take the pages of an inactive alias out of the ready ranges: one range of the given kind.
    /// `near` is a ready range that overlaps it.
    pub(crate) fn flip_alias(&mut self, alias: AliasId, near: Id, kind: Kind) -> Id {
        let (region, page, handle) = {
            let a = self.handles.alias(alias);
            (a.region as usize, a.page as usize, a.handle)
        };
        let low = self.regions[region].page_addr(page);
        let high = low + u64::from(self.handles[handle].pages) * self.page_bytes();
        let mut id = near;
        while self.ranges[id].addr > low {
            id = self.ranges[id].prev;
        }
        while self.ranges[id].addr + self.ranges[id].size <= low {
            id = self.ranges[id].next;
        }
        self.ready_remove(id);
        if self.ranges[id].addr < low {
            let rest = self.ranges.split(id, low);
            self.ready_insert(id);
            id = rest;
        }
        // What is left behind the alias keeps the tag of the range that it is cut from.
        let mut tag = (self.ranges[id].stream, self.ranges[id].epoch);
        while self.ranges[id].addr + self.ranges[id].size < high {
            let next = self.ranges[id].next;
            tag = (self.ranges[next].stream, self.ranges[next].epoch);
            self.ready_remove(next);
            if self.ranges[next].addr + self.ranges[next].size > high {
                // What lies beyond keeps its own tag, not that of the first range.
                let rest = self.ranges.split(next, high);
                self.ready_insert(rest);
            }
            self.ranges[id].size += self.ranges[next].size;
            self.forget(next);
        }
        if self.ranges[id].addr + self.ranges[id].size > high {
            let rest = self.ranges.split(id, high);
            (self.ranges[rest].stream, self.ranges[rest].epoch) = tag;
            self.ready_insert(rest);
        }
        self.ranges[id].kind = kind;
        self.ranges[id].stream = 0;
        if kind == Kind::Blocked {
            self.handles.alias_mut(alias).blocked = id;
        }
        id
    }

    /// Size of a block's range: what the request is rounded up to.
    pub fn block_size(&self, region: u16, requested: u64) -> u64 {
        round_up(requested.max(1), self.regions[region as usize].granule)
    }
}
