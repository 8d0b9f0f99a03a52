//! Who owns an address: frees that are wrong, and frees from elsewhere.

use crate::api::*;
use crate::on_fake;
use cenote::base::Status;

/// Every wrong free has its own name and changes nothing.
fn wrong_frees(pool: u64) {
    let x = alloc(pool, 512, 0).unwrap();
    free(x, 0).unwrap();
    assert_eq!(free(x, 0), Err(Status::E_DOUBLE_FREE));
    let (y, z) = (alloc(pool, 512, 0).unwrap(), alloc(pool, 512, 0).unwrap());
    assert_ne!(y, z, "a double free made one block two");
    let w = alloc(pool, 4096, 0).unwrap();
    let before = stats(pool);
    assert_eq!(free_sized(w, 8192, 0), Err(Status::E_SIZE_MISMATCH));
    assert_eq!((last_error().wanted_bytes, last_error().available_bytes), (8192, 4096));
    let local = 0u64;
    assert_eq!(free(std::ptr::from_ref(&local) as u64, 0), Err(Status::E_FOREIGN_POINTER));
    for inside in [y + 16, w + 16, w + 512] {
        assert_eq!(free(inside, 0), Err(Status::E_INTERIOR_POINTER), "{:#x}", inside - w);
    }
    let after = stats(pool);
    assert_eq!((after.live_blocks, after.live_bytes), (3, 512 + 512 + 4096));
    assert_eq!((after.free_count, after.used_bytes), (before.free_count, before.used_bytes));
    for block in [y, z, w] {
        free(block, 0).expect("the block is still live");
        assert_eq!(free(block, 0), Err(Status::E_DOUBLE_FREE));
    }
    assert_eq!(stats(pool).live_bytes, 0);
}

/// The same for blocks that are ranges of their own.
fn wrong_frees_of_large_blocks(pool: u64) {
    for size in [100_000, MIB, 5 * MIB + 1] {
        let x = alloc(pool, size, 0).unwrap();
        assert_eq!(free(x + 512, 0), Err(Status::E_INTERIOR_POINTER));
        assert_eq!(free(x + size - 1, 0), Err(Status::E_INTERIOR_POINTER));
        assert_eq!(free_sized(x, size + 1, 0), Err(Status::E_SIZE_MISMATCH));
        free_sized(x, size, 0).unwrap();
        assert_eq!(free(x, 0), Err(Status::E_DOUBLE_FREE));
    }
}

#[test]
fn c30_wrong_frees_on_the_host() {
    on_host();
    let pool = pool_limited(0);
    wrong_frees(pool);
    wrong_frees_of_large_blocks(pool);
    destroy(pool).unwrap();
}

on_fake!(
    /// Double free, foreign, interior pointer and wrong size: each named, nothing changed.
    c30_wrong_frees_are_named,
    &[],
    |fake| {
        fake.cu.start(0);
        let pool = pool_limited(0);
        wrong_frees(pool);
        wrong_frees_of_large_blocks(pool);
        destroy(pool).unwrap();
    }
);

on_fake!(
    /// A thread without a context frees a block of device 1: no context appears on device 0.
    c32_a_free_creates_no_context,
    &[("FAKECUDA_DEVICES", "2")],
    |fake| {
        let current = || {
            let mut context = 0;
            assert_eq!(fake.cu.cuCtxGetCurrent(&mut context), 0);
            context
        };
        std::thread::scope(|scope| {
            let on_one = scope.spawn(|| {
                fake.cu.start(1);
                let x = alloc(DEFAULT, 64 * MIB, 0).unwrap();
                let y = alloc(DEFAULT, 1000, 0).unwrap();
                assert_eq!(info(x).unwrap().device, 1);
                (x, y)
            });
            let (x, y) = on_one.join().unwrap();
            let fresh = scope.spawn(move || {
                assert_eq!(current(), 0);
                free(x, 0).unwrap();
                free_sized(y, 1000, 0).unwrap();
                assert_eq!((current(), fake.context_depth()), (0, 0));
            });
            fresh.join().unwrap();
        });
        assert_eq!(fake.contexts_created(0), 0);
        assert_eq!(fake.used_bytes(0), 0);
        let pool = default_pool(1).unwrap();
        assert_eq!(stats(pool).live_blocks, 0);
        empty_cache(1).unwrap();
        assert_eq!((fake.used_bytes(1), fake.contexts_created(0)), (0, 0));
    }
);
