//! Proof that live blocks do not share memory: their address ranges are kept apart, and where the
//! CPU can touch them, a pattern at both ends of each block must still be there when it is freed.

use std::collections::BTreeMap;

/// Checks the blocks of one pass.
pub struct Verifier {
    host_visible: bool,
    /// End of each live block by its start.
    live: BTreeMap<u64, u64>,
}

/// Bytes of pattern at each end.
const EDGE_BYTES: u64 = 8;

impl Verifier {
    /// A verifier with no live block.
    pub fn new(host_visible: bool) -> Verifier {
        Verifier { host_visible, live: BTreeMap::new() }
    }

    /// A block was allocated.
    pub fn allocated(&mut self, block: u32, address: u64, size_bytes: u64) -> Result<(), String> {
        if size_bytes == 0 {
            return Ok(());
        }
        let end = address.checked_add(size_bytes).filter(|_| address != 0);
        let end = end.ok_or_else(|| format!("block {block} lies at the address {address:#x}"))?;
        let before = self.live.range(..end).next_back();
        if let Some((other, other_end)) = before.filter(|(_, other_end)| **other_end > address) {
            return Err(format!(
                "block {block} at {address:#x}..{end:#x} overlaps a live one at \
                 {other:#x}..{other_end:#x}"
            ));
        }
        self.live.insert(address, end);
        if self.host_visible {
            let edge = edge(size_bytes);
            for at in [address, end - edge] {
                // SAFETY: the allocator says that these bytes are a live block of ours and that
                // the CPU may write them; nothing else uses them in this process.
                unsafe { write(at, edge, block) };
            }
        }
        Ok(())
    }

    /// A block is about to be freed.
    pub fn freed(&mut self, block: u32, address: u64, size_bytes: u64) -> Result<(), String> {
        if size_bytes == 0 {
            return Ok(());
        }
        self.live.remove(&address);
        if !self.host_visible {
            return Ok(());
        }
        let edge = edge(size_bytes);
        for at in [address, address + size_bytes - edge] {
            // SAFETY: the block is live until this call returns; see `allocated`.
            if !unsafe { is_written(at, edge, block) } {
                return Err(format!("block {block} was overwritten at {at:#x} while it was live"));
            }
        }
        Ok(())
    }
}

fn edge(size_bytes: u64) -> u64 {
    size_bytes.min(EDGE_BYTES)
}

/// The byte that belongs at an address of a block. It depends on the address, not on which end it
/// is part of, for the ends of a short block overlap.
fn pattern(block: u32, address: u64) -> u8 {
    let bytes = (u64::from(block) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    (bytes >> (address % 8 * 8)) as u8
}

/// # Safety
/// `count` bytes at `address` may be written.
unsafe fn write(address: u64, count: u64, block: u32) {
    for at in address..address + count {
        // SAFETY: the caller vouches for the range. Volatile, because the compiler must not assume
        // that the memory keeps what it sees written.
        unsafe { (at as *mut u8).write_volatile(pattern(block, at)) };
    }
}

/// # Safety
/// `count` bytes at `address` may be read.
unsafe fn is_written(address: u64, count: u64, block: u32) -> bool {
    // SAFETY: the caller vouches for the range.
    (address..address + count)
        .all(|at| unsafe { (at as *const u8).read_volatile() } == pattern(block, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_are_found_on_every_side() {
        let mut v = Verifier::new(false);
        v.allocated(0, 1000, 100).unwrap();
        for (address, size) in [(1000, 100), (999, 2), (1099, 1), (900, 500), (1050, 10)] {
            let error = v.allocated(1, address, size).unwrap_err();
            assert!(error.contains("overlaps a live one at 0x3e8..0x44c"), "{error}");
        }
        v.allocated(1, 900, 100).unwrap();
        v.allocated(2, 1100, 1).unwrap();
        v.freed(0, 1000, 100).unwrap();
        v.allocated(3, 1000, 100).unwrap();
        assert!(v.allocated(4, 0, 8).unwrap_err().contains("at the address 0x0"));
        assert!(v.allocated(4, u64::MAX, 8).is_err());
        v.allocated(5, 0, 0).unwrap();
    }

    #[test]
    fn a_byte_changed_at_either_end_is_found() {
        for size in [1usize, 7, 8, 9, 4096] {
            let mut memory = vec![0u8; size];
            let address = memory.as_mut_ptr() as u64;
            let mut v = Verifier::new(true);
            v.allocated(7, address, size as u64).unwrap();
            v.freed(7, address, size as u64).unwrap();
            for spoiled in [0, size - 1] {
                v.allocated(7, address, size as u64).unwrap();
                memory[spoiled] ^= 1;
                let error = v.freed(7, address, size as u64).unwrap_err();
                assert!(error.contains("block 7 was overwritten"), "{error}");
            }
        }
    }
}
