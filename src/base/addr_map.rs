//! From any address to the reservation that contains it: one lock-free load.
//!
//! A flat table of 1 GiB chunks over 47 bits of address space. Reservations are whole chunks, so a
//! chunk has one owner. The table is 512 KiB of zeroed memory of which only touched pages exist;
//! a radix tree would save that and cost a second dependent load on every free.

use super::units::CHUNK;
use std::sync::atomic::{AtomicU32, Ordering};

const BITS: u32 = 47;
const CHUNKS: usize = 1 << (BITS - 30);
static MAP: [AtomicU32; CHUNKS] = [const { AtomicU32::new(0) }; CHUNKS];

/// Which pool and which of its regions own an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Slot of the pool in the runtime's table.
    pub pool: u16,
    /// Region of the pool.
    pub region: u16,
}

/// The owner of an address, if a reservation of cenote contains it.
#[inline]
pub fn find(addr: u64) -> Option<Owner> {
    let cell = MAP.get((addr / CHUNK) as usize)?;
    // Acquire pairs with the release in `set`: the region's records are visible before its chunk
    // is.
    match cell.load(Ordering::Acquire) {
        0 => None,
        v => Some(Owner { pool: ((v - 1) >> 12) as u16, region: ((v - 1) & 0xFFF) as u16 }),
    }
}

/// True if the table can describe the range.
pub fn covers(addr: u64, size_bytes: u64) -> bool {
    addr.checked_add(size_bytes).is_some_and(|end| end <= CHUNK * CHUNKS as u64)
}

/// Name the owner of whole chunks, or none.
pub fn set(addr: u64, size_bytes: u64, owner: Option<Owner>) {
    let value = owner.map_or(0, |o| ((u32::from(o.pool) << 12) | u32::from(o.region)) + 1);
    let first = (addr / CHUNK) as usize;
    for cell in &MAP[first..first + (size_bytes / CHUNK) as usize] {
        cell.store(value, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_and_last_byte_belong_and_neighbours_do_not() {
        let base = 5000 * CHUNK;
        let owner = Owner { pool: 7, region: 3 };
        set(base, 2 * CHUNK, Some(owner));
        assert_eq!(find(base), Some(owner));
        assert_eq!(find(base + 2 * CHUNK - 1), Some(owner));
        assert_eq!(find(base + 2 * CHUNK), None);
        assert_eq!(find(base - 1), None);
        set(base, 2 * CHUNK, None);
        assert_eq!(find(base), None);
        assert_eq!(find(u64::MAX), None);
    }
}
