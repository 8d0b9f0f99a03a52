//! Driver calls that fail in the middle, and contexts that are lost.

use crate::api::*;
use crate::fake::{Fake, Kernel};
use crate::on_fake;
use cenote::base::Status;
use cenote::ffi::types::{CENOTE_STREAM_CAPTURE_TOLD, CENOTE_STREAM_PERSISTENT};

/// CUDA_ERROR_OUT_OF_MEMORY.
const OUT_OF_MEMORY: u32 = 2;
/// CUDA_ERROR_ILLEGAL_ADDRESS.
const ILLEGAL_ADDRESS: u64 = 700;

/// A pool that grows in chunks of one page.
fn pool_of_pages() -> u64 {
    let made = pool_of(|desc| {
        desc.device = -1;
        desc.slack_ppm = 1;
    });
    made.unwrap()
}

/// Growth by 16 chunks fails for good at the fifth call of a function, and leaves no trace.
fn fails_at_the_fifth(fake: &Fake, function: &str) {
    let pool = pool_of_pages();
    let (before, clean) = (fake.stats(), stats(pool));
    fake.fail_times(function, 5, 1_000_000, OUT_OF_MEMORY, false);
    assert_eq!(alloc(pool, 32 * MIB, 0), Err(Status::E_OUT_OF_MEMORY), "{function}");
    assert_eq!(last_error().wanted_bytes, 32 * MIB);
    assert_eq!(fake.used_bytes(0), 0, "{function}");
    assert_eq!((fake.stats().mappings, fake.stats().handles), (0, 0), "{function}");
    assert_eq!(fake.stats().reservations, before.reservations);
    let failed = stats(pool);
    assert_eq!((failed.held_bytes, failed.live_bytes, failed.used_bytes), (0, 0, 0));
    assert_eq!(failed.reserved_bytes, clean.reserved_bytes);
    fake.clear_faults();
    let block = alloc(pool, 32 * MIB, 0).expect("the addresses stay usable");
    assert_eq!(fake.launch(0, Kernel::instant().writing(block, 32 << 20, 1)), 0);
    free(block, 0).unwrap();
    trim(pool, 0).unwrap();
    assert_eq!((stats(pool).held_bytes, fake.used_bytes(0)), (0, 0));
    destroy(pool).unwrap();
}

on_fake!(
    /// A failure in the middle of a growth is an out-of-memory, and the chunks before it go back.
    c23_growth_that_fails_half_way_is_undone,
    &[],
    |fake| {
        fake.cu.start(0);
        for function in ["cuMemCreate", "cuMemMap", "cuMemSetAccess"] {
            fails_at_the_fifth(fake, function);
        }
    }
);

on_fake!(
    /// The same failure once: the ladder tries again and succeeds.
    c23_a_single_failure_is_retried,
    &[],
    |fake| {
        fake.cu.start(0);
        for function in ["cuMemCreate", "cuMemMap", "cuMemSetAccess"] {
            let pool = pool_of_pages();
            fake.fail(function, 5, OUT_OF_MEMORY);
            let block = alloc(pool, 32 * MIB, 0).unwrap();
            assert_eq!(stats(pool).retry_count, 1);
            assert_eq!(fake.used_bytes(0), stats(pool).held_bytes);
            free(block, 0).unwrap();
            destroy(pool).unwrap();
            assert_eq!(fake.used_bytes(0), 0);
        }
    }
);

on_fake!(
    /// After a kernel's illegal access every call says so, with the first error; nothing aborts.
    c29_a_lost_context_is_a_status_everywhere,
    &[],
    |fake| {
        fake.cu.start(0);
        let pool = pool_limited(0);
        assert_eq!(stats(pool).untrusted, 0);
        let promises = CENOTE_STREAM_PERSISTENT | CENOTE_STREAM_CAPTURE_TOLD;
        let told = register(0, fake.cu.stream(true) as u64, promises).unwrap();
        free(alloc(pool, 4096, told).unwrap(), told).unwrap();
        let x = alloc(pool, 4096, 0).unwrap();
        let (large, alone) = (alloc(pool, 64 * MIB, 0).unwrap(), alloc(pool, MIB, 0).unwrap());
        let nowhere = fake.cu.reserve(2 << 20);
        fake.launch(0, Kernel::instant().writing(nowhere, 64, 1));
        assert_ne!(fake.cu.cuCtxSynchronize(), 0, "the context is lost");
        assert_eq!(fake.violations(), 1, "the kernel's access, provoked here");
        fake.clear_violations();
        let lost = Err(Status::E_CONTEXT_LOST);
        // A free that asks the driver nothing cannot know yet; what asks it says so from then on.
        assert!(matches!(free(alone, 0), Ok(()) | Err(Status::E_CONTEXT_LOST)));
        assert_eq!(alloc(pool, 128 * MIB, 0).map(|_| ()), lost);
        let first = || (last_error().status, last_error().backend_code as u64);
        let wanted = (Status::E_CONTEXT_LOST.0, ILLEGAL_ADDRESS);
        assert_eq!(stats(pool).untrusted, 1, "the counters say that they are the last known");
        for round in 0..2 {
            assert_eq!(free(x, 0), lost, "round {round}");
            assert_eq!(first(), wanted);
            assert_eq!(free(large, 0), lost);
            assert_eq!(alloc(pool, 4096, 0).map(|_| ()), lost);
            assert_eq!(alloc(pool, 256 * MIB, 0).map(|_| ()), lost);
            // Nothing is asked for this stream, and a cached block would fit.
            assert_eq!(alloc(pool, 4096, told).map(|_| ()), lost);
            assert_eq!(free(x, told), lost);
            assert_eq!(first(), wanted);
            assert_eq!(trim(pool, 0).map(|_| ()), lost);
            assert_eq!(empty_cache(-1).map(|_| ()), lost);
            assert_eq!(poll(), lost);
            assert_eq!(record(x, 0), lost);
            assert_eq!(destroy(pool), lost);
            assert_eq!(first(), wanted);
        }
        assert_eq!(stats(pool).live_blocks, 2, "what was live is still counted as live");
        shutdown().expect("shutting down works without a device");
    }
);
