//! What every bench needs: the allocators under test, seeded sizes, smoke or real, a result hash.

use std::ffi::c_void;
use std::ptr::null_mut;

/// Seed of every bench; the same work in every run, so that figures can be compared.
pub const SEED: u64 = 0x5eed_0001;

/// True where a bench only has to prove that it runs.
pub fn is_smoke() -> bool {
    std::env::var_os("CENOTE_BENCH_SMOKE").is_some()
}

/// The large number when measuring, the small one in a smoke run.
pub fn scale(real: usize, smoke: usize) -> usize {
    if is_smoke() {
        smoke
    } else {
        real
    }
}

/// xorshift64*: small, seeded, good enough to draw sizes.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed | 1)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }

    /// Sizes spread evenly over the powers of two from `least` to `most`.
    pub fn size(&mut self, least: u64, most: u64) -> u64 {
        let steps = u64::from((most / least).ilog2());
        let low = least << self.below(steps);
        low + self.below(low)
    }
}

/// FNV-1a over what a bench did: it keeps the work alive, and shows when the work has changed.
pub struct Hash(u64);

impl Hash {
    pub fn new() -> Hash {
        Hash(0xcbf2_9ce4_8422_2325)
    }

    pub fn add(&mut self, value: u64) {
        for byte in value.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub fn show(&self, bench: &str) {
        println!("{bench}: result hash {:016x}, seed {SEED:x}", self.0);
    }
}

/// One way to get memory.
pub trait Allocator {
    fn name(&self) -> &'static str;
    fn allocate(&self, size_bytes: u64) -> *mut c_void;
    fn free(&self, block: *mut c_void);
}

/// The system's malloc: what host memory costs without order, statistics or checks.
pub struct Malloc;

impl Allocator for Malloc {
    fn name(&self) -> &'static str {
        "malloc"
    }

    #[inline]
    fn allocate(&self, size_bytes: u64) -> *mut c_void {
        // SAFETY: malloc accepts every size.
        std::hint::black_box(unsafe { libc::malloc(size_bytes as usize) })
    }

    #[inline]
    fn free(&self, block: *mut c_void) {
        // SAFETY: the block came from malloc and is freed once.
        unsafe { libc::free(block) }
    }
}

/// cenote through its C ABI, as every language calls it.
pub struct Cenote {
    name: &'static str,
    pool: u64,
    stream: *mut c_void,
}

impl Cenote {
    /// The default pool and the raw legacy default stream: everything is asked on each call.
    pub fn raw() -> Cenote {
        Cenote { name: "cenote_raw", pool: 0, stream: null_mut() }
    }

    /// The same pool by its name, and a stream that has promised to persist and to tell captures.
    pub fn registered() -> Cenote {
        let (mut pool, mut stream) = (0, null_mut());
        // SAFETY: both out-pointers are writable; the legacy default stream always lives.
        let (pool_status, stream_status) = unsafe {
            (
                cenote::ffi::pool::cenote_pool_default(0, &mut pool),
                cenote::ffi::stream::cenote_stream_register(0, null_mut(), 3, &mut stream),
            )
        };
        assert_eq!((pool_status, stream_status), (0, 0), "cenote does not start");
        Cenote { name: "cenote_registered", pool, stream }
    }
}

impl Allocator for Cenote {
    fn name(&self) -> &'static str {
        self.name
    }

    #[inline]
    fn allocate(&self, size_bytes: u64) -> *mut c_void {
        let mut block = null_mut();
        // SAFETY: the out-pointer is writable and the stream lives.
        let status = unsafe {
            cenote::ffi::block::cenote_alloc(self.pool, size_bytes, self.stream, &mut block)
        };
        assert_eq!(status, 0, "allocation of {size_bytes} bytes failed");
        block
    }

    #[inline]
    fn free(&self, block: *mut c_void) {
        // SAFETY: the stream lives; a wrong address would be a status.
        let status = unsafe { cenote::ffi::block::cenote_free(block, self.stream) };
        assert_eq!(status, 0, "free failed");
    }
}
