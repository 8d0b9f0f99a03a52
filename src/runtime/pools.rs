//! The table of pools, and the calls that find a pool by handle or by address.

use super::{runtime, streams, Runtime};
use crate::base::{addr_map, Error, Result, Status};
use crate::device::Backend;
use crate::pool::alloc::Request;
use crate::pool::blocks::{BlockFacts, PoolStats};
use crate::pool::trim::Trimmed;
use crate::pool::{Hooks, Ledger, Pool, PoolDesc};
use crate::stream::StreamRef;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Kind numbers of the C interface.
pub const KIND_DEVICE: u32 = 0;
/// See `KIND_DEVICE`.
pub const KIND_HOST: u32 = 1;

const POOLS_MAX: usize = 4096;
const DEVICES_MAX: usize = 64;

static POOLS: [AtomicPtr<Pool>; POOLS_MAX] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; POOLS_MAX];
static GENERATIONS: [AtomicU32; POOLS_MAX] = [const { AtomicU32::new(0) }; POOLS_MAX];
static DEFAULTS: [AtomicU64; DEVICES_MAX] = [const { AtomicU64::new(0) }; DEVICES_MAX];
static CREATING: Mutex<()> = Mutex::new(());

/// What the layer above is told of mapping changes: mapped, device, address, bytes, driver's
/// handle.
pub type Observer = Box<dyn Fn(bool, u32, u64, u64, u64) + Send + Sync>;
static OBSERVER: parking_lot::RwLock<Option<std::sync::Arc<Observer>>> =
    parking_lot::RwLock::new(None);

/// Replace the observer.
pub fn set_observer(observer: Option<Observer>) {
    *OBSERVER.write() = observer.map(std::sync::Arc::new);
}

fn tell_mapping(mapped: bool, device: u32, addr: u64, bytes: u64, handle: u64) {
    let observer = OBSERVER.read().clone();
    if let Some(observer) = observer {
        observer(mapped, device, addr, bytes, handle);
    }
}

/// The pool in a slot. Pools are leaked: the reference is good for the life of the process.
#[inline]
fn at(slot: usize) -> Option<&'static Pool> {
    let pool = POOLS.get(slot)?.load(Ordering::Acquire);
    // SAFETY: the slot holds null or a pool leaked by `create`, which is never freed.
    unsafe { pool.as_ref() }
}

/// Call for every pool; the first error is returned after all were called.
pub fn for_each(mut call: impl FnMut(&'static Pool) -> Result<()>) -> Result<()> {
    let mut first = Ok(());
    for slot in 0..POOLS_MAX {
        if let Some(pool) = at(slot) {
            let result = call(pool);
            if first.is_ok() {
                first = result;
            }
        }
    }
    first
}

fn handle_of(slot: usize) -> u64 {
    (u64::from(GENERATIONS[slot].load(Ordering::Relaxed)) << 32) | (slot as u64 + 1)
}

/// The pool of a handle.
#[inline]
pub fn find(handle: u64) -> Result<&'static Pool> {
    let stale = Error::new(Status::E_HANDLE, "pool handle");
    let slot = (handle & 0xFFFF_FFFF).wrapping_sub(1) as usize;
    let pool = at(slot).ok_or(stale)?;
    if GENERATIONS[slot].load(Ordering::Relaxed) != (handle >> 32) as u32 {
        return Err(stale);
    }
    Ok(pool)
}

/// Create a pool.
pub fn create(desc: PoolDesc, initial_bytes: u64) -> Result<u64> {
    let runtime = runtime()?;
    let (backend, ledger): (&'static dyn Backend, &'static Ledger) = if desc.kind == KIND_HOST {
        (runtime.host_backend()?, &runtime.host_ledger)
    } else {
        runtime.backend.activate(desc.device)?;
        (runtime.backend, runtime.ledger(desc.device))
    };
    let _one_at_a_time = CREATING.lock();
    create_locked(desc, backend, ledger, initial_bytes)
}

fn create_locked(
    desc: PoolDesc,
    backend: &'static dyn Backend,
    ledger: &'static Ledger,
    initial_bytes: u64,
) -> Result<u64> {
    let slot = (0..POOLS_MAX)
        .find(|&s| POOLS[s].load(Ordering::Relaxed).is_null())
        .ok_or(Error::new(Status::E_HOST_MEMORY, "too many pools"))?;
    let hooks = Hooks { mapping: tell_mapping, trim_others };
    let device = desc.device;
    let pool = Pool::new(slot as u16, desc, backend, ledger, hooks)?;
    if initial_bytes > 0 {
        let stream = StreamRef { key: 0, raw: 0, persistent: true, told: true, capture: None };
        if let Err(e) = pool.preallocate(initial_bytes, &stream) {
            let _ = pool.destroy(true);
            return Err(e);
        }
    }
    let _ = device;
    GENERATIONS[slot].fetch_add(1, Ordering::Relaxed);
    POOLS[slot].store(Box::leak(Box::new(pool)), Ordering::Release);
    Ok(handle_of(slot))
}

/// Destroy a pool that is not a default one.
pub fn destroy(handle: u64) -> Result<()> {
    super::check_gate()?;
    let default = Error::new(Status::E_ARGUMENT, "a default pool cannot be destroyed");
    if handle == 0 {
        return Err(default);
    }
    let pool = find(handle)?;
    if DEFAULTS.iter().any(|d| d.load(Ordering::Relaxed) == handle) {
        return Err(default);
    }
    pool.destroy(false)?;
    let slot = pool.slot as usize;
    GENERATIONS[slot].fetch_add(1, Ordering::Relaxed);
    // The record itself is leaked: another thread may just be looking at it.
    POOLS[slot].store(std::ptr::null_mut(), Ordering::Release);
    Ok(())
}

/// The default pool of a device.
#[inline]
pub fn default_of(runtime: &'static Runtime, device: u32) -> Result<u64> {
    match DEFAULTS.get(device as usize).map(|d| d.load(Ordering::Acquire)) {
        Some(0) => create_default(runtime, device),
        Some(handle) => Ok(handle),
        None => Err(Error::new(Status::E_DEVICE, "device index")),
    }
}

#[cold]
fn create_default(runtime: &'static Runtime, device: u32) -> Result<u64> {
    runtime.backend.activate(device)?;
    let _one_at_a_time = CREATING.lock();
    let cell = &DEFAULTS[device as usize];
    if cell.load(Ordering::Acquire) == 0 {
        let desc = desc(KIND_DEVICE, device)?;
        let handle = create_locked(desc, runtime.backend, runtime.ledger(device), 0)?;
        cell.store(handle, Ordering::Release);
    }
    Ok(cell.load(Ordering::Acquire))
}

/// A description with the options' defaults.
pub fn desc(kind: u32, device: u32) -> Result<PoolDesc> {
    let slack = super::config::slack()?;
    Ok(PoolDesc {
        kind,
        device,
        stable: false,
        limit_bytes: u64::MAX,
        slack_ppm: slack.unwrap_or(crate::pool::SLACK_AUTO_PPM),
        slack_is_auto: slack.is_none(),
        decay_ms: super::config::decay()?,
        name: String::new(),
    })
}

/// The pool that a handle names; 0 is the default pool of the stream's device or the current one.
#[inline]
fn pool_for(runtime: &'static Runtime, handle: u64, stream: u64) -> Result<&'static Pool> {
    if handle != 0 {
        return find(handle);
    }
    let device = if streams::is_registered(stream) {
        runtime.streams.find(stream)?.0
    } else {
        runtime.current_device()?
    };
    find(default_of(runtime, device)?)
}

/// Allocate.
pub fn alloc(handle: u64, request: Request, stream: u64) -> Result<u64> {
    let runtime = runtime()?;
    let pool = pool_for(runtime, handle, stream)?;
    let stream = runtime.resolve(pool.backend, pool.desc.device, stream)?;
    pool.alloc(request, &stream)
}

/// The pool and region of an address.
#[inline]
fn owner(addr: u64) -> Result<(&'static Runtime, &'static Pool, u16)> {
    let runtime = runtime()?;
    let foreign = Error::new(Status::E_FOREIGN_POINTER, "address");
    let owner = addr_map::find(addr).ok_or(foreign)?;
    Ok((runtime, at(owner.pool as usize).ok_or(foreign)?, owner.region))
}

/// Free by address.
pub fn free(addr: u64, expected: Option<u64>, stream: u64) -> Result<()> {
    let (runtime, pool, region) = owner(addr)?;
    let stream = runtime.resolve(pool.backend, pool.desc.device, stream)?;
    pool.free(region, addr, expected, &stream)
}

/// Facts of the block at an address: its pool's handle, the pool, the block.
pub fn block(addr: u64) -> Result<(u64, &'static Pool, BlockFacts)> {
    let (_, pool, region) = owner(addr)?;
    Ok((handle_of(pool.slot as usize), pool, pool.block(region, addr)?))
}

/// Pin or unpin.
pub fn pin(addr: u64, up: bool) -> Result<()> {
    let (_, pool, region) = owner(addr)?;
    pool.pin(region, addr, up)
}

/// Record a use on another stream.
pub fn record_use(addr: u64, stream: u64) -> Result<()> {
    let (runtime, pool, region) = owner(addr)?;
    let stream = runtime.resolve(pool.backend, pool.desc.device, stream)?;
    pool.record_use(region, addr, &stream)
}

/// End a recorded use.
pub fn end_use(addr: u64, stream: u64) -> Result<()> {
    let (runtime, pool, region) = owner(addr)?;
    let stream = runtime.resolve(pool.backend, pool.desc.device, stream)?;
    if stream.capture.is_some() {
        return Err(Error::new(Status::E_CAPTURE, "the stream is being captured"));
    }
    pool.end_use(region, addr, &stream)
}

/// The pool of a handle in calls that need no stream; 0 is the default pool of the current device.
pub fn named(handle: u64) -> Result<&'static Pool> {
    pool_for(runtime()?, handle, 0)
}

/// Figures of a pool.
pub fn stats(handle: u64) -> Result<(&'static Pool, PoolStats)> {
    let pool = named(handle)?;
    Ok((pool, pool.stats()))
}

/// Give idle memory of all pools of a device (none: of all devices) back.
pub fn empty_cache(device: Option<u32>) -> Result<Trimmed> {
    let mut sum = Trimmed::default();
    for_each(|pool| {
        if device.is_some_and(|d| d != pool.desc.device) {
            return Ok(());
        }
        let trimmed = pool.trim(0)?;
        sum.returned += trimmed.returned;
        sum.pending += trimmed.pending;
        sum.kept += trimmed.kept;
        Ok(())
    })?;
    Ok(sum)
}

fn trim_others(slot: u16, device: u32) -> u64 {
    let mut returned = 0;
    let _ = for_each(|pool| {
        if pool.slot != slot && pool.desc.device == device && pool.desc.kind == KIND_DEVICE {
            returned += pool.trim(0)?.returned;
        }
        Ok(())
    });
    returned
}

/// End a stream's registration.
pub fn retire(value: u64) -> Result<()> {
    let (device, stream) = runtime()?.streams.retire(value)?;
    if stream.capture.is_some() {
        crate::pool::capture::told(false);
    }
    for_each(|pool| {
        if pool.desc.device == device {
            pool.retire(&stream);
        }
        Ok(())
    })
}

/// Begin a told capture.
pub fn capture_begin(value: u64) -> Result<()> {
    runtime()?.streams.capture_begin(value)?;
    crate::pool::capture::told(true);
    Ok(())
}

/// End a told capture; the graph's id.
pub fn capture_end(value: u64) -> Result<u64> {
    let (graph, device, raw) = runtime()?.streams.capture_end(value)?;
    crate::pool::capture::told(false);
    for_each(|pool| {
        if pool.desc.device == device {
            pool.capture_ended(raw);
        }
        Ok(())
    })?;
    Ok(graph)
}

/// Release a told capture's memory.
pub fn graph_release(graph: u64) -> Result<()> {
    runtime()?.streams.graph_release(graph)?;
    for_each(|pool| {
        pool.release_graph(graph);
        Ok(())
    })
}
