//! The book of the host backend: which addresses, handles and mappings there are.

use std::collections::{BTreeMap, HashMap};

use super::PAGE_BYTES;

/// A handle: a range of the file.
pub struct Physical {
    pub device: u32,
    pub size_bytes: u64,
    /// Number of mappings of this handle.
    pub mapped: u32,
    /// Given back by its owner; the last mapping keeps it.
    pub released: bool,
    /// Was accessible at some time, so that it may have pages.
    pub touched: bool,
}

/// A handle at an address.
pub struct Mapping {
    pub size_bytes: u64,
    pub handle: u64,
    pub accessible: bool,
}

/// All of it; behind one lock.
#[derive(Default)]
pub struct State {
    /// Start to length.
    pub reservations: BTreeMap<u64, u64>,
    /// Start to mapping; never overlapping, always inside one reservation.
    pub mappings: BTreeMap<u64, Mapping>,
    pub handles: HashMap<u64, Physical>,
    pub created_bytes: Vec<u64>,
    pub next_offset: u64,
    /// Calls that give pages back right now: their offsets are not free yet.
    pub discarding: u32,
}

/// First file offset of a handle: the number is the offset in pages plus one, so that 0 is none.
pub fn offset_of(handle: u64) -> u64 {
    (handle - 1) * PAGE_BYTES
}

/// Offsets and lengths whose pages are to be given back.
pub type Gone = Vec<(u64, u64)>;

impl State {
    /// Whether a range lies inside one reservation.
    pub fn reserved(&self, addr: u64, size_bytes: u64) -> bool {
        let Some(end) = addr.checked_add(size_bytes) else { return false };
        let before = self.reservations.range(..=addr).next_back();
        before.is_some_and(|(&base, &length)| end <= base + length)
    }

    /// Whether a range inside a reservation touches a mapping.
    pub fn overlaps(&self, addr: u64, size_bytes: u64) -> bool {
        let before = self.mappings.range(..addr + size_bytes).next_back();
        before.is_some_and(|(&start, mapping)| start + mapping.size_bytes > addr)
    }

    /// Whether whole mappings of a device fill a range without a gap.
    pub fn filled(&self, device: u32, addr: u64, size_bytes: u64) -> bool {
        let Some(end) = addr.checked_add(size_bytes) else { return false };
        let mut at = addr;
        for (&start, mapping) in self.mappings.range(addr..end) {
            let owner = self.handles.get(&mapping.handle).map(|physical| physical.device);
            if start != at || owner != Some(device) {
                return false;
            }
            at += mapping.size_bytes;
        }
        size_bytes > 0 && at == end
    }

    /// Adjacent mappings that are not accessible yet and whose offsets are adjacent as well, as
    /// (address, length, offset).
    pub fn runs(&self, addr: u64, size_bytes: u64) -> Vec<(u64, u64, u64)> {
        let mut runs: Vec<(u64, u64, u64)> = Vec::new();
        for (&start, mapping) in self.mappings.range(addr..addr + size_bytes) {
            if mapping.accessible {
                continue;
            }
            let offset = offset_of(mapping.handle);
            match runs.last_mut() {
                Some((at, length, first))
                    if *at + *length == start && *first + *length == offset =>
                {
                    *length += mapping.size_bytes;
                }
                _ => runs.push((start, mapping.size_bytes, offset)),
            }
        }
        runs
    }

    /// Notes that every mapping in a range is accessible.
    pub fn mark_accessible(&mut self, addr: u64, size_bytes: u64) {
        for (_, mapping) in self.mappings.range_mut(addr..addr + size_bytes) {
            mapping.accessible = true;
            if let Some(physical) = self.handles.get_mut(&mapping.handle) {
                physical.touched = true;
            }
        }
    }

    /// Forgets a handle that is released and mapped nowhere.
    pub fn forget_if_unused(&mut self, handle: u64, gone: &mut Gone) {
        let unused = |physical: &Physical| physical.released && physical.mapped == 0;
        if !self.handles.get(&handle).is_some_and(unused) {
            return;
        }
        let Some(physical) = self.handles.remove(&handle) else { return };
        self.created_bytes[physical.device as usize] -= physical.size_bytes;
        if physical.touched {
            gone.push((offset_of(handle), physical.size_bytes));
        }
    }
}
