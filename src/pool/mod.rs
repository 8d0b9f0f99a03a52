//! Layer 5: a pool: a heap, a backend's device, limits, and the calls that connect them.
//!
//! One lock guards the heap's metadata. It is never held across a call that maps, unmaps, creates
//! or releases, nor while user code runs: what such a call works on is marked busy first. Events
//! may be recorded and queried under it (sub-microsecond calls).

pub mod alloc;
pub mod blocks;
pub mod capture;
pub mod driver;
pub mod trim;
mod whole;

use crate::base::units::{round_up, CHUNK};
use crate::base::{addr_map, Error, Result, Status};
use crate::device::Backend;
use crate::heap::Heap;
use crate::space::Sort;
use capture::Captures;
use driver::DriverCounts;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Slack that the library chooses, in parts per million of the peak of live bytes: simulated and
/// measured on recorded training, inference and serving traces as the value from which repeated
/// rounds need (nearly) no driver call.
pub const SLACK_AUTO_PPM: u32 = 4_000;
/// Automatic slack grows by this much, up to the maximum, while a workload that never repeats
/// itself (serving) takes handles over at more than one in four allocations; it shrinks when that
/// ends.
const SLACK_STEP_PPM: u32 = 10_000;
const SLACK_EXTRA_MAX_PPM: u32 = 35_000;
/// Judgements in a row before it grows: the first steps of a training move much too, then no more.
const SLACK_PATIENCE: u32 = 3;
/// Allocations between two judgements.
const SLACK_WINDOW: u64 = 1024;
/// At or below this slack handles are single pages, because larger ones could not keep within it.
const SINGLE_PAGE_SLACK_PPM: u32 = 10_000;

/// What a process holds on a device, over all pools, and the limit on it.
#[derive(Debug)]
pub struct Ledger {
    held: AtomicU64,
    limit: AtomicU64,
}

impl Default for Ledger {
    fn default() -> Self {
        Ledger { held: AtomicU64::new(0), limit: AtomicU64::new(u64::MAX) }
    }
}

impl Ledger {
    /// Bytes that may still be taken.
    pub fn room(&self) -> u64 {
        self.limit.load(Ordering::Relaxed).saturating_sub(self.held.load(Ordering::Relaxed))
    }

    /// Take bytes, if the limit allows it: check and add in one step.
    pub fn take(&self, bytes: u64) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        self.held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
                held.checked_add(bytes).filter(|&sum| sum <= limit)
            })
            .is_ok()
    }

    /// Bytes went back.
    pub fn give(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Change the limit.
    pub fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// The limit.
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Bytes held.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }
}

/// Settings of a pool, all resolved.
#[derive(Clone, Debug)]
pub struct PoolDesc {
    /// Kind number of the C interface.
    pub kind: u32,
    /// Device.
    pub device: u32,
    /// Pages never change their memory.
    pub stable: bool,
    /// Limit of its own; `u64::MAX` for none.
    pub limit_bytes: u64,
    /// Slack in parts per million.
    pub slack_ppm: u32,
    /// Handles of more than one page are allowed.
    pub slack_is_auto: bool,
    /// Milliseconds after which idle pages go back; none: never.
    pub decay_ms: Option<u32>,
    /// Name for reports.
    pub name: String,
}

/// A pool.
pub struct Pool {
    /// Slot in the runtime's table, as the address map names it.
    pub slot: u16,
    /// Settings.
    pub desc: PoolDesc,
    /// The backend.
    pub backend: &'static dyn Backend,
    /// The CPU can use the addresses.
    pub host_visible: bool,
    /// Memory is mapped page by page; else it comes as whole driver allocations.
    virtual_memory: bool,
    /// Figures of driver calls.
    pub driver: DriverCounts,
    /// Allocations that needed a step of the ladder, and refused ones.
    pub retries: AtomicU64,
    /// See `retries`.
    pub ooms: AtomicU64,
    ledger: &'static Ledger,
    heap: Mutex<Heap>,
    captures: Captures,
    /// Time of the last decay, in milliseconds of the clock.
    decayed_ms: AtomicU64,
    closed: AtomicBool,
    region_bytes: u64,
    page_bytes: u64,
    asynchronous: bool,
    hooks: Hooks,
}

/// What the pool calls above itself.
#[derive(Clone, Copy)]
pub struct Hooks {
    /// A mapping was made (true) or is about to go: device, address, bytes, driver's handle.
    pub mapping: fn(bool, u32, u64, u64, u64),
    /// Give idle memory of the other pools of the device back; the bytes that came.
    pub trim_others: fn(pool: u16, device: u32) -> u64,
}

/// Milliseconds of a monotonic clock; coarse, because it is read on every call.
pub fn now_ms() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid timespec for the call to fill.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut t) };
    t.tv_sec as u64 * 1000 + t.tv_nsec as u64 / 1_000_000
}

/// Let the heap's clock go on: read at every 64th call only, for it serves to tell seconds.
#[inline]
fn tick(heap: &mut Heap) {
    heap.calls = heap.calls.wrapping_add(1);
    if heap.calls & 63 == 0 {
        heap.now_ms = now_ms();
    }
}

impl Pool {
    /// A pool with nothing reserved yet.
    pub fn new(
        slot: u16,
        desc: PoolDesc,
        backend: &'static dyn Backend,
        ledger: &'static Ledger,
        hooks: Hooks,
    ) -> Result<Pool> {
        let info = backend.device_info(desc.device)?;
        let mut heap = Heap::new(info.page_bytes, info.caps.asynchronous);
        heap.takeover = info.caps.alias && info.caps.virtual_memory && !desc.stable;
        let region_bytes = round_up(info.total_bytes.max(CHUNK), CHUNK);
        let pool = Pool {
            slot,
            desc,
            backend,
            host_visible: info.caps.host_visible,
            virtual_memory: info.caps.virtual_memory,
            driver: DriverCounts::default(),
            retries: AtomicU64::new(0),
            ooms: AtomicU64::new(0),
            ledger,
            heap: Mutex::new(heap),
            captures: Captures::default(),
            decayed_ms: AtomicU64::new(now_ms()),
            closed: AtomicBool::new(false),
            region_bytes,
            page_bytes: info.page_bytes,
            asynchronous: info.caps.asynchronous,
            hooks,
        };
        let reserved = [Sort::Slabs, Sort::Large, Sort::Medium]
            .into_iter()
            .try_for_each(|sort| pool.add_region(sort, 0));
        if let Err(e) = reserved {
            pool.unreserve();
            return Err(e);
        }
        Ok(pool)
    }

    /// Reserve addresses for small or large blocks, of a graph or for everybody. Large regions are
    /// several times the device, so that freed places need not be unmapped; stepped down when
    /// refused.
    fn add_region(&self, sort: Sort, graph: u64) -> Result<()> {
        if !self.virtual_memory {
            // A place in the table; what it serves comes as regions of their own.
            self.heap.lock().add_region(0, 0, sort, graph);
            return Ok(());
        }
        let device = self.desc.device;
        let wanted = if graph == 0 && sort == Sort::Large {
            (self.region_bytes * 8).max(64 << 30)
        } else {
            self.region_bytes.min(if graph == 0 { 1 << 40 } else { 64 << 30 })
        };
        let mut size = round_up(wanted, CHUNK);
        let base = loop {
            match self.backend.reserve(device, size, CHUNK) {
                Ok(base) => break base,
                Err(_) if size > CHUNK => size = round_up(size / 2, CHUNK),
                Err(e) => return Err(Error { status: Status::E_ADDRESS_SPACE, ..e }),
            }
        };
        if !addr_map::covers(base, size) || base % CHUNK != 0 {
            let _ = self.backend.unreserve(device, base, size);
            return Err(Error::new(
                Status::E_ADDRESS_SPACE,
                "reservation beyond 47 bits or unaligned",
            ));
        }
        let mut heap = self.heap.lock();
        if heap.regions.len() >= 0xFFF {
            drop(heap);
            let _ = self.backend.unreserve(device, base, size);
            return Err(Error::new(Status::E_ADDRESS_SPACE, "too many reservations in one pool"));
        }
        let region = heap.add_region(base, size, sort, graph);
        addr_map::set(base, size, Some(addr_map::Owner { pool: self.slot, region }));
        Ok(())
    }

    /// Give all reservations back; nothing is mapped in them.
    fn unreserve(&self) {
        let mut heap = self.heap.lock();
        for region in std::mem::take(&mut heap.regions) {
            if region.size == 0 {
                continue;
            }
            if !self.virtual_memory {
                addr_map::set_part(region.base, region.size, None);
                continue;
            }
            addr_map::set(region.base, region.size, None);
            let _ = self.backend.unreserve(self.desc.device, region.base, region.size);
        }
    }

    /// Refuse work on a pool that was destroyed.
    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::new(Status::E_HANDLE, "pool was destroyed"));
        }
        Ok(())
    }

    /// Bytes that may be created now: within the slack, and at all.
    fn allowance(&self, heap: &mut Heap, requested: u64) -> crate::heap::grow::GrowRule {
        let mut slack_ppm = self.desc.slack_ppm;
        if self.desc.slack_is_auto {
            judge_slack(heap);
            slack_ppm += heap.extra_slack_ppm;
        }
        let c = &heap.counters;
        let reference = c.reference_live_bytes.max(c.live_bytes + requested);
        let slack = (u128::from(reference) * u128::from(slack_ppm) / 1_000_000) as u64;
        let own = self.desc.limit_bytes.saturating_sub(c.held_bytes);
        let most = self.desc.limit_bytes.min(self.ledger.limit()).min(self.region_bytes);
        // Where memory is scarce, pages that only go home with their neighbours are dear: near the
        // end of it, and under a block that is most of it and will be carved up later.
        let near = c.held_bytes.saturating_add(requested) > most - most / 8;
        let scarce = near || requested > most / 2;
        let fine = !self.desc.slack_is_auto && self.desc.slack_ppm <= SINGLE_PAGE_SLACK_PPM;
        crate::heap::grow::GrowRule {
            within_slack: (reference + slack).saturating_sub(c.held_bytes),
            allowed: own.min(self.ledger.room()),
            takeover: heap.takeover,
            single_pages: fine || scarce,
        }
    }
}

/// Move the automatic slack by how many takeovers there were lately.
fn judge_slack(heap: &mut Heap) {
    let (allocs, takeovers) = (heap.counters.allocs, heap.counters.takeovers);
    let (since_allocs, since_takeovers) = (allocs - heap.judged.0, takeovers - heap.judged.1);
    if since_allocs < SLACK_WINDOW {
        return;
    }
    heap.judged = (allocs, takeovers);
    heap.busy_windows = if since_takeovers * 4 > since_allocs { heap.busy_windows + 1 } else { 0 };
    if heap.busy_windows >= SLACK_PATIENCE {
        heap.extra_slack_ppm = (heap.extra_slack_ppm + SLACK_STEP_PPM).min(SLACK_EXTRA_MAX_PPM);
    } else if since_takeovers * 64 < since_allocs {
        heap.extra_slack_ppm = heap.extra_slack_ppm.saturating_sub(SLACK_STEP_PPM / 4);
    }
}
