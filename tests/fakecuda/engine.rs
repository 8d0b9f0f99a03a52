//! Streams as queues of work, events as points in them, and the clock.
//!
//! Work completes at once unless a test holds it: a kernel may run until it is released or for a
//! time, a stream may be held, and completions may lag behind. A point is "this stream up to here";
//! everything that waits, waits for points.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::abi::{code, HostFn, Res};
use crate::handle::HandleSpace;
use crate::state::State;
use crate::thread;

/// A stream up to a piece of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Id of the stream.
    pub stream: u64,
    /// Number of the piece of work in the stream, from 1.
    pub seq: u64,
}

/// What a kernel does; filled by tests, see `fakecuda_launch`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Kernel {
    /// 0 ends at once, 1 runs until its token is released, 2 runs for a time.
    pub mode: u32,
    /// Byte that is written.
    pub write_value: u8,
    /// Byte that must be found.
    pub check_value: u8,
    /// Must be zero.
    pub reserved: u16,
    /// Names the kernel for `fakecuda_release`.
    pub token: u64,
    /// Duration in mode 2.
    pub duration_us: u64,
    /// Range written when the kernel ends.
    pub write_addr: u64,
    /// Its length; 0 writes nothing.
    pub write_len: u64,
    /// Range that must hold `check_value` when the kernel starts and when it ends.
    pub check_addr: u64,
    /// Its length; 0 checks nothing.
    pub check_len: u64,
}

/// A piece of work.
#[derive(Clone)]
pub enum Work {
    /// Nothing: a place for an event, or a wait.
    Marker,
    /// A test's kernel.
    Kernel(Kernel),
    /// Copy between addresses.
    Copy {
        /// Target address.
        dst: u64,
        /// Source address.
        src: u64,
        /// Bytes.
        len: u64,
    },
    /// Copy from pageable host memory, taken when it was queued.
    Upload {
        /// Target address.
        dst: u64,
        /// The bytes.
        bytes: Arc<[u8]>,
    },
    /// Fill with a byte.
    Fill {
        /// Target address.
        dst: u64,
        /// The byte.
        value: u8,
        /// Bytes.
        len: u64,
    },
    /// A callback of the program.
    Host {
        /// The function.
        func: HostFn,
        /// Its argument.
        data: usize,
    },
    /// End of a graph launch.
    LaunchDone(u64),
}

impl Work {
    /// Ranges the work touches: address, length, whether it writes.
    pub fn ranges(&self) -> [(u64, u64, bool); 2] {
        const NONE: (u64, u64, bool) = (0, 0, false);
        match self {
            Work::Marker | Work::Host { .. } | Work::LaunchDone(_) => [NONE, NONE],
            Work::Kernel(k) => {
                [(k.check_addr, k.check_len, false), (k.write_addr, k.write_len, true)]
            }
            Work::Copy { dst, src, len } => [(*src, *len, false), (*dst, *len, true)],
            Work::Upload { dst, bytes } => [NONE, (*dst, bytes.len() as u64, true)],
            Work::Fill { dst, len, .. } => [NONE, (*dst, *len, true)],
        }
    }
}

/// How far the first piece of work in a queue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Not started.
    Waiting,
    /// Started at this time of the clock.
    Started(u64),
    /// Its callback is queued or runs.
    Called,
    /// Its callback returned.
    Returned,
}

/// Work in a queue.
pub struct Item {
    /// Number in the stream.
    pub seq: u64,
    /// Points that must be reached before it starts.
    pub deps: Vec<Point>,
    /// It cannot complete before the count of queued work reaches this.
    pub due_op: u64,
    /// How far it is.
    pub progress: Progress,
    /// What it does.
    pub work: Work,
}

/// Kinds of stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// The legacy default stream of a context.
    Legacy,
    /// A thread's default stream.
    PerThread,
    /// Created; ordered with the legacy stream.
    Blocking,
    /// Created with CU_STREAM_NON_BLOCKING.
    NonBlocking,
}

impl StreamKind {
    /// Whether the legacy stream waits for it and it for the legacy stream.
    pub fn is_blocking(self) -> bool {
        matches!(self, StreamKind::PerThread | StreamKind::Blocking)
    }
}

/// A stream; it stays until its work is done, also when it was destroyed.
pub struct Stream {
    /// Handle, 0 for default streams.
    pub handle: usize,
    /// Its context.
    pub context: usize,
    /// Device of the context.
    pub device: usize,
    /// What it is.
    pub kind: StreamKind,
    /// Priority as it was asked for.
    pub priority: i32,
    /// Number of the last piece of work queued.
    pub queued: u64,
    /// Number of the last piece of work done.
    pub done: u64,
    /// Work that is not done.
    pub queue: VecDeque<Item>,
    /// A test holds it: nothing completes.
    pub held: bool,
    /// The handle is gone.
    pub destroyed: bool,
    /// Capture that it takes part in.
    pub capture: Option<u64>,
}

/// An event.
pub struct Event {
    /// Its context.
    pub context: usize,
    /// Points that complete it; empty if it was never recorded.
    pub points: Vec<Point>,
    /// Recorded in a capture: its id, and the nodes that precede the event.
    pub captured: Option<(u64, Vec<usize>)>,
}

/// All streams and events.
pub struct Engine {
    /// Streams by id.
    pub streams: HashMap<u64, Stream>,
    /// Streams that are not idle.
    pub pending: BTreeSet<u64>,
    /// Events by handle.
    pub events: HashMap<usize, Event>,
    /// Tokens that were released.
    pub released: HashSet<u64>,
    /// Time of the clock in microseconds.
    pub clock_us: u64,
    /// Pieces of work queued in the process, plus what waits skipped.
    pub ops: u64,
    /// Queries of unfinished work since work was queued last.
    pub idle_polls: u32,
    live: HashMap<usize, u64>,
    stream_handles: HandleSpace,
    event_handles: HandleSpace,
    next_id: u64,
    started: Instant,
    offset_us: u64,
}

impl Engine {
    /// No streams.
    pub fn new() -> Engine {
        Engine {
            streams: HashMap::new(),
            pending: BTreeSet::new(),
            events: HashMap::new(),
            released: HashSet::new(),
            clock_us: 0,
            ops: 0,
            idle_polls: 0,
            live: HashMap::new(),
            stream_handles: HandleSpace::new(),
            event_handles: HandleSpace::new(),
            next_id: 1,
            started: Instant::now(),
            offset_us: 0,
        }
    }

    /// Make a stream; its id is never reused.
    pub fn new_stream(
        &mut self,
        handle: usize,
        context: usize,
        device: usize,
        kind: StreamKind,
        priority: i32,
    ) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let stream = Stream {
            handle,
            context,
            device,
            kind,
            priority,
            queued: 0,
            done: 0,
            queue: VecDeque::new(),
            held: false,
            destroyed: false,
            capture: None,
        };
        self.streams.insert(id, stream);
        if handle != 0 {
            self.live.insert(handle, id);
        }
        id
    }

    /// Created streams that are not destroyed.
    pub fn live_streams(&self) -> usize {
        self.live.len()
    }

    /// Whether a point is reached. A stream that is gone has reached every point.
    pub fn reached(&self, point: &Point) -> bool {
        self.streams.get(&point.stream).is_none_or(|stream| stream.done >= point.seq)
    }

    /// Whether all points are reached.
    pub fn all_reached(&self, points: &[Point]) -> bool {
        points.iter().all(|point| self.reached(point))
    }

    /// Last points of all busy streams of a context, destroyed ones included.
    pub fn tails(&self, context: usize) -> Vec<Point> {
        let tail = |id: &u64| {
            let stream = &self.streams[id];
            (stream.context == context).then_some(Point { stream: *id, seq: stream.queued })
        };
        self.pending.iter().filter_map(tail).collect()
    }

    /// Where the clock should stand: it follows the real one unless settings say otherwise.
    pub fn target_us(&self, deterministic: bool) -> u64 {
        if deterministic {
            return self.clock_us;
        }
        self.clock_us.max(self.started.elapsed().as_micros() as u64 + self.offset_us)
    }

    /// Put the real clock forward.
    pub fn add_offset_us(&mut self, micros: u64) {
        self.offset_us += micros;
    }

    /// Time at which the next timed kernel ends.
    pub fn next_deadline(&self) -> Option<u64> {
        let deadline = |id: &u64| {
            let stream = &self.streams[id];
            let head = stream.queue.front().filter(|_| !stream.held)?;
            match (&head.work, head.progress) {
                (Work::Kernel(k), Progress::Started(at)) if k.mode == 2 => Some(at + k.duration_us),
                _ => None,
            }
        };
        self.pending.iter().filter_map(deadline).min()
    }
}

impl State {
    /// The stream that a handle names for the calling thread.
    pub fn resolve(&mut self, handle: usize) -> Res<u64> {
        if handle > 2 {
            let Some(&id) = self.engine.live.get(&handle) else {
                return Err(self.dead_stream(handle));
            };
            self.live_context(self.engine.streams[&id].context)?;
            return Ok(id);
        }
        let context = self.current_context()?;
        let (thread, device) = (thread::id(), self.current_device()?);
        let known = self.contexts.get(context).ok_or(code::INVALID_CONTEXT)?;
        if handle < 2 {
            return Ok(known.legacy);
        }
        if let Some(id) = known.per_thread.get(&thread) {
            return Ok(*id);
        }
        let id = self.engine.new_stream(0, context, device, StreamKind::PerThread, 0);
        if let Some(known) = self.contexts.get_mut(context) {
            known.per_thread.insert(thread, id);
        }
        Ok(id)
    }

    fn dead_stream(&mut self, handle: usize) -> u32 {
        if self.engine.stream_handles.was_issued(handle) {
            self.violation(format!("stream {handle:#x} was used after it was destroyed"));
        }
        code::INVALID_HANDLE
    }

    /// Create a stream in the current context.
    pub fn stream_create(&mut self, flags: u32, priority: i32) -> Res<usize> {
        let kind = match flags {
            0 => StreamKind::Blocking,
            1 => StreamKind::NonBlocking,
            _ => return Err(code::INVALID_VALUE),
        };
        let context = self.current_context()?;
        let device = self.current_device()?;
        let handle = self.engine.stream_handles.take().ok_or(code::OUT_OF_MEMORY)?;
        self.engine.new_stream(handle, context, device, kind, priority.clamp(-5, 0));
        Ok(handle)
    }

    /// Destroy a stream: its handle can come back at once, its work goes on.
    pub fn stream_destroy(&mut self, handle: usize) -> Res {
        if handle <= 2 {
            return Err(code::INVALID_HANDLE);
        }
        let id = self.resolve(handle)?;
        self.leave_capture(id);
        self.engine.live.remove(&handle);
        self.engine.stream_handles.give(handle);
        match self.engine.streams.get_mut(&id) {
            Some(stream) if !stream.queue.is_empty() => stream.destroyed = true,
            _ => drop(self.engine.streams.remove(&id)),
        }
        Ok(())
    }

    /// Create an event in the current context.
    pub fn event_create(&mut self, flags: u32) -> Res<usize> {
        if flags > 7 || (flags & 4 != 0 && flags & 2 == 0) {
            return Err(code::INVALID_VALUE);
        }
        let context = self.current_context()?;
        let handle = self.engine.event_handles.take().ok_or(code::OUT_OF_MEMORY)?;
        let event = Event { context, points: Vec::new(), captured: None };
        self.engine.events.insert(handle, event);
        Ok(handle)
    }

    /// Destroy an event, pending or not.
    pub fn event_destroy(&mut self, handle: usize) -> Res {
        self.event(handle)?;
        self.engine.events.remove(&handle);
        self.engine.event_handles.give(handle);
        Ok(())
    }

    /// Check an event's handle.
    pub fn event(&mut self, handle: usize) -> Res<&mut Event> {
        if !self.engine.events.contains_key(&handle) {
            if self.engine.event_handles.was_issued(handle) {
                self.violation(format!("event {handle:#x} was used after it was destroyed"));
            }
            return Err(code::INVALID_HANDLE);
        }
        self.engine.events.get_mut(&handle).ok_or(code::INVALID_HANDLE)
    }

    /// Forget the streams, the work and the events of a context.
    pub fn drop_context_work(&mut self, context: usize) {
        let engine = &mut self.engine;
        let mut launches = Vec::new();
        let gone: Vec<u64> = engine
            .streams
            .iter()
            .filter(|(_, stream)| stream.context == context)
            .map(|(id, _)| *id)
            .collect();
        for id in gone {
            let Some(stream) = engine.streams.remove(&id) else { continue };
            engine.pending.remove(&id);
            for item in &stream.queue {
                for (addr, len, _) in item.work.ranges() {
                    self.memory.drop_use(addr, len);
                }
                if let Work::LaunchDone(exec) = item.work {
                    launches.push(exec);
                }
            }
            if engine.live.get(&stream.handle) == Some(&id) {
                engine.live.remove(&stream.handle);
                engine.stream_handles.give(stream.handle);
            }
        }
        let gone = |event: &Event| event.context == context;
        let events: Vec<usize> =
            engine.events.iter().filter(|(_, e)| gone(e)).map(|(h, _)| *h).collect();
        for handle in events {
            engine.events.remove(&handle);
            engine.event_handles.give(handle);
        }
        for exec in launches {
            self.launch_done(exec);
        }
    }

    /// Time until the next timed kernel ends; none where the clock stands.
    pub fn until_deadline(&self) -> Option<Duration> {
        if self.opts.deterministic {
            return None;
        }
        let wait = self.engine.next_deadline()?.saturating_sub(self.engine.target_us(false));
        Some(Duration::from_micros(wait))
    }
}
