//! A region: one reservation, its page table and the map from addresses to blocks.

use super::handles::AliasId;
use crate::base::units::round_up;

/// Which blocks start where. Two resolutions, each one or two plain loads.
pub enum PageMap {
    /// Blocks of whole units: every covered unit names its range.
    Units(Vec<u32>),
    /// Blocks longer than a unit: at most one starts in each unit (`starts`), and `covers` names
    /// the one that contains the unit's first byte.
    Starts {
        /// Range that starts in the unit.
        starts: Vec<u32>,
        /// Range that contains the first byte of the unit.
        covers: Vec<u32>,
    },
}

/// What a region serves. Blocks that live long, like the slabs of biases and counters, are kept
/// apart from those that come and go, so that a few of them do not keep many pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Spans of slabs.
    Slabs = 0,
    /// Blocks above 1 MiB.
    Large = 1,
    /// Blocks in between.
    Medium = 2,
}

/// Pages from which a block is packed: measured on recorded traces, less is held than with 8, or
/// with no such bound.
const PACKED: u64 = 16;

/// One reservation of addresses.
pub struct Region {
    /// First address.
    pub base: u64,
    /// Bytes.
    pub size: u64,
    /// log2 of the unit of `map`.
    pub unit_shift: u32,
    /// log2 of the page size.
    pub page_shift: u32,
    /// Smallest multiple of block sizes.
    pub granule: u64,
    /// Alias that maps each page, 0 for none.
    pub pages: Vec<AliasId>,
    /// Addresses to ranges.
    pub map: PageMap,
    /// Tree of ready ranges that every stream may use.
    pub clean: u32,
    /// Tree of unmapped ranges.
    pub unmapped: u32,
    /// First range in address order.
    pub first: u32,
    /// The captured graph that owns the region, 0 for none.
    pub graph: u64,
    /// Live and pending blocks in it.
    pub live: u64,
    /// What it serves.
    pub sort: Sort,
}

impl Region {
    /// A region over a fresh reservation.
    pub fn new(base: u64, size: u64, page_shift: u32, sort: Sort) -> Region {
        let small = sort != Sort::Large;
        let unit_shift = if small { 13 } else { 20 };
        let units = (size >> unit_shift) as usize;
        // Zeroed allocations of this size come from the kernel and take no memory until touched.
        let map = if small {
            PageMap::Units(vec![0; units])
        } else {
            PageMap::Starts { starts: vec![0; units], covers: vec![0; units] }
        };
        Region {
            base,
            size,
            unit_shift,
            page_shift,
            granule: if small { 1 << unit_shift } else { crate::base::units::GRAIN },
            pages: vec![0; (size >> page_shift) as usize],
            map,
            clean: 0,
            unmapped: 0,
            first: 0,
            graph: 0,
            live: 0,
            sort,
        }
    }

    /// Index of the page that contains an address.
    #[inline]
    pub fn page_of(&self, addr: u64) -> usize {
        ((addr - self.base) >> self.page_shift) as usize
    }

    /// First address of a page.
    #[inline]
    pub fn page_addr(&self, page: usize) -> u64 {
        self.base + ((page as u64) << self.page_shift)
    }

    /// Bytes of a page.
    #[inline]
    pub fn page_bytes(&self) -> u64 {
        1 << self.page_shift
    }

    /// Lowest start at or above `addr` at which a block of `size` touches no more pages than it
    /// must. This keeps a page from being held by two blocks where one would do. Very large blocks
    /// are packed: one page more is little to them, and the tails add up.
    #[inline]
    pub fn fit(&self, addr: u64, size: u64, align: u64) -> u64 {
        let page = self.page_bytes();
        let start = round_up(addr, align.max(self.granule));
        if self.sort != Sort::Large {
            return start;
        }
        let tail = ((size - 1) & (page - 1)) + 1;
        if size >= PACKED * page || (start - self.base) % page + tail <= page {
            start
        } else {
            round_up(start, page)
        }
    }

    /// Name the range of a block (or 0) for every unit it covers.
    pub fn map_block(&mut self, addr: u64, size: u64, id: u32) {
        let unit = 1u64 << self.unit_shift;
        let first = ((addr - self.base) >> self.unit_shift) as usize;
        match &mut self.map {
            PageMap::Units(ids) => ids[first..first + (size >> self.unit_shift) as usize].fill(id),
            PageMap::Starts { starts, covers } => {
                starts[first] = id;
                // Units whose first byte lies in the block; the first one only if the block starts
                // it.
                let from = (round_up(addr - self.base, unit) >> self.unit_shift) as usize;
                let to = (round_up(addr - self.base + size, unit) >> self.unit_shift) as usize;
                covers[from.min(to)..to].fill(id);
            }
        }
    }

    /// The range that may contain an address: 0, or a candidate whose bounds the caller checks.
    #[inline]
    pub fn lookup(&self, addr: u64) -> [u32; 2] {
        let unit = ((addr - self.base) >> self.unit_shift) as usize;
        match &self.map {
            PageMap::Units(ids) => [ids[unit], 0],
            PageMap::Starts { starts, covers } => [starts[unit], covers[unit]],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 2 << 20;

    #[test]
    fn a_fitted_block_touches_the_least_number_of_pages() {
        let region = Region::new(1 << 40, 1 << 30, 21, Sort::Large);
        for size in [PAGE + 512, 3 * PAGE / 2, 2 * PAGE, 9 << 20, 30_000_000, PAGE - 512] {
            for offset in (0..2 * PAGE).step_by(128 << 10) {
                let at = region.fit((1 << 40) + offset, size, 512);
                let touched = (at + size - 1) / PAGE - at / PAGE + 1;
                assert_eq!(touched, size.div_ceil(PAGE), "size {size} offset {offset}");
                assert!(at >= (1 << 40) + offset);
            }
        }
    }

    #[test]
    fn lookup_finds_starts_and_insides_of_large_blocks() {
        let mut region = Region::new(1 << 40, 1 << 30, 21, Sort::Large);
        let (a, size) = ((1 << 40) + 512, (1 << 20) + 1024);
        region.map_block(a, size, 7);
        region.map_block(a + size, 5 << 20, 9);
        assert_eq!(region.lookup(a)[0], 7);
        assert!(region.lookup(a + (1 << 20)).contains(&7));
        assert!(region.lookup(a + size).contains(&9));
        assert!(region.lookup(a + size + (4 << 20)).contains(&9));
        region.map_block(a, size, 0);
        assert!(!region.lookup(a).contains(&7));
        assert!(region.lookup(a + size + (4 << 20)).contains(&9));
    }
}
