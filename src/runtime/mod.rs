//! Layer 6: what exists once a process: backend, pools, options, the rules of start and end.
//!
//! Nothing happens before the first call that needs it. Pools and the runtime itself are never
//! dropped: at process exit the driver may be gone before any destructor of ours would run.

pub mod config;
pub mod instance;
pub mod pools;
pub mod streams;

use crate::base::{Error, Result, Status};
use crate::device::delayed::{Delayed, Ticker};
use crate::device::host::{Host, HostOptions};
use crate::device::select::{self, Choice};
use crate::device::vtable::{cenote_backend_vtable, Vtable};
use crate::device::Backend;
use crate::pool::Ledger;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::OnceLock;

/// The one runtime.
pub struct Runtime {
    /// Serves DEVICE pools.
    pub backend: &'static dyn Backend,
    /// Device used where no context is current.
    pub fallback_device: u32,
    /// Registered streams.
    pub streams: streams::Registry,
    ledgers: Vec<Ledger>,
    host_ledger: Ledger,
    host: OnceLock<&'static dyn Backend>,
}

/// Reasons to refuse every call, as bits: one load on the hit path.
static GATE: AtomicU32 = AtomicU32::new(0);
const SHUT_DOWN: u32 = 1;
const FORKED: u32 = 2;
const SECOND: u32 = 4;

static RUNTIME: OnceLock<Runtime> = OnceLock::new();
static STARTING: Mutex<()> = Mutex::new(());
static TABLE: Mutex<Option<VtableSlot>> = Mutex::new(None);
static TICKER: OnceLock<Ticker> = OnceLock::new();
static FORK_HOOK: AtomicBool = AtomicBool::new(false);

struct VtableSlot(cenote_backend_vtable);
// SAFETY: the table's contract says that its functions and `user` may be used from any thread.
unsafe impl Send for VtableSlot {}

extern "C" fn in_child() {
    GATE.fetch_or(FORKED, Ordering::Relaxed);
}

/// Refuse work after shutdown, in a forked child, and in a second copy.
#[inline]
pub fn check_gate() -> Result<()> {
    match GATE.load(Ordering::Relaxed) {
        0 => Ok(()),
        bits => Err(gate_error(bits)),
    }
}

#[cold]
fn gate_error(bits: u32) -> Error {
    if bits & FORKED != 0 {
        Error::new(Status::E_FORKED, "cenote was used in the parent before fork")
    } else if bits & SHUT_DOWN != 0 {
        Error::new(Status::E_SHUTDOWN, "after cenote_shutdown")
    } else {
        Error::new(Status::E_SECOND_COPY, "use the copy of libcenote that was loaded first")
    }
}

/// The runtime, if it has started.
#[inline]
pub fn running() -> Option<&'static Runtime> {
    RUNTIME.get()
}

/// The runtime, started on first use.
#[inline]
pub fn runtime() -> Result<&'static Runtime> {
    check_gate()?;
    match RUNTIME.get() {
        Some(runtime) => Ok(runtime),
        None => start(),
    }
}

#[cold]
fn start() -> Result<&'static Runtime> {
    let _one_at_a_time = STARTING.lock();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let backend = open_backend()?;
    let fallback_device = config::number("device")? as u32;
    let mut ledgers = Vec::new();
    let mut uuids = Vec::new();
    for device in 0..backend.device_count() {
        let ledger = Ledger::default();
        let info = backend.device_info(device)?;
        if let Some(limit) = config::limit_of(device, &info.uuid, info.total_bytes)? {
            ledger.set_limit(limit);
        }
        ledgers.push(ledger);
        uuids.push(info.uuid);
    }
    config::check_limits(&uuids)?;
    config::slack()?;
    config::decay()?;
    if !instance::claim() {
        GATE.fetch_or(SECOND, Ordering::Relaxed);
        return Err(gate_error(SECOND));
    }
    if !FORK_HOOK.swap(true, Ordering::Relaxed) {
        // SAFETY: the hook only sets a bit.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    }
    Ok(RUNTIME.get_or_init(|| Runtime {
        backend,
        fallback_device,
        streams: streams::Registry::default(),
        ledgers,
        host_ledger: Ledger::default(),
        host: OnceLock::new(),
    }))
}

fn open_backend() -> Result<&'static dyn Backend> {
    let mut backend: Box<dyn Backend> = match TABLE.lock().as_ref() {
        Some(table) => Box::new(Vtable::new(table.0)?),
        None => {
            let choice = Choice::parse(&config::get("backend")?.0)?;
            select::open(choice, host_options()?)?
        }
    };
    let lag = config::number("lag")?;
    if lag > 0 {
        let (delayed, ticker) = Delayed::new(backend, lag);
        let _ = TICKER.set(ticker);
        backend = Box::new(delayed);
    }
    Ok(Box::leak(backend))
}

fn host_options() -> Result<HostOptions> {
    let memory = config::get("host_memory")?.0;
    let total_bytes = match crate::base::size_text::parse_size(&memory) {
        Some(crate::base::size_text::Size::Bytes(bytes)) => Some(bytes),
        _ => None,
    };
    let device_count = config::number("host_devices")? as u32;
    Ok(HostOptions { device_count, total_bytes, overcommit: total_bytes.is_some() })
}

/// One operation has passed, for the option "lag". Used by the replay tool.
pub fn tick() {
    if let Some(ticker) = TICKER.get() {
        ticker.tick();
    }
}

/// Options are fixed once the runtime has started.
pub fn configure(name: &str, value: &str) -> Result<()> {
    check_gate()?;
    let _not_while_starting = STARTING.lock();
    if RUNTIME.get().is_some() {
        return Err(Error::new(Status::E_CONFIGURED, "cenote_configure"));
    }
    config::set(name, value)
}

/// Use a caller's backend.
pub fn register_backend(table: cenote_backend_vtable) -> Result<()> {
    check_gate()?;
    let _not_while_starting = STARTING.lock();
    if RUNTIME.get().is_some() {
        return Err(Error::new(Status::E_CONFIGURED, "cenote_backend_register"));
    }
    Vtable::new(table)?;
    *TABLE.lock() = Some(VtableSlot(table));
    Ok(())
}

impl Runtime {
    /// The host backend, for HOST pools.
    fn host_backend(&self) -> Result<&'static dyn Backend> {
        if self.backend.kind() == crate::device::BackendKind::Host {
            return Ok(self.backend);
        }
        if let Some(&host) = self.host.get() {
            return Ok(host);
        }
        let host: Box<dyn Backend> = Box::new(Host::new(HostOptions::default())?);
        let leaked: &'static dyn Backend = Box::leak(host);
        Ok(*self.host.get_or_init(|| leaked))
    }

    /// The current device, or the fallback.
    pub fn current_device(&self) -> Result<u32> {
        self.backend.current_device(self.fallback_device)
    }

    /// A device index as callers give it: -1 is the current one.
    pub fn device(&self, index: i32) -> Result<u32> {
        if index == -1 {
            return self.current_device();
        }
        let count = self.backend.device_count();
        u32::try_from(index)
            .ok()
            .filter(|&d| d < count)
            .ok_or(Error::new(Status::E_DEVICE, "device index").bytes(0, u64::from(count)))
    }

    /// Limit and use of a device.
    pub fn ledger(&self, device: u32) -> &Ledger {
        &self.ledgers[device as usize]
    }
}

/// Limit what the process may hold on a device.
pub fn device_limit(device: i32, limit_bytes: u64) -> Result<()> {
    let runtime = runtime()?;
    let device = runtime.device(device)?;
    runtime.ledger(device).set_limit(limit_bytes);
    Ok(())
}

/// Do what is due.
pub fn poll() -> Result<()> {
    check_gate()?;
    pools::for_each(|pool| pool.poll())
}

/// Give everything back and refuse further work.
pub fn shutdown() -> Result<()> {
    check_gate()?;
    let _not_while_starting = STARTING.lock();
    GATE.fetch_or(SHUT_DOWN, Ordering::Relaxed);
    let _ = pools::for_each(|pool| pool.destroy(true));
    Ok(())
}
