//! Wrong arguments: each has its own status, changes nothing and leaves every output as it was.

use crate::api::*;
use cenote::base::Status;
use cenote::ffi::types::*;
use cenote::ffi::{block, device, pool, runtime, stream};
use std::ffi::c_void;
use std::ptr::{null, null_mut};

/// What a refused call must not change.
fn figures(pool: u64) -> [u64; 8] {
    let s = stats(pool);
    let calls = [s.alloc_count, s.free_count, s.live_blocks];
    let [a, b, c] = calls;
    [s.live_bytes, s.used_bytes, s.held_bytes, s.pending_bytes, s.reserved_bytes, a, b, c]
}

/// Runs refusals on a pool with some life in it; the pool is as it was afterwards.
fn on_a_pool(refusals: impl FnOnce(u64)) {
    on_host();
    let pool = pool_limited(0);
    let blocks = [512, 100_000, 3 * MIB].map(|size| alloc(pool, size, 0).unwrap());
    let before = figures(pool);
    refusals(pool);
    assert_eq!(figures(pool), before, "a refused call changed the pool");
    blocks.into_iter().for_each(|block| free(block, 0).unwrap());
    trim(pool, 0).unwrap();
    assert_eq!(stats(pool).held_bytes, 0);
    destroy(pool).unwrap();
}

fn refused<T: std::fmt::Debug + PartialEq>(answer: Answer<T>, wanted: Status) {
    assert_eq!(answer, Err(wanted));
}

#[test]
fn null_pointers() {
    on_a_pool(|pool| {
        let desc = cenote_alloc_desc { size_bytes: 512, ..sized() };
        let mut out = 0x1234 as *mut c_void;
        let mut id = 7u64;
        let mut segment: u32 = 1;
        let block = alloc(DEFAULT, 512, 0).unwrap() as *mut c_void;
        // SAFETY: NULL is what every call here must refuse; the other pointers are valid.
        let answers = unsafe {
            [
                block::cenote_alloc(pool, 512, null_mut(), null_mut()),
                block::cenote_alloc_aligned(pool, 512, 512, null_mut(), null_mut()),
                block::cenote_alloc_ex(pool, &desc, null_mut(), null_mut()),
                block::cenote_alloc_ex(pool, null(), null_mut(), &mut out),
                block::cenote_block_info(block, null_mut()),
                block::cenote_block_segments(block, null_mut(), null_mut()),
                block::cenote_block_segments(block, null_mut(), &mut segment),
                pool::cenote_pool_create(null(), &mut id),
                pool::cenote_pool_create(&sized(), null_mut()),
                pool::cenote_pool_default(0, null_mut()),
                pool::cenote_pool_stats(pool, null_mut()),
                stream::cenote_stream_register(0, null_mut(), 0, null_mut()),
                stream::cenote_capture_end(null_mut(), null_mut()),
                device::cenote_device_count(null_mut()),
                device::cenote_device_info(0, null_mut()),
                runtime::cenote_runtime_info(null_mut()),
                runtime::cenote_option_at(0, null_mut()),
                runtime::cenote_last_error(null_mut()),
                runtime::cenote_configure(null(), c"1".as_ptr()),
                runtime::cenote_configure(c"limit".as_ptr(), null()),
                runtime::cenote_backend_register(null()),
            ]
        };
        assert_eq!(answers, [Status::E_NULL.0; 21]);
        assert_eq!((out as u64, id, segment), (0x1234, 7, 1), "an output was touched");
        free(block as u64, 0).unwrap();
        free(0, 0).expect("NULL can be freed");
        assert_eq!(alloc(pool, 0, 0), Ok(0), "nothing is at NULL");
    });
}

#[test]
fn sizes_beyond_reason() {
    on_a_pool(|pool| {
        let too_large = [u64::MAX, u64::MAX - 511, 1 << 63, 1 << 48, (1 << 47) + 1];
        for size in too_large {
            refused(alloc(pool, size, 0), Status::E_SIZE);
            refused(alloc_aligned(pool, size, 2 << 20, 0), Status::E_SIZE);
            refused(alloc_flags(pool, size, CENOTE_ALLOC_NOWAIT, 0), Status::E_SIZE);
            refused(pool_of(|desc| desc.initial_bytes = size), Status::E_SIZE);
        }
        // More than the device has, however often it is asked for.
        for size in [1 << 47, (1 << 47) - 1, 1 << 46, 1 << 43].into_iter().cycle().take(200) {
            refused(alloc(pool, size, 0), Status::E_OUT_OF_MEMORY);
            refused(alloc_aligned(pool, size, 2 << 20, 0), Status::E_OUT_OF_MEMORY);
        }
        refused(pool_of(|desc| desc.initial_bytes = 1 << 45), Status::E_OUT_OF_MEMORY);
        assert_eq!(stats(pool).oom_count, 400);
        assert_eq!(last_error().wanted_bytes, 1 << 45);
        trim(pool, u64::MAX).expect("nothing has to go");
    });
}

#[test]
fn alignments() {
    on_a_pool(|pool| {
        for align in [3, 48, 511, 513, 4 << 20, 1 << 63, u64::MAX] {
            refused(alloc_aligned(pool, 512, align, 0), Status::E_ALIGNMENT);
            refused(alloc_with(pool, 512, align, 0, 0), Status::E_ALIGNMENT);
        }
    });
    let pool = pool_limited(0);
    for align in (0..=21).map(|shift| 1u64 << shift) {
        for size in [1, 70_000, 2 * MIB] {
            let block = alloc_aligned(pool, size, align, 0).unwrap();
            assert_eq!(block % align.max(512), 0);
            free(block, 0).unwrap();
        }
    }
    destroy(pool).unwrap();
}

#[test]
fn addresses_that_are_no_blocks() {
    on_a_pool(|pool| {
        let local = 0u8;
        let block = alloc(DEFAULT, 3 * MIB, 0).unwrap();
        let unmapped = info(block).unwrap();
        let unmapped = unmapped.reservation_base + unmapped.reservation_bytes - 512;
        let mine = std::ptr::from_ref(&local) as u64;
        for addr in [1, mine, unmapped, 1 << 47, u64::MAX, u64::MAX - 511] {
            refused(free(addr, 0), Status::E_FOREIGN_POINTER);
            refused(free_sized(addr, 1, 0), Status::E_FOREIGN_POINTER);
            refused(pin(addr, true), Status::E_FOREIGN_POINTER);
            refused(pin(addr, false), Status::E_FOREIGN_POINTER);
            refused(record(addr, 0), Status::E_FOREIGN_POINTER);
            refused(use_end(addr, 0), Status::E_FOREIGN_POINTER);
            refused(info(addr).map(|i| i.base), Status::E_FOREIGN_POINTER);
        }
        refused(record(block + 512, 0), Status::E_INTERIOR_POINTER);
        refused(pin(block + 1, true), Status::E_INTERIOR_POINTER);
        assert_eq!(info(block + 5).unwrap().offset_bytes, 5);
        free(block, 0).unwrap();
        refused(record(block, 0), Status::E_DOUBLE_FREE);
        refused(pin(block, true), Status::E_DOUBLE_FREE);
        refused(info(block).map(|i| i.base), Status::E_DOUBLE_FREE);
        let _ = pool;
    });
}

#[test]
fn pools_that_are_gone_or_never_were() {
    on_a_pool(|pool| {
        let gone = pool_limited(0);
        destroy(gone).unwrap();
        let again = pool_limited(0);
        assert_ne!(gone, again, "a handle is never issued twice");
        for handle in [gone, 0xdead_beef, u64::MAX, pool ^ (1 << 32), 1 << 63] {
            refused(alloc(handle, 512, 0), Status::E_HANDLE);
            refused(trim(handle, 0).map(|t| t.kept_bytes), Status::E_HANDLE);
            refused(destroy(handle), Status::E_HANDLE);
            assert_eq!(pool::cenote_pool_reset_peaks(handle), Status::E_HANDLE.0);
            let mut out: cenote_pool_stats_t = sized();
            // SAFETY: `out` has its size.
            let answer = unsafe { pool::cenote_pool_stats(handle, &mut out) };
            assert_eq!((answer, out.held_bytes), (Status::E_HANDLE.0, 0));
        }
        destroy(again).unwrap();
        refused(destroy(default_pool(0).unwrap()), Status::E_ARGUMENT);
        refused(destroy(pool), Status::E_POOL_BUSY);
    });
}

/// A struct in a buffer of its own: its bytes, the size it says, and whether the tail is zero.
struct Sample {
    words: Vec<u64>,
    given: u32,
}

impl Sample {
    /// `content` with another size, followed by zeros or not, and by a guard.
    fn new<T: Copy>(content: &T, given: usize, tail: u8) -> Sample {
        let mut words = vec![0xa5a5_a5a5_a5a5_a5a5; size_of::<T>() / 8 + 8];
        let to = words.as_mut_ptr().cast::<u8>();
        // SAFETY: the buffer is 56 bytes longer than the struct, `given` at most 32 bytes longer.
        unsafe {
            std::ptr::copy_nonoverlapping(std::ptr::from_ref(content).cast(), to, size_of::<T>());
            if given > size_of::<T>() {
                to.add(size_of::<T>()).write_bytes(tail, given - size_of::<T>());
            }
            to.cast::<u32>().write(given as u32);
        }
        Sample { words, given: given as u32 }
    }

    fn said(&self) -> u32 {
        self.words[0] as u32
    }
}

/// Sizes that are refused, and ones that are taken.
fn in_struct<T: Copy>(name: &str, content: T, call: impl Fn(*const T) -> i32) {
    let size = size_of::<T>();
    for (given, tail, wanted) in [
        (0, 0, Status::E_STRUCT_SIZE),
        (4, 0, Status::E_STRUCT_SIZE),
        (7, 0, Status::E_STRUCT_SIZE),
        (size, 0, Status::OK),
        (size + 32, 0, Status::OK),
        (size + 32, 1, Status::E_STRUCT_SIZE),
    ] {
        let sample = Sample::new(&content, given, tail);
        let answer = call(sample.words.as_ptr().cast());
        assert_eq!(Status(answer), wanted, "{name} of {given} bytes with tail {tail}");
    }
    let mut absurd = Sample::new(&content, size, 0);
    absurd.words[0] |= 0xffff_ffff;
    assert_eq!(Status(call(absurd.words.as_ptr().cast())), Status::E_STRUCT_SIZE, "{name}");
}

/// The same for structs that are written: as much as there is room for; the size says how much.
fn out_struct<T: Copy>(name: &str, call: impl Fn(*mut T) -> i32) {
    let size = size_of::<T>();
    for (given, wanted) in [
        (0, Status::E_STRUCT_SIZE),
        (4, Status::E_STRUCT_SIZE),
        (8, Status::OK),
        (size - 8, Status::OK),
        (size, Status::OK),
        (size + 32, Status::OK),
    ] {
        let guard: [u8; 1] = [0xa5];
        let mut sample = Sample::new(&sized::<T>(), given, 0xa5);
        let from = given.max(8).min(size) / 8;
        sample.words[from.max(1)..].fill(u64::from_ne_bytes([guard[0]; 8]));
        let answer = call(sample.words.as_mut_ptr().cast());
        assert_eq!(Status(answer), wanted, "{name} of {given} bytes");
        let beyond = &sample.words[given.max(8).div_ceil(8)..];
        let untouched = beyond.iter().all(|&word| word == 0xa5a5_a5a5_a5a5_a5a5);
        assert!(untouched, "{name} of {given} bytes: written beyond");
        let said = if wanted == Status::OK { given.min(size) as u32 } else { sample.given };
        assert_eq!(sample.said(), said, "{name}: the size that was written");
        if given > size {
            assert!(sample.words[size / 8..given / 8].iter().all(|&word| word == 0), "{name}");
        }
    }
}

#[test]
fn sizes_of_structs() {
    on_a_pool(|pool| {
        let desc = cenote_alloc_desc { size_bytes: 512, ..sized() };
        in_struct("cenote_alloc_desc", desc, |desc| {
            let mut out = null_mut();
            // SAFETY: the struct has the size it says.
            let answer = unsafe { block::cenote_alloc_ex(DEFAULT, desc, null_mut(), &mut out) };
            free(out as u64, 0).unwrap();
            answer
        });
        in_struct("cenote_pool_desc", sized::<cenote_pool_desc>(), |desc| {
            let mut made = 0;
            // SAFETY: as above.
            let answer = unsafe { pool::cenote_pool_create(desc, &mut made) };
            assert_eq!(answer == 0, destroy(made).is_ok());
            answer
        });
        let block = alloc(DEFAULT, 512, 0).unwrap() as *const c_void;
        // SAFETY: in all of these the struct has as much room as its size says.
        unsafe {
            out_struct("cenote_pool_stats_t", |out| pool::cenote_pool_stats(pool, out));
            out_struct("cenote_trim_result", |out| pool::cenote_pool_trim(DEFAULT, 0, out));
            out_struct("cenote_trim_result", |out| device::cenote_empty_cache(0, out));
            out_struct("cenote_block_info_t", |out| block::cenote_block_info(block, out));
            out_struct("cenote_device_info_t", |out| device::cenote_device_info(0, out));
            out_struct("cenote_runtime_info_t", |out| runtime::cenote_runtime_info(out));
            out_struct("cenote_option_t", |out| runtime::cenote_option_at(0, out));
            out_struct("cenote_error", |out| runtime::cenote_last_error(out));
        }
        free(block as u64, 0).unwrap();
    });
}

#[test]
fn a_short_struct_takes_defaults_for_what_it_lacks() {
    on_host();
    let mut desc = cenote_alloc_desc { size_bytes: 512, align_bytes: 3, ..sized() };
    desc.struct_size = 16;
    let mut out = null_mut();
    // SAFETY: 16 bytes are there; the alignment after them is not looked at.
    let answer = unsafe { block::cenote_alloc_ex(DEFAULT, &desc, null_mut(), &mut out) };
    assert_eq!(answer, 0);
    free(out as u64, 0).unwrap();
}

#[test]
fn flags_kinds_and_devices() {
    on_a_pool(|pool| {
        for flags in [8, 1 << 31, u32::MAX] {
            refused(alloc_flags(pool, 512, flags, 0), Status::E_FLAGS);
            refused(pool_of(|desc| desc.flags = flags), Status::E_FLAGS);
            refused(register(0, 0, flags), Status::E_FLAGS);
        }
        refused(pool_of(|desc| desc.kind = 99), Status::E_ARGUMENT);
        for device in [1, 99, -2, i32::MIN, i32::MAX] {
            refused(pool_of(|desc| desc.device = device), Status::E_DEVICE);
            refused(default_pool(device), Status::E_DEVICE);
            refused(empty_cache(device).map(|t| t.kept_bytes), Status::E_DEVICE);
            refused(device_limit(device, 1), Status::E_DEVICE);
            refused(register(device, 0, 0), Status::E_DEVICE);
            let mut out: cenote_device_info_t = sized();
            // SAFETY: `out` has its size.
            let answer = unsafe { device::cenote_device_info(device, &mut out) };
            assert_eq!((answer, out.total_bytes), (Status::E_DEVICE.0, 0));
        }
    });
}

#[test]
fn streams_that_are_retired_or_never_were() {
    on_a_pool(|pool| {
        let told = CENOTE_STREAM_PERSISTENT | CENOTE_STREAM_CAPTURE_TOLD;
        let live = register(0, 5, told).unwrap();
        let retired = register(0, 6, told).unwrap();
        retire(retired).unwrap();
        let block = alloc(DEFAULT, 512, live).unwrap();
        let mut graph = 7u64;
        let mut capture_end = |value: u64| {
            // SAFETY: the value is only looked up, and `graph` is writable.
            unsafe { stream::cenote_capture_end(value as *mut c_void, &mut graph) }
        };
        // SAFETY: the value is only looked up.
        let capture_begin =
            |value: u64| unsafe { stream::cenote_capture_begin(value as *mut c_void) };
        for value in [retired, live ^ (1 << 30), (0xCE << 56) | 0xff_ffff] {
            refused(alloc(pool, 512, value), Status::E_STREAM);
            refused(alloc(DEFAULT, 512, value), Status::E_STREAM);
            refused(free(block, value), Status::E_STREAM);
            refused(record(block, value), Status::E_STREAM);
            refused(use_end(block, value), Status::E_STREAM);
            refused(retire(value), Status::E_STREAM);
            assert_eq!(capture_begin(value), Status::E_STREAM.0);
            assert_eq!(capture_end(value), Status::E_STREAM.0);
        }
        refused(register(0, live, 0), Status::E_STREAM);
        refused(retire(5), Status::E_STREAM);
        assert_eq!(capture_end(live), Status::E_CAPTURE.0);
        assert_eq!(stream::cenote_graph_release(99), Status::E_GRAPH.0);
        assert_eq!(graph, 7, "an output was touched");
        free(block, live).expect("the block is still live");
        retire(live).unwrap();
    });
}

#[test]
fn errors_say_what_where_and_what_to_do() {
    on_host();
    refused(alloc_aligned(DEFAULT, 512, 3, 0), Status::E_ALIGNMENT);
    let error = last_error();
    let bytes: Vec<u8> = error.message.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
    let text = String::from_utf8(bytes).expect("the message is UTF-8");
    assert!(text.starts_with("CENOTE_E_ALIGNMENT: "), "{text}");
    assert!(!text.contains('\n') && text.contains("alignment"), "{text}");
    free(0, 0).unwrap();
    assert_eq!(last_error().status, error.status, "success does not erase it");
}
