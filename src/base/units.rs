//! Sizes that every layer shares, and checked rounding.

/// Smallest distance between two blocks, and the default alignment.
pub const GRAIN: u64 = 512;
/// Largest request served from the region for small blocks.
pub const SMALL_MAX: u64 = 1 << 20;
/// Address-map resolution: every reservation starts and ends on such a boundary.
pub const CHUNK: u64 = 1 << 30;
/// No request may be larger: half of a 48-bit address space.
pub const SIZE_MAX: u64 = 1 << 47;

/// `n` rounded up to a multiple of `to`, a power of two; the caller has checked `n <= SIZE_MAX`.
#[inline]
pub const fn round_up(n: u64, to: u64) -> u64 {
    (n + to - 1) & !(to - 1)
}

/// `n` rounded down to a multiple of `to`, a power of two.
#[inline]
pub const fn round_down(n: u64, to: u64) -> u64 {
    n & !(to - 1)
}
