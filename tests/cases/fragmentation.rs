//! Memory that is there and cannot be used, and memory that does not come back.

use crate::api::*;
use crate::fake::{Fake, Kernel};
use crate::on_fake;

on_fake!(
    /// A cached block of 11.6 GB carved up by small requests serves the same request again.
    c01_a_big_block_fits_again_after_small_ones,
    &[("FAKECUDA_TOTAL_BYTES", "25769803776")],
    |fake| {
        const BIG: u64 = 11_643_387_904;
        fake.cu.start(0);
        let pool = pool_limited(18 * GIB);
        let big = alloc(pool, BIG, 0).unwrap();
        free(big, 0).unwrap();
        let sizes = [16_515_072, 11_400_192, 18_191_360].into_iter().cycle();
        let blocks: Vec<_> = sizes.take(600).map(|size| alloc(pool, size, 0).unwrap()).collect();
        blocks.iter().step_by(2).for_each(|&block| free(block, 0).unwrap());
        let big = alloc(pool, BIG, 0).expect("held memory is remapped");
        assert!(stats(pool).peak_held_bytes <= 18 * GIB);
        free(big, 0).unwrap();
        blocks.iter().skip(1).step_by(2).for_each(|&block| free(block, 0).unwrap());
        trim(pool, 0).unwrap();
        assert_eq!(stats(pool).held_bytes, 0);
    }
);

/// Allocate `count` blocks of 1 MiB on a stream, then free them there.
fn small_round(pool: u64, stream: u64, count: usize) {
    let blocks: Vec<_> = (0..count).map(|_| alloc(pool, MIB, stream).unwrap()).collect();
    blocks.into_iter().for_each(|block| free(block, stream).unwrap());
}

on_fake!(
    /// What two streams freed in small pieces serves one large request, after waiting for it.
    c02_the_pieces_of_two_streams_merge,
    &[],
    |fake| {
        fake.cu.start(0);
        let (s1, s2) = (fake.cu.stream(true), fake.cu.stream(true));
        let pool = pool_limited(GIB);
        small_round(pool, s1 as u64, 512);
        assert_eq!(fake.launch(s1, Kernel::until_release(1)), 0);
        small_round(pool, s2 as u64, 512);
        assert_eq!(fake.launch(s2, Kernel::for_us(20_000)), 0);
        let block = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(50));
                fake.release(1);
            });
            alloc(pool, 768 * MIB, s2 as u64).expect("pending pieces are waited for and merged")
        });
        assert!(stats(pool).peak_held_bytes <= GIB);
        free(block, s2 as u64).unwrap();
    }
);

on_fake!(
    /// Cached bytes do not count against a request: they go back and the request succeeds.
    c03_cached_bytes_leave_the_limit_to_live_ones,
    &[],
    |fake| {
        fake.cu.start(0);
        let pool = pool_limited(GIB);
        let first = alloc(pool, 512 * MIB, 0).unwrap();
        free(first, 0).unwrap();
        let second = alloc(pool, 768 * MIB, 0).expect("nothing is live");
        let s = stats(pool);
        assert!(s.live_bytes == 768 * MIB && s.held_bytes <= GIB, "{}", s.held_bytes);
        free(second, 0).unwrap();
        // The limit itself is a size that fits.
        let whole = alloc(pool, GIB, 0).expect("the whole limit");
        assert_eq!(alloc(pool, 1, 0), Err(cenote::base::Status::E_LIMIT));
        free(whole, 0).unwrap();
    }
);

on_fake!(
    /// A scratch buffer that grows a little each time does not leave its old sizes behind.
    c04_a_creeping_size_stays_within_its_peak,
    &[],
    |fake| {
        fake.cu.start(0);
        let stream = fake.cu.stream(true);
        let pool = pool_limited(0);
        for i in 1..100_000u64 {
            let block = alloc(pool, i * 512, stream as u64).unwrap();
            if i % 16 == 0 {
                let kernel = Kernel::instant().writing(block, 1, 1);
                assert_eq!(fake.launch(stream, kernel), 0);
            }
            free(block, stream as u64).unwrap();
        }
        let s = stats(pool);
        let bound = s.peak_live_bytes + s.peak_live_bytes / 4 + 64 * MIB;
        assert!(s.held_bytes <= bound && s.peak_held_bytes <= bound, "{}", s.peak_held_bytes);
    }
);

on_fake!(
    /// Blocks marked for a second stream: the pool waits for the oldest instead of growing.
    c06_recorded_uses_do_not_multiply_the_peak,
    &[("FAKECUDA_DETERMINISTIC", "1"), ("FAKECUDA_QUERY_ADVANCE_US", "50")],
    |fake| {
        fake.cu.start(0);
        let (s1, s2) = (fake.cu.stream(true), fake.cu.stream(true));
        let pool = pool_limited(4 * GIB);
        for _ in 0..10 {
            let block = alloc(pool, GIB, s1 as u64).expect("the oldest use is waited for");
            record(block, s2 as u64).unwrap();
            assert_eq!(fake.launch(s2, Kernel::for_us(50_000)), 0);
            free(block, s1 as u64).unwrap();
        }
        assert!(stats(pool).peak_held_bytes <= 4 * GIB);
        ended_use(fake, s1, s2);
    }
);

/// A use that was said to have ended holds the block no longer than its own work runs.
fn ended_use(fake: &Fake, s1: usize, s2: usize) {
    let pool = pool_limited(GIB);
    let block = alloc(pool, GIB, s1 as u64).unwrap();
    record(block, s2 as u64).unwrap();
    assert_eq!(fake.launch(s2, Kernel::until_release(1).writing(block, 64, 7)), 0);
    use_end(block, s2 as u64).unwrap();
    assert_eq!(fake.launch(s2, Kernel::until_release(2)), 0);
    free(block, s1 as u64).unwrap();
    let early = alloc_flags(pool, GIB, cenote::ffi::types::CENOTE_ALLOC_NOWAIT, s1 as u64);
    assert_eq!(early, Err(cenote::base::Status::E_WOULD_BLOCK), "its kernel still runs");
    fake.release(1);
    // The older frees of the other pool's test are in front on the second stream.
    fake.advance_us(1_000_000);
    let again = alloc_flags(pool, GIB, cenote::ffi::types::CENOTE_ALLOC_NOWAIT, s1 as u64);
    let again = again.expect("the use has ended, whatever the stream does now");
    fake.release(2);
    free(again, s1 as u64).unwrap();
}

on_fake!(
    /// An arena that grew to 22 GB goes home when it is asked to, and a device without a pool is no
    /// error.
    c07_trim_gives_a_grown_arena_back,
    &[("FAKECUDA_TOTAL_BYTES", "25769803776"), ("FAKECUDA_DEVICES", "2")],
    |fake| {
        fake.cu.start(0);
        let blocks: Vec<_> = (0..44).map(|_| alloc(DEFAULT, 504_000_000, 0).unwrap()).collect();
        blocks.into_iter().for_each(|block| free(block, 0).unwrap());
        for _ in 0..100 {
            free(alloc(DEFAULT, MIB, 0).unwrap(), 0).unwrap();
        }
        assert!(stats(DEFAULT).held_bytes > 20 * GIB, "the sequence shows nothing");
        let trimmed = empty_cache(0).unwrap();
        assert!(trimmed.returned_bytes > 20 * GIB);
        assert!(stats(DEFAULT).held_bytes <= 64 * MIB);
        assert!(fake.used_bytes(0) <= 64 * MIB);
        let other = empty_cache(1).expect("a device without a pool is no error");
        assert_eq!((other.returned_bytes, other.kept_bytes), (0, 0));
        assert_eq!(fake.contexts_created(1), 0);
    }
);
