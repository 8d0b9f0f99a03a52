//! Where large blocks were put the last time the same sizes came in the same order.
//!
//! Training and inference repeat themselves: a step asks for the same sizes in the same order. Put
//! at the same addresses, the step finds every page mapped, because the last round was possible
//! with just these handles behind these places. So a round that repeats needs no driver call,
//! however tight the memory is; without the memory of the last round, placement settles only after
//! two or three.
//!
//! A ring of the latest (size, address) pairs is followed from one entry to the next while the
//! sizes agree. When they do not, the last few sizes are looked up in a small table of where they
//! were seen before; a pool that was empty starts again where it started last time. A prediction is
//! only a preference: an address that is not free is found by first fit instead.

/// Entries of the ring and of the table.
const ENTRIES: usize = 1 << 17;
/// Sizes that identify a place in the sequence.
const CONTEXT: usize = 8;

#[derive(Clone, Copy, Default)]
struct Entry {
    size: u64,
    addr: u64,
}

/// The memory of one pool.
#[derive(Default)]
pub struct Recall {
    ring: Vec<Entry>,
    table: Vec<u32>,
    /// Entries written so far; `ring` holds the last `ENTRIES`.
    head: usize,
    /// Entry that should come next.
    next: usize,
    /// Where the present round and the one before began.
    began: usize,
}

impl Recall {
    fn entry(&self, index: usize) -> Option<Entry> {
        let known = index < self.head && self.head - index <= ENTRIES;
        known.then(|| self.ring[index % ENTRIES])
    }

    /// Hash of the last sizes and the one that comes now.
    fn context(&self, size: u64) -> Option<usize> {
        let first = self.head.checked_sub(CONTEXT - 1)?;
        let mut hash = size;
        for index in first..self.head {
            hash = (hash.rotate_left(7) ^ self.ring[index % ENTRIES].size)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
        Some((hash >> 40) as usize % ENTRIES)
    }

    /// Where a block of this size was put last time.
    pub fn predict(&mut self, size: u64) -> Option<u64> {
        if let Some(entry) = self.entry(self.next).filter(|e| e.size == size) {
            return Some(entry.addr);
        }
        let seen = *self.table.get(self.context(size)?)? as usize;
        let entry = self.entry(seen.checked_sub(1)?).filter(|e| e.size == size)?;
        self.next = seen - 1;
        Some(entry.addr)
    }

    /// A block was put here.
    pub fn note(&mut self, size: u64, addr: u64) {
        if self.ring.is_empty() {
            self.ring = vec![Entry::default(); ENTRIES];
            self.table = vec![0; ENTRIES];
        }
        if self.entry(self.next).is_some_and(|e| e.size == size) {
            self.next += 1;
        }
        if let Some(slot) = self.context(size) {
            self.table[slot] = (self.head + 1) as u32;
        }
        self.ring[self.head % ENTRIES] = Entry { size, addr };
        self.head += 1;
    }

    /// No large block is live: the next round may begin as this one did.
    pub fn emptied(&mut self) {
        self.next = self.began;
        self.began = self.head;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts blocks where `follow` predicts them, else at `base` and up.
    fn round(recall: &mut Recall, sizes: &[u64], base: u64, follow: bool) -> Vec<Option<u64>> {
        let mut seen = Vec::new();
        for (i, &size) in sizes.iter().enumerate() {
            let predicted = recall.predict(size);
            let own = base + i as u64;
            recall.note(size, if follow { predicted.unwrap_or(own) } else { own });
            seen.push(predicted);
        }
        seen
    }

    #[test]
    fn a_round_from_empty_is_predicted_from_its_first_block() {
        let sizes: Vec<u64> = (0..200).map(|i| 1 + (i * 7) % 13).collect();
        let mut recall = Recall::default();
        round(&mut recall, &sizes, 1000, false);
        recall.emptied();
        let second = round(&mut recall, &sizes, 9000, true);
        assert_eq!(second[0], Some(1000));
        assert_eq!(second[199], Some(1199));
    }

    #[test]
    fn a_step_is_found_again_after_a_surprise() {
        let sizes: Vec<u64> = (0..100).map(|i| 1 + i * i).collect();
        let mut recall = Recall::default();
        round(&mut recall, &sizes, 1000, false);
        round(&mut recall, &[77_777], 5000, false);
        recall.next = recall.head;
        let second = round(&mut recall, &sizes, 9000, true);
        assert!(second[CONTEXT - 2].is_none());
        assert_eq!(second[CONTEXT], Some(1000 + CONTEXT as u64));
        assert_eq!(second[99], Some(1099));
    }

    #[test]
    fn the_ring_forgets_what_is_too_old() {
        let mut recall = Recall::default();
        recall.note(5, 1);
        for i in 0..ENTRIES as u64 {
            recall.note(10 + i, i);
        }
        recall.next = 0;
        assert_eq!(recall.predict(5), None);
    }
}
