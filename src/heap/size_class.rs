//! Size classes of slab blocks, computed.
//!
//! 512-byte steps to 4 KiB, then eight classes an octave, so that rounding wastes at most 1/8 from
//! 4 KiB up. Above `SLAB_MAX` blocks are ranges of whole 8 KiB units. A slab is a span of units
//! that holds up to 128 blocks of one class; its length is the shortest that wastes at most 1/32 of
//! it.

use crate::base::units::GRAIN;

/// Largest block that a slab holds.
pub const SLAB_MAX: u64 = 64 << 10;
/// Unit of spans.
pub const UNIT: u64 = 8 << 10;
/// Most blocks of a slab.
pub const SLAB_BLOCKS_MAX: usize = 128;
const FINE: usize = 8;
const OCTAVES: usize = 4;
/// Number of classes.
pub const CLASSES: usize = FINE + 8 * OCTAVES;

const fn build_sizes() -> [u64; CLASSES] {
    let mut sizes = [0; CLASSES];
    let mut i = 0;
    while i < CLASSES {
        sizes[i] = if i < FINE {
            (i as u64 + 1) * GRAIN
        } else {
            let (octave, step) = ((i - FINE) / 8, (i - FINE) % 8);
            (4096 << octave) + (512 << octave) * (step as u64 + 1)
        };
        i += 1;
    }
    sizes
}

const fn build_spans() -> [u64; CLASSES] {
    let mut spans = [0; CLASSES];
    let mut i = 0;
    while i < CLASSES {
        let size = SIZES[i];
        let least = if size * 16 <= 64 << 10 { 16 } else { 8 };
        let mut span = UNIT;
        while span / size < least || (span % size) * 32 > span {
            span += UNIT;
        }
        spans[i] = span;
        i += 1;
    }
    spans
}

/// Block size of each class.
pub const SIZES: [u64; CLASSES] = build_sizes();
/// Span of a slab of each class, in bytes.
pub const SPANS: [u64; CLASSES] = build_spans();

const _: () = assert!(SIZES[CLASSES - 1] == SLAB_MAX);

/// The class of a request of 1 to `SLAB_MAX` bytes.
#[inline]
pub const fn class_of(size: u64) -> usize {
    if size <= 4096 {
        return size.div_ceil(GRAIN) as usize - 1;
    }
    let octave = 63 - (size - 1).leading_zeros() as usize - 12;
    let step = (size - 1 - (4096 << octave)) >> (9 + octave);
    FINE + octave * 8 + step as usize
}

/// Blocks of a slab of a class.
#[inline]
pub const fn blocks_of(class: usize) -> usize {
    let n = (SPANS[class] / SIZES[class]) as usize;
    if n > SLAB_BLOCKS_MAX {
        SLAB_BLOCKS_MAX
    } else {
        n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_gets_the_smallest_class_that_holds_it() {
        let mut class = 0;
        for size in 1..=SLAB_MAX {
            while SIZES[class] < size {
                class += 1;
            }
            assert_eq!(class_of(size), class, "size {size}");
            if size >= 4096 {
                assert!((SIZES[class] - size) * 8 <= size, "waste at {size}");
            }
        }
    }

    #[test]
    fn slabs_waste_little_and_stay_small() {
        for class in 0..CLASSES {
            let (span, used) = (SPANS[class], blocks_of(class) as u64 * SIZES[class]);
            assert!((span - used) * 32 <= span, "class {class}");
            assert!(span <= 1 << 20, "class {class} spans {span}");
            assert!((8..=SLAB_BLOCKS_MAX).contains(&blocks_of(class)), "class {class}");
        }
    }
}
