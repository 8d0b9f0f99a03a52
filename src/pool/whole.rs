//! Devices without virtual memory management: memory comes as whole driver allocations.
//!
//! Each allocation is a region of its own with one handle, mapped from the start. Nothing is taken
//! over, and an allocation goes back when no block is left in it.

use super::alloc::Job;
use super::Pool;
use crate::base::units::round_up;
use crate::base::{addr_map, Error, Result, Status};
use crate::heap::Heap;
use crate::space::Sort;
use parking_lot::MutexGuard;

/// Least bytes of an allocation that serves many blocks.
const SHARED_BYTES: u64 = 32 << 20;

impl Pool {
    /// Take one more allocation from the driver and serve a request from it.
    pub(super) fn grow_whole(&self, heap: &mut MutexGuard<'_, Heap>, job: &Job) -> Result<u64> {
        let size = heap.range_size(job.region, job.route, job.request.size);
        let (sort, graph) = {
            let r = &heap.regions[job.region as usize];
            (r.sort, r.graph)
        };
        let room = size + job.request.align.saturating_sub(crate::base::units::GRAIN);
        let bytes = round_up(room, self.page_bytes);
        let bytes = if sort == Sort::Large { bytes } else { bytes.max(SHARED_BYTES) };
        let allowed = self.allowance(heap, job.request.size).allowed;
        if job.grows_not() || bytes > allowed || !self.ledger.take(bytes) {
            return Err(self.refusal(heap, job, bytes));
        }
        heap.count_held(bytes as i64);
        let device = self.desc.device;
        let taken = MutexGuard::unlocked(heap, || {
            let phys = self.create_counted(bytes)?;
            Ok((phys, self.backend.fixed_address(device, phys)?))
        });
        let (phys, base) = match taken {
            Ok(taken) => taken,
            Err(e) => {
                heap.count_held(-(bytes as i64));
                self.ledger.give(bytes);
                let e: Error = e;
                return Err(e.bytes(size, 0));
            }
        };
        let region = heap.add_whole_region(base, bytes, sort, graph, phys);
        addr_map::set_part(base, bytes, Some(addr_map::Owner { pool: self.slot, region }));
        heap.alloc_ready(region, job.stream, job.route, job.request.size, job.request.align)
            .ok_or(Error::new(Status::E_INTERNAL, "a fresh allocation does not hold its block"))
    }
}
