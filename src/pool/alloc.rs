//! Allocation: what is ready, then growth, then the ladder before an out-of-memory.

use super::Pool;
use crate::base::units::{GRAIN, SIZE_MAX};
use crate::base::{Error, Result, Status};
use crate::heap::blocks::{route, Route};
use crate::heap::grow::{GrowRule, Plan};
use crate::heap::Heap;
use crate::stream::StreamRef;
use parking_lot::MutexGuard;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Never wait for the device.
pub const NOWAIT: u32 = 1;
/// Never take memory from the driver.
pub const NO_GROW: u32 = 2;
/// Never wait for, or close epochs of, other streams.
pub const NO_CROSS_STREAM: u32 = 4;

/// Bytes in open epochs below which growth does not care for them.
const ORPHANS_MIN: u64 = 32 << 20;
/// Longest wait for unfinished frees before a request fails.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// A request, checked.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Bytes, at least 1.
    pub size: u64,
    /// A power of two, at least 512.
    pub align: u64,
    /// `NOWAIT`, `NO_GROW`, `NO_CROSS_STREAM`.
    pub flags: u32,
}

impl Request {
    /// Check size and alignment (0: default). Size 0 is the caller's to answer.
    #[inline]
    pub fn new(size: u64, align: u64, flags: u32) -> Result<Request> {
        if size > SIZE_MAX {
            return Err(Error::new(Status::E_SIZE, "size").bytes(size, SIZE_MAX));
        }
        if align != 0 && (!align.is_power_of_two() || align > 2 << 20) {
            return Err(Error::new(Status::E_ALIGNMENT, "alignment").bytes(align, 2 << 20));
        }
        Ok(Request { size, align: align.max(GRAIN), flags })
    }
}

impl Job {
    /// True if the caller forbids growth.
    pub(super) fn grows_not(&self) -> bool {
        self.request.flags & NO_GROW != 0
    }
}

/// A step of the ladder before an out-of-memory.
struct Rung {
    step: fn(&Pool, &mut MutexGuard<'_, Heap>, &Job) -> Result<bool>,
    /// It is repeated while it helps.
    repeats: bool,
    /// It only gives memory back to the driver.
    gives_back: bool,
}

/// In order: flush caches and collect, trim this pool, trim the others, wait for the oldest event.
const RUNGS: [Rung; 4] = [
    Rung { step: Pool::rung_flush, repeats: false, gives_back: false },
    Rung { step: Pool::rung_trim, repeats: false, gives_back: true },
    Rung { step: Pool::rung_others, repeats: false, gives_back: true },
    Rung { step: Pool::rung_wait, repeats: true, gives_back: false },
];

/// A request with the place it is served from.
#[derive(Clone, Copy)]
pub(super) struct Job {
    pub(super) request: Request,
    pub(super) route: Route,
    pub(super) region: u16,
    pub(super) stream: u32,
    raw: u64,
    capturing: bool,
}

impl Pool {
    /// A block in stream order.
    pub fn alloc(&self, request: Request, stream: &StreamRef) -> Result<u64> {
        self.check_open()?;
        if let Some(e) = self.backend.sticky() {
            return Err(e);
        }
        let route = route(request.size, request.align);
        let mut heap = self.heap.lock();
        super::tick(&mut heap);
        let (region, index) = match stream.capture {
            None => (route.sort() as u16, self.stream_index(&mut heap, stream)),
            Some(_) => self.captured(&mut heap, stream, route)?,
        };
        if stream.capture.is_none() {
            self.captures.ended(stream.raw);
        }
        if let Some(addr) = heap.alloc_ready(region, index, route, request.size, request.align) {
            return Ok(addr);
        }
        let capturing = stream.capture.is_some();
        let job = Job { request, route, region, stream: index, raw: stream.raw, capturing };
        self.alloc_slow(heap, job)
    }

    /// The heap's index of a stream; one for all where work is not asynchronous.
    pub(super) fn stream_index(&self, heap: &mut Heap, stream: &StreamRef) -> u32 {
        if !heap.asynchronous {
            return 0;
        }
        let now = heap.now_ms;
        heap.streams.intern(stream, now)
    }

    #[cold]
    fn alloc_slow(&self, mut heap: MutexGuard<'_, Heap>, job: Job) -> Result<u64> {
        if job.request.size > self.region_bytes {
            // More than the device has: no address is reserved and nothing cached given up for it.
            self.ooms.fetch_add(1, Relaxed);
            let too_large = Error::new(Status::E_OUT_OF_MEMORY, "more than the device has");
            return Err(too_large.bytes(job.request.size, self.region_bytes));
        }
        let limit = self.desc.limit_bytes.min(self.ledger.limit());
        if job.request.size > limit {
            // No step of the ladder could help: nothing cached is given up for it.
            self.ooms.fetch_add(1, Relaxed);
            return Err(Error::new(Status::E_LIMIT, "limit of the pool or the device")
                .bytes(job.request.size, limit));
        }
        heap.now_ms = super::now_ms();
        self.due(&mut heap);
        if !job.capturing {
            let _ = self.close_own(&mut heap, job.stream, job.raw);
        }
        let crossing = job.request.flags & NO_CROSS_STREAM == 0;
        let open = heap.streams.open_bytes;
        if crossing && open > (heap.counters.held_bytes / 8).max(ORPHANS_MIN) {
            // Streams that are never heard of again would keep what they freed for ever.
            self.close_everything(&mut heap);
        }
        self.poll_events(&mut heap)?;
        if let Some(addr) = self.ready(&mut heap, &job) {
            return Ok(addr);
        }
        let mut refusal = match self.grow(&mut heap, &job) {
            Ok(addr) => return Ok(addr),
            Err(e) => e,
        };
        // What may not grow gains nothing from memory that is given back.
        let rungs = RUNGS.into_iter().filter(|rung| !(job.grows_not() && rung.gives_back));
        for Rung { step, repeats, .. } in rungs {
            // A rung says whether it changed anything; waiting is worth repeating.
            while step(self, &mut heap, &job)? {
                let served = match self.ready(&mut heap, &job) {
                    Some(addr) => Ok(addr),
                    None => self.grow(&mut heap, &job),
                };
                match served {
                    Ok(addr) => {
                        self.retries.fetch_add(1, Relaxed);
                        return Ok(addr);
                    }
                    Err(e) => refusal = e,
                }
                if !repeats {
                    break;
                }
            }
        }
        if refusal.status != Status::E_WOULD_GROW {
            self.ooms.fetch_add(1, Relaxed);
        }
        let waits = job.request.flags & NOWAIT != 0 && heap.pending_bytes() > 0;
        if waits && refusal.status != Status::E_WOULD_GROW {
            return Err(
                Error::new(Status::E_WOULD_BLOCK, "frees are pending").bytes(job.request.size, 0)
            );
        }
        Err(refusal)
    }

    fn ready(&self, heap: &mut Heap, job: &Job) -> Option<u64> {
        let Request { size, align, .. } = job.request;
        let found = heap.alloc_ready(job.region, job.stream, job.route, size, align);
        if found.is_some() || heap.regions.len() <= 3 {
            return found;
        }
        // A pool that outgrew its first reservations has more of the same sort.
        let (sort, graph) = {
            let r = &heap.regions[job.region as usize];
            (r.sort, r.graph)
        };
        (0..heap.regions.len() as u16)
            .filter(|&r| r != job.region)
            .filter(|&r| heap.regions[r as usize].sort == sort)
            .filter(|&r| heap.regions[r as usize].graph == graph)
            .collect::<Vec<_>>()
            .into_iter()
            .find_map(|r| heap.alloc_ready(r, job.stream, job.route, size, align))
    }

    /// Flush caches and close every epoch that may be closed.
    fn rung_flush(&self, heap: &mut MutexGuard<'_, Heap>, job: &Job) -> Result<bool> {
        heap.flush_slabs();
        if job.request.flags & NO_CROSS_STREAM == 0 {
            self.close_everything(heap);
        }
        self.poll_events(heap)?;
        Ok(true)
    }

    /// Give idle handles back that could not be taken over, so that fitting ones can be made.
    fn rung_trim(&self, heap: &mut MutexGuard<'_, Heap>, job: &Job) -> Result<bool> {
        let wanted = heap.range_size(job.region, job.route, job.request.size) + heap.page_bytes();
        Ok(self.release_idle(heap, u64::MAX, wanted) > 0)
    }

    fn rung_others(&self, heap: &mut MutexGuard<'_, Heap>, _: &Job) -> Result<bool> {
        Ok(MutexGuard::unlocked(heap, || (self.hooks.trim_others)(self.slot, self.desc.device)) > 0)
    }

    /// Wait for the oldest event. False when none is left or time is over.
    fn rung_wait(&self, heap: &mut MutexGuard<'_, Heap>, job: &Job) -> Result<bool> {
        if job.request.flags & (NOWAIT | NO_CROSS_STREAM) != 0 {
            return Ok(false);
        }
        self.close_everything(heap);
        let Some((event, handle)) = heap.streams.oldest_event() else { return Ok(false) };
        let (device, backend) = (self.desc.device, self.backend);
        let start = Instant::now();
        let waited = MutexGuard::unlocked(heap, || {
            backend.event_wait(device, handle, WAIT_MAX.as_millis() as u64)
        });
        heap.streams.unwatch(event);
        let done = waited?;
        self.poll_events(heap)?;
        Ok(done && start.elapsed() < WAIT_MAX)
    }

    /// Plan, call the driver without the lock, commit or roll back.
    fn grow(&self, heap: &mut MutexGuard<'_, Heap>, job: &Job) -> Result<u64> {
        if !self.virtual_memory {
            return self.grow_whole(heap, job);
        }
        let size = heap.range_size(job.region, job.route, job.request.size);
        let align = job.request.align;
        let mut rule = self.allowance(heap, job.request.size);
        if job.grows_not() {
            rule.allowed = 0;
        }
        let mut plan = heap.plan(job.region, job.stream, size, align, rule);
        if plan.is_none() && heap.no_addresses(job.region, size, align) {
            plan = self.grow_elsewhere(heap, job, size, rule)?;
        }
        let Some(plan) = plan else { return Err(self.refusal(heap, job, size)) };
        let created = plan.created_bytes();
        if !self.ledger.take(created) {
            heap.rollback(plan);
            return Err(self.refusal(heap, job, size));
        }
        heap.count_held(created as i64);
        let mapped = MutexGuard::unlocked(heap, || self.map_steps(&plan.steps));
        match mapped {
            Ok(handles) => {
                for (step, phys) in plan.steps.iter().zip(handles) {
                    heap.handles[step.handle].phys = phys;
                }
                heap.commit(&plan);
                let addr = heap.hand_out(plan.block, job.stream, job.route, job.request.size);
                Ok(addr)
            }
            Err(e) => {
                heap.count_held(-(created as i64));
                self.ledger.give(created);
                heap.rollback(plan);
                Err(e.bytes(size, self.free_bytes()))
            }
        }
    }

    /// The region is full: the next one of its sort, or a new one.
    fn grow_elsewhere(
        &self,
        heap: &mut MutexGuard<'_, Heap>,
        job: &Job,
        size: u64,
        rule: GrowRule,
    ) -> Result<Option<Plan>> {
        let (sort, graph) = {
            let r = &heap.regions[job.region as usize];
            (r.sort, r.graph)
        };
        for attempt in 0..2 {
            for region in 0..heap.regions.len() as u16 {
                let r = &heap.regions[region as usize];
                if r.sort == sort && r.graph == graph && region != job.region {
                    if let Some(plan) = heap.plan(region, job.stream, size, job.request.align, rule)
                    {
                        return Ok(Some(plan));
                    }
                }
            }
            if attempt == 0 {
                MutexGuard::unlocked(heap, || self.add_region(sort, graph))?;
            }
        }
        Err(Error::new(Status::E_ADDRESS_SPACE, "no room for the block in any reservation")
            .bytes(size, 0))
    }

    /// Why growth was refused without asking the driver.
    pub(super) fn refusal(&self, heap: &Heap, job: &Job, size: u64) -> Error {
        if job.grows_not() {
            return Error::new(Status::E_WOULD_GROW, "no fitting memory is ready").bytes(size, 0);
        }
        let own = self.desc.limit_bytes.saturating_sub(heap.counters.held_bytes);
        if own <= self.ledger.room() {
            return Error::new(Status::E_LIMIT, "limit of the pool")
                .bytes(size, self.desc.limit_bytes);
        }
        Error::new(Status::E_LIMIT, "limit of the process on the device")
            .bytes(size, self.ledger.limit())
    }

    fn free_bytes(&self) -> u64 {
        self.backend.mem_info(self.desc.device).map_or(0, |m| m.free_bytes)
    }

    /// Close the open epoch of the stream of the present call.
    pub(super) fn close_own(&self, heap: &mut Heap, stream: u32, raw: u64) -> Result<()> {
        if stream < 2 {
            return Ok(());
        }
        heap.streams.close(stream, raw, self.desc.device, self.backend)
    }

    /// Close all open epochs: persistent streams by their own events, the others by one event of
    /// the context, if no capture is known that it would break.
    pub(super) fn close_everything(&self, heap: &mut Heap) {
        let device = self.desc.device;
        let mut captures = self.captures.any_running();
        for index in heap.streams.indices() {
            let s = &heap.streams[index];
            if s.open_frees == 0 || !s.persistent {
                continue;
            }
            let raw = s.raw;
            // A told capture may run on any told stream; the others can be asked.
            let capturing = if s.told {
                captures
            } else {
                !matches!(self.backend.capture(device, raw), Ok(None))
            };
            if capturing {
                captures = true;
            } else {
                let _ = heap.streams.close(index, raw, device, self.backend);
            }
        }
        if heap.streams.has_open() && !captures {
            let _ = heap.streams.close_all(device, self.backend);
        }
    }

    /// Ask the oldest events and let everybody have what is finished.
    pub(super) fn poll_events(&self, heap: &mut Heap) -> Result<()> {
        if !heap.streams.has_events() {
            return Ok(());
        }
        let progressed = heap.streams.poll(self.desc.device, self.backend)?;
        heap.collect(&progressed);
        Ok(())
    }
}
