//! From a free to the last use: recorded streams, pins, and frees that wait for an epoch.

use super::slab::state;
use super::{Heap, Place};
use crate::base::{Error, Result, Status};
use crate::space::ranges::Id;
use crate::space::{Kind, Tag};
use crate::stream::Waiting;

/// A recorded use of a block on another stream than the one it is freed on.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// The stream.
    pub stream: u32,
    /// The epoch in which the use ends; none: it lasts until the free.
    pub epoch: Option<u64>,
}

/// What only few blocks have.
#[derive(Debug, Default)]
pub struct Extra {
    /// Pins.
    pub pins: u32,
    /// Recorded uses.
    pub uses: Vec<Use>,
    /// Epochs that the freed block still waits for.
    pub waits: u32,
    /// The tag it gets then.
    pub tag: Option<Tag>,
}

impl Heap {
    pub(crate) fn has_extra(&self, place: Place) -> bool {
        match place {
            Place::Range(id) => self.ranges[id].uses != 0,
            Place::Slab { slab, index } => self.slabs[slab].states[index] & state::EXTRA != 0,
        }
    }

    fn extra_of(&mut self, place: Place) -> &mut Extra {
        match place {
            Place::Range(id) => self.ranges[id].uses = 1,
            Place::Slab { slab, index } => self.slabs[slab].states[index] |= state::EXTRA,
        }
        let addr = self.start(place);
        self.extra.entry(addr).or_default()
    }

    /// Pins of a block.
    pub fn pins(&self, place: Place) -> u32 {
        self.extra.get(&self.start(place)).map_or(0, |e| e.pins)
    }

    /// One pin more or less.
    pub fn pin(&mut self, place: Place, up: bool) -> Result<()> {
        let extra = self.extra_of(place);
        if !up && extra.pins == 0 {
            return Err(Error::new(Status::E_ARGUMENT, "unpin without pin"));
        }
        extra.pins = if up { extra.pins + 1 } else { extra.pins - 1 };
        Ok(())
    }

    /// The block is used on a stream, until it is freed or the use is ended.
    pub fn record_use(&mut self, place: Place, stream: u32) {
        let uses = &mut self.extra_of(place).uses;
        match uses.iter_mut().find(|u| u.stream == stream) {
            Some(u) => u.epoch = None,
            None => {
                uses.push(Use { stream, epoch: None });
                self.streams[stream].uses += 1;
            }
        }
    }

    /// The use on a stream ends in its open epoch, which the caller closes now.
    pub fn end_use(&mut self, place: Place, stream: u32) -> Result<()> {
        let addr = self.start(place);
        let open = self.streams.tag(stream).epoch;
        let recorded = self
            .extra
            .get_mut(&addr)
            .and_then(|e| e.uses.iter_mut().find(|u| u.stream == stream && u.epoch.is_none()));
        let Some(recorded) = recorded else {
            return Err(Error::new(Status::E_NOT_RECORDED, "use_end"));
        };
        recorded.epoch = Some(open);
        self.streams.note_free(stream, 0);
        Ok(())
    }

    /// At a free: let the block wait for every recorded use that is not finished. False if none is
    /// left.
    pub(crate) fn settle_uses(&mut self, region: u16, addr: u64, stream: u32, used: u64) -> bool {
        let Some(extra) = self.extra.get_mut(&addr) else { return false };
        let uses = std::mem::take(&mut extra.uses);
        for u in uses {
            self.streams[u.stream].uses -= 1;
            if u.stream == stream || !self.asynchronous {
                continue;
            }
            let open = self.streams.tag(u.stream).epoch;
            if u.epoch.is_none() {
                self.streams.note_free(u.stream, used);
            }
            let tag = Tag { stream: u.stream, epoch: u.epoch.unwrap_or(open) };
            if !self.streams.done(tag) {
                self.wait_for(region, addr, tag);
            }
        }
        let waits = self.extra.get(&addr).is_some_and(|e| e.waits > 0);
        if !waits {
            self.extra.remove(&addr);
        }
        waits
    }

    pub(crate) fn wait_for(&mut self, region: u16, addr: u64, tag: Tag) {
        self.extra.entry(addr).or_default().waits += 1;
        self.streams.wait(tag.stream, Waiting { epoch: tag.epoch, addr, region });
    }

    /// Streams made progress: their finished memory serves everybody.
    pub fn collect(&mut self, progressed: &[u32]) {
        for &stream in progressed {
            let completed = self.streams[stream].completed;
            loop {
                let id = self.streams[stream].tag_head;
                if id == 0 || self.ranges[id].epoch > completed {
                    break;
                }
                self.clear_tag(id);
            }
            while let Some(front) = self.streams[stream].waiting.front().copied() {
                if front.epoch > completed {
                    break;
                }
                self.streams[stream].waiting.pop_front();
                self.one_wait_less(front);
            }
        }
    }

    fn clear_tag(&mut self, id: Id) {
        self.ready_remove(id);
        self.free_range(id, None);
    }

    fn one_wait_less(&mut self, item: Waiting) {
        let Some(extra) = self.extra.get_mut(&item.addr) else { return };
        extra.waits -= 1;
        if extra.waits > 0 {
            return;
        }
        let tag = extra.tag;
        self.extra.remove(&item.addr);
        match self.locate(item.region, item.addr, false) {
            Ok(Place::Range(id)) if self.ranges[id].kind == Kind::Pending => {
                self.counters.pending_bytes -= self.ranges[id].size;
                let tag = tag.filter(|&t| !self.streams.done(t));
                self.finish_range(id, tag);
            }
            Ok(Place::Slab { slab, index }) => {
                let class = self.slabs[slab].class as usize;
                self.counters.pending_bytes -= super::size_class::SIZES[class];
                self.give_to_slab(slab, index);
            }
            _ => debug_assert!(false, "a waiting block vanished"),
        }
    }

    /// Bytes whose last use is not known to be finished.
    pub fn pending_bytes(&self) -> u64 {
        let mut bytes = self.counters.pending_bytes;
        for stream in self.streams.indices() {
            let mut id = self.streams[stream].tag_head;
            while id != 0 {
                bytes += self.ranges[id].size;
                id = self.ranges[id].tag_next;
            }
        }
        bytes
    }

    /// The memory of a graph that is gone may be used by others once its launches are finished.
    pub fn release_graph(&mut self, graph: u64) {
        let regions: Vec<u16> = (0..self.regions.len() as u16)
            .filter(|&r| self.regions[r as usize].graph == graph)
            .collect();
        if regions.is_empty() {
            return;
        }
        let tag = self.tag_now(crate::stream::CONTEXT);
        if let Some(tag) = tag {
            self.streams.note_free(tag.stream, 1);
        }
        let ids: Vec<_> = self.handles.ids().collect();
        for id in ids {
            // While it is private, the graph's region is its last place.
            let place = self.handles[id].aliases.last().copied();
            let region = place.map(|a| self.handles.alias(a).region);
            if !self.handles[id].private || !region.is_some_and(|r| regions.contains(&r)) {
                continue;
            }
            let handle = &mut self.handles[id];
            handle.private = false;
            handle.home = 0;
            handle.tags.extend(tag);
            if handle.touches == 0 && !handle.busy {
                handle.idle_since_ms = 0;
                self.handles.list(id);
            }
        }
        for r in regions {
            self.regions[r as usize].graph = crate::heap::NO_GRAPH;
        }
    }
}
