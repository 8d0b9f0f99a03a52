//! From any address to the reservation that contains it: one lock-free load.
//!
//! A flat table of 1 GiB chunks over 47 bits of address space. Reservations are whole chunks, so a
//! chunk has one owner. The table is 512 KiB of zeroed memory of which only touched pages exist;
//! a radix tree would save that and cost a second dependent load on every free.

use super::units::CHUNK;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

const BITS: u32 = 47;
const CHUNKS: usize = 1 << (BITS - 30);
static MAP: [AtomicU32; CHUNKS] = [const { AtomicU32::new(0) }; CHUNKS];

/// A chunk with several owners, or with one that does not fill it: see `PARTS`.
const MIXED: u32 = u32::MAX;
/// Ranges that are not whole chunks, by first address: end and owner.
static PARTS: RwLock<BTreeMap<u64, (u64, Owner)>> = RwLock::new(BTreeMap::new());

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
        MIXED => find_part(addr),
        v => Some(Owner { pool: ((v - 1) >> 12) as u16, region: ((v - 1) & 0xFFF) as u16 }),
    }
}

#[cold]
fn find_part(addr: u64) -> Option<Owner> {
    let parts = PARTS.read();
    let (_, &(end, owner)) = parts.range(..=addr).next_back()?;
    (addr < end).then_some(owner)
}

/// Name the owner of a range that need not be whole chunks, or none.
pub fn set_part(addr: u64, size_bytes: u64, owner: Option<Owner>) {
    let mut parts = PARTS.write();
    match owner {
        Some(owner) => parts.insert(addr, (addr + size_bytes, owner)),
        None => parts.remove(&addr),
    };
    let first = (addr / CHUNK) as usize;
    let last = ((addr + size_bytes - 1) / CHUNK) as usize;
    for cell in MAP.iter().take(last + 1).skip(first) {
        // A chunk once mixed stays so: it is only a slower way to the same answer.
        cell.store(MIXED, Ordering::Release);
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
    fn parts_of_a_chunk_have_their_own_owners() {
        let base = 7000 * CHUNK + 4096;
        let (a, b) = (Owner { pool: 1, region: 2 }, Owner { pool: 3, region: 4 });
        set_part(base, 8192, Some(a));
        set_part(base + 8192, CHUNK, Some(b));
        assert_eq!(find(base - 1), None);
        assert_eq!(find(base + 8191), Some(a));
        assert_eq!(find(base + 8192), Some(b));
        assert_eq!(find(base + 8191 + CHUNK), Some(b));
        assert_eq!(find(base + 8192 + CHUNK), None);
        set_part(base, 8192, None);
        assert_eq!(find(base), None);
        assert_eq!(find(base + 9000), Some(b));
    }

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
