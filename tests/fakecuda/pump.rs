//! Running the queued work: what can start starts, what is over completes, and what it does to
//! memory happens then.

use crate::abi::{code, Res};
use crate::callback::Job;
use crate::engine::{Item, Kernel, Point, Progress, StreamKind, Work};
use crate::memory::Owner;
use crate::state::{self, State};

const CHUNK: usize = 1 << 20;
/// Queries in a row, without new work between them, that count as a wait.
const POLLS_THAT_WAIT: u32 = 64;

impl State {
    /// Queue work behind everything that stream order puts before it, and behind `deps`.
    pub fn enqueue(&mut self, id: u64, mut deps: Vec<Point>, work: Work) -> Point {
        self.implied_deps(id, &mut deps);
        deps.retain(|point| !self.engine.reached(point));
        self.engine.clock_us = self.engine.target_us(self.opts.deterministic);
        self.engine.ops += 1;
        self.engine.idle_polls = 0;
        let due_op = self.engine.ops + self.opts.lag_ops;
        for (addr, len, _) in work.ranges() {
            self.memory.add_use(addr, len);
        }
        let seq = match self.engine.streams.get_mut(&id) {
            Some(stream) => {
                stream.queued += 1;
                let (seq, progress) = (stream.queued, Progress::Waiting);
                stream.queue.push_back(Item { seq, deps, due_op, progress, work });
                seq
            }
            None => 0,
        };
        self.engine.pending.insert(id);
        self.pump();
        Point { stream: id, seq }
    }

    /// The legacy stream waits for all blocking streams of its context, and they for it.
    fn implied_deps(&self, id: u64, deps: &mut Vec<Point>) {
        let stream = &self.engine.streams[&id];
        let tail = |other: u64| Point { stream: other, seq: self.engine.streams[&other].queued };
        match stream.kind {
            StreamKind::NonBlocking => {}
            StreamKind::Legacy => {
                let peers = self.engine.pending.iter().filter(|other| {
                    let peer = &self.engine.streams[other];
                    peer.context == stream.context && peer.kind.is_blocking()
                });
                deps.extend(peers.map(|other| tail(*other)));
            }
            StreamKind::PerThread | StreamKind::Blocking => {
                if let Some(context) = self.contexts.get(stream.context) {
                    if self.engine.pending.contains(&context.legacy) {
                        deps.push(tail(context.legacy));
                    }
                }
            }
        }
    }

    /// Bring everything up to the clock.
    pub fn pump(&mut self) {
        if self.engine.pending.is_empty() {
            return;
        }
        let target = self.engine.target_us(self.opts.deterministic);
        let mut progress = false;
        loop {
            progress |= self.run_ready();
            match self.engine.next_deadline() {
                Some(deadline) if deadline <= target => {
                    self.engine.clock_us = self.engine.clock_us.max(deadline);
                    if !self.run_ready() {
                        break;
                    }
                }
                _ => break,
            }
        }
        self.engine.clock_us = self.engine.clock_us.max(target);
        if progress {
            state::changed();
        }
    }

    fn run_ready(&mut self) -> bool {
        let mut any = false;
        loop {
            let mut progress = false;
            let ids: Vec<u64> = self.engine.pending.iter().copied().collect();
            for id in ids {
                while self.step(id) {
                    progress = true;
                }
            }
            if !progress {
                return any;
            }
            any = true;
        }
    }

    /// One step of the first piece of work of a stream.
    fn step(&mut self, id: u64) -> bool {
        let engine = &self.engine;
        let Some(stream) = engine.streams.get(&id).filter(|stream| !stream.held) else {
            return false;
        };
        let Some(head) = stream.queue.front() else { return false };
        match head.progress {
            Progress::Waiting => {
                if engine.ops < head.due_op || !engine.all_reached(&head.deps) {
                    return false;
                }
                self.start(id);
                true
            }
            Progress::Called => false,
            Progress::Returned => self.finish(id),
            Progress::Started(at) => {
                let over = match &head.work {
                    Work::Kernel(k) if k.mode == 1 => engine.released.contains(&k.token),
                    Work::Kernel(k) if k.mode == 2 => engine.clock_us >= at + k.duration_us,
                    _ => true,
                };
                over && self.finish(id)
            }
        }
    }

    fn start(&mut self, id: u64) {
        let now = self.engine.clock_us;
        let Some(stream) = self.engine.streams.get_mut(&id) else { return };
        let (context, device) = (stream.context, stream.device);
        let Some(head) = stream.queue.front_mut() else { return };
        let (seq, work) = (head.seq, head.work.clone());
        head.progress = Progress::Started(now);
        match work {
            Work::Host { func, data } => {
                head.progress = Progress::Called;
                self.schedule(Job::Host { func, data, point: Point { stream: id, seq } });
            }
            Work::Kernel(kernel)
                if !self.is_broken(context) && self.check_ranges(context, device, &work) =>
            {
                self.check_bytes(&kernel);
            }
            _ => {}
        }
    }

    fn finish(&mut self, id: u64) -> bool {
        let Some(stream) = self.engine.streams.get_mut(&id) else { return false };
        let (context, device) = (stream.context, stream.device);
        let Some(item) = stream.queue.pop_front() else { return false };
        stream.done = item.seq;
        if stream.queue.is_empty() {
            let destroyed = stream.destroyed;
            self.engine.pending.remove(&id);
            if destroyed {
                self.engine.streams.remove(&id);
            }
        }
        if !self.is_broken(context) {
            self.execute(context, device, &item.work);
        }
        for (addr, len, _) in item.work.ranges() {
            self.memory.drop_use(addr, len);
        }
        if let Work::LaunchDone(exec) = item.work {
            self.launch_done(exec);
        }
        true
    }

    fn is_broken(&self, context: usize) -> bool {
        self.sticky != 0 || self.contexts.get(context).is_none_or(|known| known.sticky != 0)
    }

    fn execute(&mut self, context: usize, device: usize, work: &Work) {
        if !self.check_ranges(context, device, work) {
            return;
        }
        match work {
            Work::Marker | Work::Host { .. } | Work::LaunchDone(_) => {}
            Work::Kernel(kernel) => {
                self.check_bytes(kernel);
                self.fill(kernel.write_addr, kernel.write_value, kernel.write_len);
            }
            Work::Fill { dst, value, len } => self.fill(*dst, *value, *len),
            Work::Upload { dst, bytes } => self.put(*dst, bytes),
            Work::Copy { dst, src, len } => self.copy(*dst, *src, *len),
        }
    }

    /// Whether the device may touch what the work touches; if not, the context is broken.
    fn check_ranges(&mut self, context: usize, device: usize, work: &Work) -> bool {
        let host_allowed = matches!(work, Work::Copy { .. });
        for (addr, len, write) in work.ranges() {
            let host = host_allowed && matches!(self.memory.owner(addr), Owner::Unknown);
            if !host && len > 0 && !self.memory.device_may(device, addr, len, write) {
                let verb = if write { "wrote to" } else { "read" };
                let why = format!("work {verb} {addr:#x}+{len:#x}, which is not mapped for it");
                self.break_context(context, code::ILLEGAL_ADDRESS, why);
                return false;
            }
        }
        true
    }

    fn check_bytes(&mut self, kernel: &Kernel) {
        let mut chunk = vec![0; CHUNK.min(kernel.check_len as usize)];
        let mut at = 0;
        while at < kernel.check_len {
            let count = chunk.len().min((kernel.check_len - at) as usize);
            if !self.memory.read(kernel.check_addr + at, &mut chunk[..count]) {
                return;
            }
            let wrong = chunk[..count].iter().filter(|byte| **byte != kernel.check_value).count();
            self.mismatches += wrong as u64;
            at += count as u64;
        }
    }

    fn fill(&mut self, dst: u64, value: u8, len: u64) {
        let chunk = vec![value; CHUNK.min(len as usize)];
        let mut at = 0;
        while at < len {
            let count = chunk.len().min((len - at) as usize);
            self.put(dst + at, &chunk[..count]);
            at += count as u64;
        }
    }

    fn copy(&mut self, dst: u64, src: u64, len: u64) {
        let mut chunk = vec![0; CHUNK.min(len as usize)];
        let mut at = 0;
        while at < len {
            let count = chunk.len().min((len - at) as usize);
            if self.memory.read(src + at, &mut chunk[..count]) {
                self.put(dst + at, &chunk[..count]);
            }
            at += count as u64;
        }
    }

    fn put(&mut self, dst: u64, bytes: &[u8]) {
        if !self.memory.write(dst, bytes) {
            self.violation(format!("the host could not write {dst:#x}"));
        }
    }

    /// The callback of a piece of work returned.
    pub fn host_returned(&mut self, point: Point) {
        if let Some(stream) = self.engine.streams.get_mut(&point.stream) {
            if let Some(head) = stream.queue.front_mut().filter(|head| head.seq == point.seq) {
                head.progress = Progress::Returned;
            }
        }
        self.pump();
    }

    /// A host wait observes everything: let lagging completions come. True if one was waiting.
    pub fn skip_lag(&mut self) -> bool {
        let ops = self.engine.ops;
        let due = |id: &u64| {
            let stream = &self.engine.streams[id];
            let head = stream.queue.front().filter(|_| !stream.held)?;
            let lagging = head.progress == Progress::Waiting && head.due_op > ops;
            (lagging && self.engine.all_reached(&head.deps)).then_some(head.due_op)
        };
        match self.engine.pending.iter().filter_map(due).min() {
            Some(next) => {
                self.engine.ops = next;
                true
            }
            None => false,
        }
    }

    /// A query found work unfinished. A host that only asks is waiting: then what lags comes, and
    /// the standing clock runs on if it was set to.
    pub fn polled(&mut self) {
        self.engine.idle_polls = self.engine.idle_polls.saturating_add(1);
        if self.engine.idle_polls >= POLLS_THAT_WAIT {
            while self.skip_lag() {
                self.pump();
            }
        }
        let micros = self.opts.query_advance_us;
        if micros > 0 {
            self.advance(micros);
        }
    }

    /// Jump the standing clock to the end of the next timed kernel. False if there is none.
    pub fn skip_to_deadline(&mut self) -> bool {
        match self.engine.next_deadline() {
            Some(deadline) if deadline > self.engine.clock_us => {
                self.engine.clock_us = deadline;
                true
            }
            _ => false,
        }
    }

    /// Put the clock forward, and run what that ends in its order.
    pub fn advance(&mut self, micros: u64) {
        if !self.opts.deterministic {
            self.engine.add_offset_us(micros);
            self.pump();
            return;
        }
        let target = self.engine.clock_us + micros;
        self.pump();
        while self.engine.next_deadline().is_some_and(|deadline| deadline <= target) {
            self.skip_to_deadline();
            self.pump();
        }
        self.engine.clock_us = target;
        state::changed();
    }

    /// Work on a stream, or a node of the capture that the stream takes part in.
    pub fn submit(&mut self, id: u64, work: Work) -> Res<Option<Point>> {
        if self.engine.streams[&id].capture.is_some() {
            self.capture_node(id, work)?;
            return Ok(None);
        }
        self.check_legacy(id)?;
        Ok(Some(self.enqueue(id, Vec::new(), work)))
    }
}
