//! Streams: what was freed on one, and what runs on another.

use crate::api::*;
use crate::fake::{Fake, Kernel};
use crate::on_fake;
use cenote::base::Status;
use cenote::ffi::types::{CENOTE_ALLOC_NOWAIT, CENOTE_STREAM_PERSISTENT};

on_fake!(
    /// Frees on a default stream that nobody ever waits for do not pile up.
    c16_frees_on_the_legacy_stream_come_back,
    &[],
    |fake| {
        fake.cu.start(0);
        let s1 = fake.cu.stream(true) as u64;
        let pool = pool_limited(0);
        for _ in 0..1000 {
            free(alloc(pool, 64 * MIB, s1).unwrap(), 0).unwrap();
        }
        assert!(stats(pool).peak_held_bytes <= 192 * MIB, "{}", stats(pool).peak_held_bytes);
    }
);

on_fake!(
    /// The same while the legacy stream is behind: pending frees are forced before out of memory.
    c16_pending_frees_are_forced_before_out_of_memory,
    &[("FAKECUDA_DETERMINISTIC", "1"), ("FAKECUDA_QUERY_ADVANCE_US", "50")],
    |fake| {
        fake.cu.start(0);
        let s1 = fake.cu.stream(true) as u64;
        let pool = pool_limited(GIB);
        for _ in 0..200 {
            let block = alloc(pool, 64 * MIB, s1).expect("pending frees are waited for");
            assert_eq!(fake.launch(0, Kernel::for_us(1000)), 0);
            free(block, 0).unwrap();
        }
        assert!(stats(pool).peak_held_bytes <= GIB);
    }
);

/// Destroy a stream and create new ones until one has its handle; the others are destroyed.
fn recycle(fake: &Fake, stream: usize) -> usize {
    assert_eq!(fake.cu.cuStreamDestroy_v2(stream), 0);
    let mut spare = Vec::new();
    let again = loop {
        let new = fake.cu.stream(true);
        if new == stream {
            break new;
        }
        spare.push(new);
        assert!(spare.len() < 64, "the driver does not give the handle again");
    };
    for stream in spare {
        assert_eq!(fake.cu.cuStreamDestroy_v2(stream), 0);
    }
    again
}

fn overlap(a: u64, b: u64, size: u64) -> bool {
    a < b + size && b < a + size
}

on_fake!(
    /// A destroyed stream's handle comes back for a new stream: its blocks do not, until they may.
    c17_a_recycled_handle_is_another_stream,
    &[],
    |fake| {
        const SIZE: u64 = 3 * MIB;
        fake.cu.start(0);
        let pool = pool_limited(0);
        let s1 = fake.cu.stream(true);
        let x = alloc(pool, SIZE, s1 as u64).unwrap();
        assert_eq!(fake.launch(s1, Kernel::instant().writing(x, SIZE as usize, 0x11)), 0);
        let kernel = Kernel::until_release(1).checking(x, SIZE as usize, 0x11);
        assert_eq!(fake.launch(s1, kernel), 0);
        free(x, s1 as u64).unwrap();
        let s2 = recycle(fake, s1);
        let blocks: Vec<_> = (0..8).map(|_| alloc(pool, SIZE, s2 as u64).unwrap()).collect();
        for &y in &blocks {
            assert!(!overlap(x, y, SIZE), "{y:#x} is handed out while {x:#x} is in use");
            assert_eq!(fake.launch(s2, Kernel::instant().writing(y, SIZE as usize, 0x22)), 0);
        }
        fake.release(1);
        assert_eq!(fake.cu.cuCtxSynchronize(), 0);
        blocks.into_iter().for_each(|y| free(y, s2 as u64).unwrap());
        trim(pool, 0).unwrap();
        assert_eq!(stats(pool).held_bytes, 0, "what the dead stream freed came back");
    }
);

on_fake!(
    /// Nothing is ever asked of a destroyed stream.
    c17_no_call_on_the_dead_handle,
    &[],
    |fake| {
        fake.cu.start(0);
        let pool = pool_limited(256 * MIB);
        let (dead, other) = (fake.cu.stream(true), fake.cu.stream(true) as u64);
        for size in [256, 5000, 100_000, MIB, 3 * MIB, 64 * MIB] {
            free(alloc(pool, size, dead as u64).unwrap(), dead as u64).unwrap();
        }
        assert_eq!(fake.launch(dead, Kernel::until_release(1)), 0);
        assert_eq!(fake.cu.cuStreamDestroy_v2(dead), 0);
        let before = fake.log(1).pop().map_or(0, |(_, entry)| entry.number);
        poll().unwrap();
        stats(pool);
        trim(pool, 0).unwrap();
        fake.release(1);
        let block = alloc(pool, 256 * MIB, other).expect("the dead stream's memory is collected");
        free(block, other).unwrap();
        for (name, entry) in fake.log(4096) {
            let touches = entry.number > before && entry.args.contains(&(dead as u64));
            assert!(!touches, "{name} on the dead handle");
        }
    }
);

on_fake!(
    /// No block of a stream that was destroyed while its kernel runs is handed out before it
    /// ends: of any size, to any stream, and not when memory runs out either.
    a_destroyed_stream_keeps_its_blocks_until_its_kernel_ends,
    &[],
    |fake| {
        const SIZES: [u64; 6] = [256, 4096, 60_000, 500_000, MIB, 5 * MIB];
        fake.cu.start(0);
        let pool = pool_limited(64 * MIB);
        let s1 = fake.cu.stream(true);
        let mut held = Vec::new();
        for size in SIZES {
            let block = alloc(pool, size, s1 as u64).unwrap();
            assert_eq!(fake.launch(s1, Kernel::instant().writing(block, size as usize, 0x5a)), 0);
            held.push((block, size));
        }
        for &(block, size) in &held {
            let kernel = Kernel::until_release(1).checking(block, size as usize, 0x5a);
            assert_eq!(fake.launch(s1, kernel), 0);
        }
        held.iter().for_each(|&(block, _)| free(block, s1 as u64).unwrap());
        let s2 = recycle(fake, s1);
        let mut blocks = Vec::new();
        for (i, size) in SIZES.into_iter().cycle().enumerate() {
            let stream = [s2, 0, 2][i % 3];
            match alloc_flags(pool, size, CENOTE_ALLOC_NOWAIT, stream as u64) {
                Ok(block) => blocks.push((block, size, stream)),
                Err(status) => {
                    assert_eq!(status, Status::E_WOULD_BLOCK);
                    break;
                }
            }
        }
        assert!(blocks.len() > 30, "the limit allows more than {}", blocks.len());
        for &(block, size, stream) in &blocks {
            for &(old, old_size) in &held {
                assert!(block + size <= old || old + old_size <= block, "{old:#x} handed out");
            }
            assert_eq!(fake.launch(stream, Kernel::instant().writing(block, size as usize, 1)), 0);
        }
        waits_for_the_kernel(fake, pool, s2);
        blocks.iter().for_each(|&(block, _, stream)| free(block, stream as u64).unwrap());
    }
);

/// A request that only the dead stream's memory can serve returns after the kernel's end.
fn waits_for_the_kernel(fake: &Fake, pool: u64, stream: usize) {
    let released = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            released.store(true, std::sync::atomic::Ordering::SeqCst);
            fake.release(1);
        });
        let block = alloc(pool, 5 * MIB, stream as u64).expect("the kernel ends");
        assert!(released.load(std::sync::atomic::Ordering::SeqCst), "handed out too early");
        free(block, stream as u64).unwrap();
    });
}

on_fake!(
    /// A block that is valid everywhere, freed on another stream than it was allocated on.
    c18_a_block_freed_on_a_non_blocking_stream,
    &[],
    |fake| {
        fake.cu.start(0);
        let s1 = fake.cu.stream(true);
        for size in [256, 2 * MIB] {
            let pool = pool_limited(0);
            let x = alloc(pool, size, 0).unwrap();
            // Never used before, so that no stream has to wait for another.
            let kernel = Kernel::until_release(size).writing(x, size as usize, 3);
            assert_eq!(fake.launch(s1, kernel), 0);
            free(x, s1 as u64).unwrap();
            let y = alloc(pool, size, 0).unwrap();
            assert!(!overlap(x, y, size), "its last use on the other stream still runs");
            let kernel = Kernel::instant().writing(y, size as usize, 4);
            assert_eq!(fake.launch(0, kernel), 0);
            fake.release(size);
            assert_eq!(fake.cu.cuCtxSynchronize(), 0);
            free(y, 0).unwrap();
        }
    }
);

on_fake!(
    /// A copy to the host on a side stream, recorded, is intact whatever the first stream does.
    c20_a_recorded_copy_is_intact,
    &[],
    |fake| {
        fake.cu.start(0);
        let (s1, s2) = (fake.cu.stream(true), fake.cu.stream(true));
        for size in [4096usize, 700_000, 5 << 20] {
            let pool = pool_limited(0);
            let x = alloc(pool, size as u64, s1 as u64).unwrap();
            assert_eq!(fake.cu.cuMemsetD8Async(x, 0x42, size, s1), 0);
            assert_eq!(fake.cu.cuStreamSynchronize(s1), 0);
            let held = fake.hold(s2);
            // A copy to memory that is not pinned would be waited for.
            let mut host = 0;
            assert_eq!(fake.cu.cuMemHostAlloc(&mut host, size, 0), 0);
            let to = host as *mut std::ffi::c_void;
            assert_eq!(fake.cu.cuMemcpyDtoHAsync_v2(to, x, size, s2), 0);
            record(x, s2 as u64).unwrap();
            free(x, s1 as u64).unwrap();
            let y = alloc(pool, size as u64, s1 as u64).unwrap();
            assert_eq!(fake.cu.cuMemsetD8Async(y, 0xff, size, s1), 0);
            assert_eq!(fake.cu.cuStreamSynchronize(s1), 0);
            fake.unhold(held);
            assert_eq!(fake.cu.cuStreamSynchronize(s2), 0);
            // SAFETY: the driver gave `size` bytes here, and the copy wrote all of them.
            let copied = unsafe { std::slice::from_raw_parts(to.cast::<u8>(), size) };
            assert!(copied.iter().all(|&byte| byte == 0x42), "the copy of {size} bytes");
            assert_eq!(fake.cu.cuMemFreeHost(host), 0);
            free(y, s1 as u64).unwrap();
        }
    }
);

on_fake!(
    /// A thousand streams that live for one round leave no memory and no trail behind.
    short_lived_streams_do_not_pile_up_memory,
    &[],
    |fake| {
        fake.cu.start(0);
        let pool = pool_limited(16 * GIB);
        for round in 0..1000 {
            let stream = fake.cu.stream(true);
            let value = match round % 2 {
                0 => stream as u64,
                _ => register(0, stream as u64, CENOTE_STREAM_PERSISTENT).unwrap(),
            };
            for size in [300, 5000, 60_000, 200_000, 3 * MIB] {
                free(alloc(pool, size, value).unwrap(), value).unwrap();
            }
            if round % 2 == 1 {
                retire(value).unwrap();
            }
            assert_eq!(fake.cu.cuStreamDestroy_v2(stream), 0);
        }
        let held = stats(pool).peak_held_bytes;
        assert!(held <= 128 * MIB, "{held} bytes held");
    }
);

on_fake!(
    /// A recorded use outlives every other sign of its stream: streams that come meanwhile do not
    /// take its place.
    a_recorded_use_is_kept_while_other_streams_come_and_go,
    &[],
    |fake| {
        fake.cu.start(0);
        let pool = pool_limited(4 * GIB);
        let (s1, s2) = (fake.cu.stream(true), fake.cu.stream(true));
        let x = alloc(pool, 8 * MIB, s1 as u64).unwrap();
        record(x, s2 as u64).unwrap();
        fake.launch(s2, Kernel::until_release(1).writing(x, 4096, 7));
        for _ in 0..100 {
            let other = fake.cu.stream(true);
            free(alloc(pool, 3 * MIB, other as u64).unwrap(), other as u64).unwrap();
        }
        free(x, s1 as u64).unwrap();
        let y = alloc(pool, 8 * MIB, s1 as u64).unwrap();
        assert!(y + 8 * MIB <= x || x + 8 * MIB <= y, "used on a stream that still runs");
        fake.release(1);
        free(y, s1 as u64).unwrap();
    }
);
