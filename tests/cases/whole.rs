//! A device without virtual memory management: whole driver allocations, the same promises.

use crate::api::*;

use crate::on_fake;

const MIB: u64 = 1 << 20;
/// CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED.
const VMM: i32 = 102;

on_fake!(
    /// Blocks of every size, reused, trimmed and given back, found by address, refused by a limit.
    memory_comes_as_whole_allocations,
    &[],
    |fake| {
        fake.set_attribute(VMM, 0);
        fake.cu.start(0);
        let stream = fake.cu.stream(true) as u64;
        let pool = pool_limited(256 * MIB);
        for round in 0..40 {
            let sizes = [300, 70_000, 3 * MIB, 40 * MIB, 900_000, 5000];
            let blocks: Vec<u64> =
                sizes.iter().map(|&size| alloc(pool, size, stream).unwrap()).collect();
            for (&block, &size) in blocks.iter().zip(&sizes) {
                assert_eq!(info(block + size - 1).unwrap().base, block);
                assert!(free(block + 512, stream).is_err());
            }
            assert_eq!(stats(pool).live_bytes, sizes.iter().sum::<u64>());
            for block in blocks {
                free(block, stream).unwrap();
                assert!(free(block, stream).is_err(), "a second free is refused");
            }
            if round % 4 == 3 {
                let result = trim(pool, 0).unwrap();
                assert_eq!((result.pending_bytes, result.kept_bytes), (0, 0), "round {round}");
                assert_eq!(stats(pool).held_bytes, 0, "round {round}");
            }
        }
        assert_eq!(fake.count("cuMemCreate"), 0);
        assert_eq!(fake.count("cuMemAlloc_v2"), fake.count("cuMemFree_v2"));
        assert!(alloc(pool, 300 * MIB, stream).is_err());
        let held = alloc(pool, 200 * MIB, stream).unwrap();
        assert!(alloc(pool, 100 * MIB, stream).is_err());
        free(held, stream).unwrap();
        // The idle allocation is too large to be shared out, so it goes back for the next one.
        free(alloc(pool, 220 * MIB, stream).unwrap(), stream).unwrap();
        destroy(pool).unwrap();
    }
);
