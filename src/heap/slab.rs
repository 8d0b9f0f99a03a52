//! Slabs: spans of equal small blocks with their metadata on the host.
//!
//! A slab serves one stream. Blocks that the stream frees are reused by it at once; blocks freed on
//! another stream come back when that stream's epoch is finished. One byte a block says what it is.

use super::size_class::{blocks_of, SIZES};

/// State of a slab block: one byte each, never a shared bit.
pub mod state {
    /// Not handed out.
    pub const FREE: u8 = 0;
    /// Handed out.
    pub const LIVE: u8 = 1;
    /// Freed, but its last use is not finished.
    pub const PENDING: u8 = 2;
    /// Flag beside `LIVE`: pins or uses are recorded for it.
    pub const EXTRA: u8 = 0x80;
}

/// A slab.
pub struct Slab {
    /// First address.
    pub base: u64,
    /// Range that it fills.
    pub range: u32,
    /// Stream that it serves (0 on backends without asynchronous work).
    pub owner: u32,
    /// Size class.
    pub class: u8,
    /// True while it is in its owner's list of partly free slabs.
    pub listed: bool,
    /// Blocks ready to be handed out.
    pub free_count: u16,
    /// Blocks in all.
    pub blocks: u16,
    /// One bit a block: ready to be handed out.
    bits: [u64; 2],
    /// One byte a block, see `state`.
    pub states: Vec<u8>,
    /// Class size less the bytes requested, a block.
    waste: Vec<u16>,
    /// Neighbours in the owner's list.
    pub prev: u32,
    /// See `prev`.
    pub next: u32,
}

/// All slabs of a pool; index 0 is none.
#[derive(Default)]
pub struct Slabs {
    slabs: Vec<Slab>,
    unused: Vec<u32>,
}

impl std::ops::Index<u32> for Slabs {
    type Output = Slab;
    #[inline]
    fn index(&self, id: u32) -> &Slab {
        &self.slabs[id as usize - 1]
    }
}

impl std::ops::IndexMut<u32> for Slabs {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut Slab {
        &mut self.slabs[id as usize - 1]
    }
}

impl Slabs {
    /// A slab over a fresh span, all blocks free, in no list.
    pub fn create(&mut self, base: u64, range: u32, owner: u32, class: usize) -> u32 {
        let blocks = blocks_of(class);
        let bits = [
            if blocks >= 64 { u64::MAX } else { (1 << blocks) - 1 },
            if blocks > 64 { u64::MAX >> (128 - blocks) } else { 0 },
        ];
        let (mut states, mut waste) = (Vec::new(), Vec::new());
        let id = self.unused.pop();
        if let Some(id) = id {
            // Take the old arrays over: refilling them allocates nothing.
            states = std::mem::take(&mut self[id].states);
            waste = std::mem::take(&mut self[id].waste);
            states.clear();
        }
        states.resize(blocks, state::FREE);
        waste.resize(blocks, 0);
        let slab = Slab {
            base,
            range,
            owner,
            class: class as u8,
            listed: false,
            free_count: blocks as u16,
            blocks: blocks as u16,
            bits,
            states,
            waste,
            prev: 0,
            next: 0,
        };
        match id {
            Some(id) => {
                self[id] = slab;
                id
            }
            None => {
                self.slabs.push(slab);
                self.slabs.len() as u32
            }
        }
    }

    /// Forget a slab whose blocks are all free.
    pub fn discard(&mut self, id: u32) {
        self.unused.push(id);
    }
}

impl Slab {
    /// Take a free block; the slab has one.
    #[inline]
    pub fn take(&mut self, requested: u64) -> u64 {
        let word = usize::from(self.bits[0] == 0);
        let index = word * 64 + self.bits[word].trailing_zeros() as usize;
        self.bits[word] &= self.bits[word] - 1;
        self.free_count -= 1;
        let size = SIZES[self.class as usize];
        self.states[index] = state::LIVE;
        self.waste[index] = (size - requested) as u16;
        self.base + index as u64 * size
    }

    /// Make a block ready to be handed out again.
    #[inline]
    pub fn give(&mut self, index: usize) {
        self.states[index] = state::FREE;
        self.bits[index / 64] |= 1 << (index % 64);
        self.free_count += 1;
    }

    /// Index of the block that contains an address, and whether the address is its start; none past
    /// the last block.
    #[inline]
    pub fn index_of(&self, addr: u64) -> Option<(usize, bool)> {
        // Offsets and sizes fit in 32 bits: one short division.
        let offset = (addr - self.base) as u32;
        let size = SIZES[self.class as usize] as u32;
        let index = offset / size;
        (index < u32::from(self.blocks)).then_some((index as usize, offset.is_multiple_of(size)))
    }

    /// Bytes asked for, of a live block.
    #[inline]
    pub fn requested(&self, index: usize) -> u64 {
        SIZES[self.class as usize] - u64::from(self.waste[index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slab_hands_out_each_block_once() {
        let mut slabs = Slabs::default();
        for (class, size_bytes) in SIZES.iter().copied().enumerate() {
            let id = slabs.create(1 << 40, 1, 0, class);
            let slab = &mut slabs[id];
            let mut seen = std::collections::HashSet::new();
            while slab.free_count > 0 {
                assert!(seen.insert(slab.take(1)));
            }
            assert_eq!(seen.len(), blocks_of(class));
            let last = (1 << 40) + (blocks_of(class) as u64 - 1) * size_bytes;
            assert_eq!(slab.index_of(last), Some((blocks_of(class) - 1, true)));
            assert!(!slab.index_of(last + 1).unwrap().1);
            assert_eq!(slab.index_of(last + size_bytes), None);
            slab.give(blocks_of(class) - 1);
            assert_eq!(slab.take(1), last);
            slabs.discard(id);
        }
    }
}
