//! Layer 3: streams, and what "freed on a stream" promises.
//!
//! A free joins the stream's open *epoch*. One event closes an epoch: when it is complete, so is
//! everything that was freed in it. Memory freed in an unfinished epoch serves its own stream only.
//! A stream is known by its id, never by its handle, because a destroyed stream's handle comes back
//! for a new stream while the old one's work still runs.
//!
//! Handles are touched only inside calls that were given them, unless the stream is persistent.
//! What is left open by streams that are never heard of again (orphans) is closed by an event that
//! covers the whole context.

pub mod events;

use crate::base::Result;
use crate::device::{Backend, CaptureInfo};
use crate::space::Tag;
use events::{EventId, Events};
use std::collections::{HashMap, VecDeque};

/// A stream as a call names it, resolved by the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamRef {
    /// Unique for the life of the process.
    pub key: u64,
    /// The driver's handle.
    pub raw: u64,
    /// The handle may be used in later calls too.
    pub persistent: bool,
    /// Captures are told by the caller: the driver need not be asked.
    pub told: bool,
    /// Set while it is being captured.
    pub capture: Option<CaptureInfo>,
}

/// Index of the record that stands for "any stream of the context".
pub const CONTEXT: u32 = 1;

/// A freed block that waits for an epoch.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// The epoch.
    pub epoch: u64,
    /// Start of the block.
    pub addr: u64,
    /// Its region.
    pub region: u16,
}

/// What a pool knows of a stream.
#[derive(Default)]
pub struct StreamRecord {
    /// Its id.
    pub key: u64,
    /// Its handle, for persistent streams.
    pub raw: u64,
    /// See `StreamRef::persistent`.
    pub persistent: bool,
    /// See `StreamRef::told`.
    pub told: bool,
    /// Epoch that frees join now; the first is 1.
    pub open: u64,
    /// Frees and bytes in the open epoch.
    pub open_frees: u64,
    /// See `open_frees`.
    pub open_bytes: u64,
    /// Last epoch known to be complete.
    pub completed: u64,
    closed: VecDeque<(u64, EventId)>,
    /// Tree of ready ranges of this stream in each region.
    pub roots: Vec<u32>,
    /// Recorded uses of live blocks that name this record.
    pub uses: u32,
    /// List of ready ranges with this stream's tag, oldest epoch first.
    pub tag_head: u32,
    /// See `tag_head`.
    pub tag_tail: u32,
    /// Freed blocks that wait for an epoch of this stream, by epoch.
    pub waiting: VecDeque<Waiting>,
    /// Partly free slabs by size class.
    pub partial: Vec<u32>,
    /// Retired: its slabs may be adopted once this epoch is complete.
    pub retired_after: Option<u64>,
    /// Milliseconds of the runtime's clock at the last call that named it.
    pub last_use_ms: u64,
}

impl StreamRecord {
    /// Nothing waits for the stream, nothing is kept for it: another may have the record.
    fn says_nothing(&self) -> bool {
        self.open_frees == 0
            && self.uses == 0
            && self.closed.is_empty()
            && self.completed + 1 == self.open
            && self.waiting.is_empty()
            && self.tag_head == 0
            && self.roots.iter().all(|&root| root == 0)
            && self.partial.iter().all(|&slab| slab == 0)
    }
}

/// The streams of a pool.
pub struct Streams {
    records: Vec<StreamRecord>,
    by_key: HashMap<u64, u32>,
    last: (u64, u32),
    events: Events,
    polled: Vec<u32>,
    retired: Vec<u32>,
    /// Where the next search for a record to use again begins.
    cursor: u32,
    /// Bytes in all open epochs.
    pub open_bytes: u64,
    /// Events recorded and queried.
    pub recorded: u64,
    /// See `recorded`.
    pub queried: u64,
}

impl Default for Streams {
    fn default() -> Self {
        // Index 0 is "no stream"; index 1 stands for the context.
        let fresh = || StreamRecord { open: 1, ..StreamRecord::default() };
        Streams {
            records: vec![fresh(), fresh()],
            by_key: HashMap::new(),
            last: (u64::MAX, 0),
            events: Events::default(),
            polled: Vec::new(),
            retired: Vec::new(),
            cursor: 2,
            open_bytes: 0,
            recorded: 0,
            queried: 0,
        }
    }
}

impl std::ops::Index<u32> for Streams {
    type Output = StreamRecord;
    #[inline]
    fn index(&self, i: u32) -> &StreamRecord {
        &self.records[i as usize]
    }
}

impl std::ops::IndexMut<u32> for Streams {
    #[inline]
    fn index_mut(&mut self, i: u32) -> &mut StreamRecord {
        &mut self.records[i as usize]
    }
}

impl Streams {
    /// The record of a stream, made on first sight.
    #[inline]
    pub fn intern(&mut self, stream: &StreamRef, now_ms: u64) -> u32 {
        if self.last.0 != stream.key || self.last.1 == 0 {
            let index = self.intern_slow(stream);
            self.last = (stream.key, index);
        }
        let index = self.last.1;
        self.records[index as usize].last_use_ms = now_ms;
        index
    }

    fn intern_slow(&mut self, stream: &StreamRef) -> u32 {
        let index = match self.by_key.get(&stream.key) {
            Some(&index) => index,
            None => self.new_record(stream.key),
        };
        let record = &mut self.records[index as usize];
        record.raw = stream.raw;
        record.persistent |= stream.persistent;
        record.told |= stream.told;
        index
    }

    /// A record for a stream seen for the first time: one that says nothing any more, if the search
    /// finds it within a few steps, else a new one. So short-lived streams leave no trail.
    fn new_record(&mut self, key: u64) -> u32 {
        for _ in 0..8.min(self.count()) {
            let index = self.cursor;
            self.cursor = if index + 1 < self.indices().end { index + 1 } else { 2 };
            if self.records[index as usize].says_nothing() {
                self.bury(index);
                let old = self[index].key;
                self.by_key.remove(&old);
                self.last = (u64::MAX, 0);
                self.by_key.insert(key, index);
                let record = &mut self[index];
                // Epochs go on, so that tags of the earlier stream stay finished.
                *record = StreamRecord {
                    key,
                    open: record.open,
                    completed: record.completed,
                    roots: std::mem::take(&mut record.roots),
                    partial: std::mem::take(&mut record.partial),
                    ..StreamRecord::default()
                };
                return index;
            }
        }
        let index = self.records.len() as u32;
        self.records.push(StreamRecord { key, open: 1, ..StreamRecord::default() });
        self.by_key.insert(key, index);
        index
    }

    /// A registered stream is about to be destroyed: its handle is never touched again.
    pub fn retire(&mut self, key: u64) {
        if let Some(&i) = self.by_key.get(&key) {
            let record = &mut self[i];
            record.persistent = false;
            record.retired_after =
                Some(if record.open_frees > 0 { record.open } else { record.open - 1 });
            if !self.retired.contains(&i) {
                self.retired.push(i);
            }
        }
    }

    /// A retired stream whose work is finished, so that others may take its slabs over.
    pub fn heir(&self) -> Option<u32> {
        self.retired
            .iter()
            .copied()
            .find(|&i| self[i].retired_after.is_some_and(|epoch| self[i].completed >= epoch))
    }

    /// Nothing is left to take over from a retired stream.
    pub fn bury(&mut self, index: u32) {
        self.retired.retain(|&i| i != index);
    }

    /// The record of a key, if it was seen.
    pub fn find(&self, key: u64) -> Option<u32> {
        self.by_key.get(&key).copied()
    }

    /// Number of real streams seen.
    pub fn count(&self) -> usize {
        self.records.len() - 2
    }

    /// Indices of the real streams.
    pub fn indices(&self) -> std::ops::Range<u32> {
        2..self.records.len() as u32
    }

    /// The tag of a free on the stream now.
    #[inline]
    pub fn tag(&self, index: u32) -> Tag {
        Tag { stream: index, epoch: self[index].open }
    }

    /// Let a freed block wait for an epoch of a stream. The queue stays in order of epochs.
    pub fn wait(&mut self, stream: u32, item: Waiting) {
        let queue = &mut self[stream].waiting;
        let mut at = queue.len();
        while at > 0 && queue[at - 1].epoch > item.epoch {
            at -= 1;
        }
        queue.insert(at, item);
    }

    /// True if everything up to the tag is known to be finished.
    #[inline]
    pub fn done(&self, tag: Tag) -> bool {
        tag.stream == 0 || self[tag.stream].completed >= tag.epoch
    }

    /// A free joined the open epoch.
    #[inline]
    pub fn note_free(&mut self, index: u32, bytes: u64) {
        self.open_bytes += bytes;
        let record = &mut self[index];
        record.open_frees += 1;
        record.open_bytes += bytes;
    }

    /// True if the open epoch is full enough to be worth an event. With one stream nobody else
    /// waits for its memory, so events are needed for giving pages back only.
    #[inline]
    pub fn wants_close(&self, index: u32, held_bytes: u64) -> bool {
        let record = &self[index];
        if self.count() == 1 {
            record.open_frees >= 1024 && record.open_bytes >= held_bytes / 8
        } else {
            // Together the streams leave at most a quarter of the memory without an event.
            let share = held_bytes / (4 * self.count() as u64);
            record.open_bytes >= share.clamp(64 << 10, 64 << 20)
        }
    }

    /// The stream took its own memory back: fewer bytes wait for its epoch.
    #[inline]
    pub fn note_reuse(&mut self, index: u32, bytes: u64) {
        let bytes = bytes.min(self[index].open_bytes);
        self.open_bytes -= bytes;
        self[index].open_bytes -= bytes;
    }

    /// Close the open epoch of a live stream that is not being captured by an event on `raw`.
    pub fn close(
        &mut self,
        index: u32,
        raw: u64,
        device: u32,
        backend: &dyn Backend,
    ) -> Result<()> {
        if self[index].open_frees == 0 {
            return Ok(());
        }
        let event = self.events.get(device, backend)?;
        if let Err(e) = backend.event_record(device, self.events.handle(event), raw) {
            self.events.put(event);
            return Err(e);
        }
        self.recorded += 1;
        self.seal(index, event);
        Ok(())
    }

    fn seal(&mut self, index: u32, event: EventId) {
        let record = &mut self[index];
        if record.closed.is_empty() {
            self.polled.push(index);
        }
        self.open_bytes -= self[index].open_bytes;
        let record = &mut self[index];
        record.closed.push_back((record.open, event));
        record.open += 1;
        record.open_frees = 0;
        record.open_bytes = 0;
    }

    /// Close every open epoch by one event that covers the whole context. The caller knows of no
    /// running capture.
    pub fn close_all(&mut self, device: u32, backend: &dyn Backend) -> Result<()> {
        let open: Vec<u32> =
            (1..self.records.len() as u32).filter(|&i| self[i].open_frees > 0).collect();
        if open.is_empty() {
            return Ok(());
        }
        let event = self.events.get(device, backend)?;
        if let Err(e) = backend.event_record_context(device, self.events.handle(event)) {
            self.events.put(event);
            return Err(e);
        }
        self.recorded += 1;
        for (n, &index) in open.iter().enumerate() {
            if n > 0 {
                self.events.share(event);
            }
            self.seal(index, event);
        }
        Ok(())
    }

    /// Test: the open epoch of a stream is closed and complete.
    #[cfg(test)]
    pub fn complete(&mut self, index: u32) {
        self.open_bytes -= self[index].open_bytes;
        let record = &mut self[index];
        record.completed = record.open;
        record.open += 1;
        record.open_frees = 0;
        record.open_bytes = 0;
    }

    /// Everything freed so far is known to be finished, by other means than events.
    pub fn finish_all(&mut self) -> Vec<u32> {
        let mut progressed = Vec::new();
        for index in 1..self.records.len() as u32 {
            let mut last = self[index].completed;
            while let Some((epoch, event)) = self[index].closed.pop_front() {
                last = epoch;
                self.events.put(event);
            }
            self.open_bytes -= self[index].open_bytes;
            let record = &mut self[index];
            if record.open_frees > 0 {
                last = record.open;
                record.open += 1;
                record.open_frees = 0;
                record.open_bytes = 0;
            }
            record.completed = last;
            progressed.push(index);
        }
        self.polled.clear();
        progressed
    }

    /// Ask the oldest events; returns the streams that made progress.
    pub fn poll(&mut self, device: u32, backend: &dyn Backend) -> Result<Vec<u32>> {
        let mut progressed = Vec::new();
        let polled = std::mem::take(&mut self.polled);
        let mut failed = None;
        for &index in &polled {
            let before = self[index].completed;
            while let Some(&(epoch, event)) = self[index].closed.front() {
                if failed.is_some() {
                    break;
                }
                self.queried += 1;
                match backend.event_query(device, self.events.handle(event)) {
                    Ok(true) => {
                        self[index].closed.pop_front();
                        self[index].completed = epoch;
                        self.events.put(event);
                    }
                    Ok(false) => break,
                    Err(e) => failed = Some(e),
                }
            }
            if self[index].completed > before {
                progressed.push(index);
            }
        }
        self.polled = polled.into_iter().filter(|&i| !self[i].closed.is_empty()).collect();
        match failed {
            Some(e) if progressed.is_empty() => Err(e),
            _ => Ok(progressed),
        }
    }

    /// True if some event is outstanding.
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.polled.is_empty()
    }

    /// True if some epoch has frees and no event yet.
    pub fn has_open(&self) -> bool {
        self.records.iter().any(|r| r.open_frees > 0)
    }

    /// The event that will be complete first, by the best guess: the oldest of the stream that has
    /// waited longest. Kept alive until `unwatch`.
    pub fn oldest_event(&mut self) -> Option<(EventId, crate::device::EventHandle)> {
        let &index = self.polled.first()?;
        let &(_, event) = self[index].closed.front()?;
        self.events.share(event);
        Some((event, self.events.handle(event)))
    }

    /// Give back what `oldest_event` kept.
    pub fn unwatch(&mut self, event: EventId) {
        self.events.put(event);
    }

    /// Destroy all events.
    pub fn clear_events(&mut self, device: u32, backend: &dyn Backend) {
        for record in &mut self.records {
            record.closed.clear();
        }
        self.polled.clear();
        self.events.destroy(device, backend);
    }
}
