//! cenote itself as the engine's allocator, through the same C ABI that every other language uses.

use super::allocator::{Allocator, DriverCalls, Refused, Stats};
use super::streams::Streams;
use crate::abi::{self, text, zeroed_pool_desc};
use crate::failure::{Failure, Outcome};
use cenote::ffi::block::{cenote_alloc, cenote_free};
use cenote::ffi::device::cenote_empty_cache;
use cenote::ffi::pool::*;
use cenote::ffi::runtime::{cenote_poll, cenote_status_name};
use cenote::ffi::types::*;
use std::ffi::c_void;
use std::time::{Duration, Instant};

/// How long unfinished frees may take after the last operation.
const SETTLE_LIMIT: Duration = Duration::from_secs(10);

/// A pool of its own for one trace.
pub struct CApi {
    pool: cenote_pool_t,
    device: i32,
    streams: Streams,
    lag_ops: u64,
    host_visible: bool,
}

impl CApi {
    /// Create the pool. Its pages do not decay: a trace's operations follow at once, but the time
    /// that they take here says nothing about the program's.
    pub fn new(device: i32, slack_ppm: u32, lag_ops: u64, trace_streams: &[u64]) -> Outcome<CApi> {
        let info = abi::runtime_info()?;
        let streams = Streams::new(&info, device, trace_streams).map_err(Failure::run)?;
        let mut desc = zeroed_pool_desc();
        desc.kind = CENOTE_KIND_DEVICE;
        desc.device = device;
        desc.slack_ppm = slack_ppm;
        desc.decay_ms = CENOTE_DECAY_OFF;
        for (to, from) in desc.name.iter_mut().zip(b"replay") {
            *to = *from as std::ffi::c_char;
        }
        let mut pool = 0;
        // SAFETY: both pointers are to live, correctly sized locals.
        abi::check("cenote_pool_create", unsafe { cenote_pool_create(&desc, &mut pool) })?;
        let host_visible = abi::device_info(device.max(0))?.host_visible != 0;
        Ok(CApi { pool, device, streams, lag_ops, host_visible })
    }

    fn pool_stats(&self) -> Result<cenote_pool_stats_t, Refused> {
        // SAFETY: the struct is plain integers, for which zero bytes are a value.
        let mut stats: cenote_pool_stats_t = unsafe { std::mem::zeroed() };
        stats.struct_size = size_of::<cenote_pool_stats_t>() as u32;
        // SAFETY: struct_size says how much may be written.
        answer(unsafe { cenote_pool_stats(self.pool, &mut stats) }).map(|()| stats)
    }
}

fn answer(status: cenote_status) -> Result<(), Refused> {
    if status == 0 {
        Ok(())
    } else {
        Err(Refused(status))
    }
}

impl Allocator for CApi {
    fn alloc(&mut self, size_bytes: u64, stream: u16) -> Result<u64, Refused> {
        let mut address: *mut c_void = std::ptr::null_mut();
        let stream = self.streams.get(stream);
        // SAFETY: the stream is alive and `address` is writable.
        answer(unsafe { cenote_alloc(self.pool, size_bytes, stream, &mut address) })
            .map(|()| address as u64)
    }

    fn free(&mut self, address: u64, stream: u16) -> Result<(), Refused> {
        // SAFETY: the stream is alive; the address is only looked up.
        answer(unsafe { cenote_free(address as *mut c_void, self.streams.get(stream)) })
    }

    fn tick(&mut self) {
        if self.lag_ops != 0 {
            cenote::runtime::tick();
        }
    }

    fn settle(&mut self) -> Result<(), Refused> {
        // The device catches up with what has been queued, as at the end of a program's step.
        (0..=self.lag_ops).for_each(|_| self.tick());
        answer(cenote_poll())
    }

    fn stats(&mut self) -> Result<Stats, Refused> {
        let stats = self.pool_stats()?;
        Ok(Stats {
            live_bytes: stats.live_bytes,
            held_bytes: stats.held_bytes,
            peak_live_bytes: stats.peak_live_bytes,
            peak_held_bytes: stats.peak_held_bytes,
            driver_calls: DriverCalls {
                create: stats.driver_create_count,
                map: stats.driver_map_count,
                set_access: stats.driver_access_count,
                unmap: stats.driver_unmap_count,
                release: stats.driver_release_count,
            },
            driver_time_ns: stats.driver_time_ns,
        })
    }

    fn reset_peaks(&mut self) -> Result<(), Refused> {
        answer(cenote_pool_reset_peaks(self.pool))
    }

    fn empty_cache(&mut self) -> Result<(), Refused> {
        let start = Instant::now();
        loop {
            // SAFETY: the struct is plain integers, for which zero bytes are a value.
            let mut result: cenote_trim_result = unsafe { std::mem::zeroed() };
            result.struct_size = size_of::<cenote_trim_result>() as u32;
            // SAFETY: struct_size says how much may be written.
            answer(unsafe { cenote_empty_cache(self.device, &mut result) })?;
            if result.pending_bytes == 0 || start.elapsed() >= SETTLE_LIMIT {
                return Ok(());
            }
            // Frees that were still open got their event in that call; it completes as many
            // operations later as the lag says.
            self.settle()?;
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    fn host_visible(&self) -> bool {
        self.host_visible
    }

    fn explain(&self, refused: Refused) -> String {
        let detail = abi::last_error(refused.0);
        if detail.is_empty() {
            text(cenote_status_name(refused.0))
        } else {
            detail
        }
    }
}

impl Drop for CApi {
    fn drop(&mut self) {
        // A pool that still has live blocks, after a failed run, is left to the end of the process.
        cenote_pool_destroy(self.pool);
    }
}
