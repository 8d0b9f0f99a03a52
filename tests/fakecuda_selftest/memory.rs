//! Addresses, physical memory, mappings, access and plain allocations.

use crate::code;
use crate::driver::{Desc, Location, Prop, PAGE};
use crate::fake::{in_child, Fake, Kernel};

const P: u64 = PAGE as u64;

fn byte(addr: u64) -> *mut u8 {
    addr as *mut u8
}

fn poke(addr: u64, value: u8) {
    // SAFETY: the tests pass mapped addresses.
    unsafe { byte(addr).write_volatile(value) }
}

fn peek(addr: u64) -> u8 {
    // SAFETY: the tests pass mapped addresses.
    unsafe { byte(addr).read_volatile() }
}

/// Whether touching an address kills a process.
fn faults(addr: u64) -> bool {
    // SAFETY: the forked child only reads one byte and ends at once.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            libc::signal(libc::SIGBUS, libc::SIG_DFL);
            byte(addr).read_volatile();
            libc::_exit(0);
        }
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        libc::WIFSIGNALED(status)
    }
}

#[test]
fn reservations_follow_the_rules() {
    in_child("memory::reservations_follow_the_rules", &[], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let mut addr = 0;
        assert_eq!(cu.cuMemAddressReserve(&mut addr, 0, 0, 0, 0), code::INVALID_VALUE);
        assert_eq!(cu.cuMemAddressReserve(&mut addr, 100, 0, 0, 0), code::INVALID_VALUE);
        assert_eq!(cu.cuMemAddressReserve(&mut addr, PAGE, 3 * PAGE, 0, 0), code::INVALID_VALUE);
        assert_eq!(cu.cuMemAddressReserve(&mut addr, PAGE, 0, 0, 1), code::INVALID_VALUE);
        assert_eq!(cu.cuMemAddressReserve(&mut addr, PAGE, 0, 17, 0), code::INVALID_VALUE);
        assert_eq!(cu.cuMemAddressReserve(&mut addr, 1 << 48, 0, 0, 0), code::OUT_OF_MEMORY);
        assert_eq!(addr, 0, "a refusal leaves the result alone");
        assert_eq!(cu.cuMemAddressReserve(&mut addr, 4 * PAGE, 1 << 30, 0, 0), code::OK);
        assert_eq!(addr % (1 << 30), 0);
        assert!(faults(addr));
        assert_eq!(cu.cuMemAddressFree(addr, PAGE), code::INVALID_VALUE, "a part");
        assert_eq!(cu.cuMemAddressFree(addr + P, 3 * PAGE), code::INVALID_VALUE);
        let handle = cu.create(PAGE);
        cu.map(addr + P, PAGE, handle);
        assert_eq!(cu.cuMemAddressFree(addr, 4 * PAGE), code::INVALID_VALUE, "mapped");
        assert_eq!(cu.cuMemUnmap(addr + P, PAGE), code::OK);
        assert_eq!(cu.cuMemAddressFree(addr, 4 * PAGE), code::OK);
        assert_eq!(cu.cuMemAddressFree(addr, 4 * PAGE), code::INVALID_VALUE, "twice");
        fake.set("reserve_limit_bytes", 8 << 30);
        assert_eq!(cu.cuMemAddressReserve(&mut addr, 16 << 30, 0, 0, 0), code::OUT_OF_MEMORY);
        assert_eq!(cu.cuMemAddressReserve(&mut addr, 8 << 30, 0, 0, 0), code::OK);
    });
}

#[test]
fn physical_memory_follows_the_rules() {
    in_child("memory::physical_memory_follows_the_rules", &[], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let good = Prop::device(0);
        let mut size = 0;
        assert_eq!(cu.cuMemGetAllocationGranularity(&mut size, &good, 0), code::OK);
        assert_eq!(size, PAGE);
        let mut handle = 0;
        let mut refused = |size: usize, prop: Prop, flags: u64| {
            let got = cu.cuMemCreate(&mut handle, size, &prop, flags);
            assert_eq!(handle, 0);
            got
        };
        assert_eq!(refused(0, good, 0), code::INVALID_VALUE);
        assert_eq!(refused(PAGE + 4096, good, 0), code::INVALID_VALUE);
        assert_eq!(refused(PAGE, good, 1), code::INVALID_VALUE);
        assert_eq!(refused(PAGE, Prop { kind: 0, ..good }, 0), code::INVALID_VALUE);
        assert_eq!(refused(PAGE, Prop::device(1), 0), code::INVALID_DEVICE);
        assert_eq!(refused(PAGE, Prop { handle_types: 8, ..good }, 0), code::NOT_PERMITTED);
        assert_eq!(refused(PAGE, Prop { handle_types: 2, ..good }, 0), code::NOT_SUPPORTED);
        assert_eq!(refused(PAGE, Prop { reserved: [1; 4], ..good }, 0), code::INVALID_VALUE);
        fake.set_attribute(110, 0);
        assert_eq!(refused(PAGE, Prop { rdma: 1, ..good }, 0), code::NOT_SUPPORTED);
        fake.set_attribute(102, 0);
        assert_eq!(refused(PAGE, good, 0), code::NOT_SUPPORTED);
        fake.set_attribute(102, 1);
        let handle = cu.create(PAGE);
        let mut prop = Prop::default();
        assert_eq!(cu.cuMemGetAllocationPropertiesFromHandle(&mut prop, handle), code::OK);
        assert_eq!(prop, good);
        assert_eq!(cu.cuMemRelease(handle), code::OK);
        assert_eq!(fake.violations(), 0);
        assert_eq!(cu.cuMemRelease(handle), code::INVALID_VALUE, "twice");
        assert_eq!(cu.cuMemRelease(12345), code::INVALID_VALUE);
        assert_eq!(fake.violations(), 1, "use after release is noted");
    });
}

#[test]
fn memory_runs_out_and_comes_back() {
    let env = [("FAKECUDA_TOTAL_BYTES", "16777216")];
    in_child("memory::memory_runs_out_and_comes_back", &env, |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let (mut free, mut total) = (0, 0);
        let handles: Vec<u64> = (0..8).map(|_| cu.create(PAGE)).collect();
        let mut extra = 0;
        let create = |extra: &mut u64| cu.cuMemCreate(extra, PAGE, &Prop::device(0), 0);
        assert_eq!(create(&mut extra), code::OUT_OF_MEMORY);
        assert_eq!(cu.cuMemGetInfo_v2(&mut free, &mut total), code::OK);
        assert_eq!((free, total), (0, 8 * PAGE));
        let addr = cu.reserve(PAGE);
        cu.map(addr, PAGE, handles[0]);
        assert_eq!(cu.cuMemRelease(handles[0]), code::OK);
        assert_eq!(create(&mut extra), code::OUT_OF_MEMORY, "the mapping keeps the memory");
        assert_eq!(cu.cuMemUnmap(addr, PAGE), code::OK);
        assert_eq!(fake.used_bytes(0), 7 * P);
        fake.set_other_bytes(0, P);
        assert_eq!(create(&mut extra), code::OUT_OF_MEMORY, "another process has it");
        fake.set_other_bytes(0, 0);
        assert_eq!(create(&mut extra), code::OK);
    });
}

#[test]
fn mappings_follow_the_rules() {
    in_child("memory::mappings_follow_the_rules", &[], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let addr = cu.reserve(8 * PAGE);
        let handle = cu.create(2 * PAGE);
        let map = |at: u64, size: usize, offset: usize| cu.cuMemMap(at, size, offset, handle, 0);
        assert_eq!(map(addr, PAGE, 0), code::NOT_SUPPORTED, "a prefix");
        assert_eq!(map(addr, PAGE, PAGE), code::INVALID_VALUE, "an offset");
        assert_eq!(map(addr, 4 * PAGE, 0), code::NOT_SUPPORTED, "too much");
        assert_eq!(map(addr + 4096, 2 * PAGE, 0), code::INVALID_VALUE, "not aligned");
        assert_eq!(map(addr + 7 * P, 2 * PAGE, 0), code::INVALID_VALUE, "stricter: beyond the end");
        assert_eq!(map(0x10_0000_0000, 2 * PAGE, 0), code::INVALID_VALUE, "not reserved");
        assert_eq!(cu.cuMemMap(addr, 2 * PAGE, 0, handle, 1), code::INVALID_VALUE, "flags");
        assert_eq!(cu.cuMemMap(addr, 2 * PAGE, 0, 77, 0), code::INVALID_VALUE, "no handle");
        assert_eq!(map(addr, 2 * PAGE, 0), code::OK);
        assert!(faults(addr), "no access yet");
        let other = cu.create(2 * PAGE);
        for at in [addr, addr + P] {
            assert_eq!(cu.cuMemMap(at, 2 * PAGE, 0, other, 0), code::INVALID_VALUE, "occupied");
        }
        assert_eq!(cu.cuMemMap(addr + 4 * P, 2 * PAGE, 0, other, 0), code::OK);
        assert_eq!(cu.cuMemUnmap(addr, PAGE), code::INVALID_VALUE, "a part of a mapping");
        assert_eq!(cu.cuMemUnmap(addr + P, PAGE), code::INVALID_VALUE);
        assert_eq!(cu.cuMemUnmap(addr, 6 * PAGE), code::INVALID_VALUE, "stricter: a gap");
        assert_eq!(cu.cuMemUnmap(addr + 2 * P, 2 * PAGE), code::INVALID_VALUE, "stricter: nothing");
        assert_eq!(cu.cuMemUnmap(addr, 0), code::INVALID_VALUE);
        let third = cu.create(2 * PAGE);
        assert_eq!(cu.cuMemMap(addr + 2 * P, 2 * PAGE, 0, third, 0), code::OK);
        assert_eq!(cu.cuMemUnmap(addr, 6 * PAGE), code::OK, "several whole mappings");
        assert!(faults(addr));
    });
}

#[test]
fn access_follows_the_rules() {
    in_child("memory::access_follows_the_rules", &[("FAKECUDA_DEVICES", "2")], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let addr = cu.reserve(8 * PAGE);
        let handles = [cu.create(2 * PAGE), cu.create(2 * PAGE)];
        assert_eq!(cu.cuMemMap(addr, 2 * PAGE, 0, handles[0], 0), code::OK);
        let set = |at: u64, size: usize, desc: Desc| cu.cuMemSetAccess(at, size, &desc, 1);
        let (rw, bad) = (Desc::device(0, 3), code::INVALID_VALUE);
        assert_eq!(set(addr, 4 * PAGE, rw), bad, "not wholly mapped");
        assert_eq!(set(addr, PAGE, rw), bad, "part of a mapping");
        assert_eq!(set(addr, 2 * PAGE, Desc::device(0, 2)), bad, "unknown flags");
        assert_eq!(set(addr, 2 * PAGE, Desc::device(2, 3)), code::INVALID_DEVICE);
        let host = Desc { location: Location { kind: 3, id: 0 }, flags: 3 };
        assert_eq!(set(addr, 2 * PAGE, host), bad, "the host cannot reach device memory");
        assert_eq!(cu.cuMemSetAccess(addr, 2 * PAGE, &rw, 0), bad, "no descriptor");
        assert_eq!(cu.cuMemMap(addr + 2 * P, 2 * PAGE, 0, handles[1], 0), code::OK);
        assert_eq!(set(addr, 4 * PAGE, rw), code::OK, "one call over two mappings");
        let access = |at: u64, device: i32| {
            let mut flags = 9;
            let got = cu.cuMemGetAccess(&mut flags, &Location { kind: 1, id: device }, at);
            (got, flags)
        };
        assert_eq!(access(addr + P, 0), (code::OK, 3));
        assert_eq!(access(addr, 1), (code::OK, 0));
        assert_eq!(set(addr, 2 * PAGE, Desc::device(1, 1)), code::OK);
        assert_eq!(access(addr, 1), (code::OK, 1));
        assert_eq!(access(addr, 0), (code::OK, 3), "the other device keeps its access");
        assert_eq!(access(addr + 4 * P, 0).0, code::INVALID_VALUE);
        assert_eq!(fake.launch(0, Kernel::instant().writing(addr, PAGE, 1)), code::OK);
        assert_eq!(set(addr, 2 * PAGE, Desc::device(0, 1)), code::OK);
        let write = Kernel::instant().writing(addr, PAGE, 1);
        assert_eq!(fake.launch(0, write), code::ILLEGAL_ADDRESS, "written without the right");
    });
}

#[test]
fn pages_alias_and_keep_their_bytes() {
    in_child("memory::pages_alias_and_keep_their_bytes", &[], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let (first, second) = (cu.reserve(2 * PAGE), cu.reserve(PAGE));
        let handle = cu.create(PAGE);
        cu.map(first, PAGE, handle);
        cu.map(second, PAGE, handle);
        poke(first + 5, 42);
        assert_eq!(peek(second + 5), 42, "two addresses, one page");
        assert_eq!(cu.cuMemUnmap(first, PAGE), code::OK);
        assert!(faults(first));
        assert!(!faults(second));
        cu.map(first + P, PAGE, handle);
        assert_eq!(peek(first + P + 5), 42, "the bytes moved with the page");
        let mut again = 0;
        assert_eq!(cu.cuMemRetainAllocationHandle(&mut again, second + 7), code::OK);
        for handle in [handle, again] {
            assert_eq!(cu.cuMemRelease(handle), code::OK);
        }
        assert_eq!(fake.stats().handles, 0);
        assert_eq!(cu.cuMemRetainAllocationHandle(&mut again, second), code::OK, "still mapped");
        assert_eq!(cu.cuMemRelease(again), code::OK);
        assert_eq!(cu.cuMemUnmap(second, PAGE), code::OK);
        assert_eq!(cu.cuMemUnmap(first + P, PAGE), code::OK);
        assert_eq!((fake.stats().physical, fake.used_bytes(0)), (0, 0));
        assert_eq!(cu.cuMemRetainAllocationHandle(&mut again, second), code::INVALID_VALUE);
        assert_eq!(fake.violations(), 0);
    });
}

#[test]
fn device_memory_can_be_hidden_from_the_host() {
    let env = [("FAKECUDA_HOST_ACCESS", "0")];
    in_child("memory::device_memory_can_be_hidden_from_the_host", &env, |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let addr = cu.mapped(2);
        assert!(faults(addr));
        assert_eq!(cu.cuMemsetD8Async(addr + P - 4, 7, 8, 0), code::OK);
        let mut bytes = [0u8; 8];
        assert_eq!(cu.cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), addr + P - 4, 8), code::OK);
        assert_eq!(bytes, [7; 8]);
    });
}

#[test]
fn exported_memory_is_the_same_memory() {
    in_child("memory::exported_memory_is_the_same_memory", &[], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let (addr, other) = (cu.reserve(PAGE), cu.reserve(PAGE));
        let (_first, handle) = (cu.create(PAGE), cu.create(PAGE));
        cu.map(addr, PAGE, handle);
        poke(addr, 9);
        let mut fd = -1;
        assert_eq!(cu.cuMemExportToShareableHandle(&mut fd, handle, 8, 0), code::INVALID_VALUE);
        assert_eq!(cu.cuMemExportToShareableHandle(&mut fd, handle, 1, 0), code::OK);
        let mut imported = 0;
        assert_eq!(cu.cuMemImportFromShareableHandle(&mut imported, 0, 1), code::INVALID_VALUE);
        assert_eq!(cu.cuMemImportFromShareableHandle(&mut imported, fd as usize, 1), code::OK);
        cu.map(other, PAGE, imported);
        assert_eq!(peek(other), 9);
        let private = Prop { handle_types: 0, ..Prop::device(0) };
        let mut inner = 0;
        assert_eq!(cu.cuMemCreate(&mut inner, PAGE, &private, 0), code::OK);
        let refused = cu.cuMemExportToShareableHandle(&mut fd, inner, 1, 0);
        assert_eq!(refused, code::INVALID_VALUE, "not asked for when it was created");
        assert_eq!(fake.used_bytes(0), 3 * P);
    });
}

#[test]
fn plain_memory_follows_the_rules() {
    in_child("memory::plain_memory_follows_the_rules", &[], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let (mut addr, mut host) = (0, 0);
        assert_eq!(cu.cuMemAlloc_v2(&mut addr, 0), code::INVALID_VALUE);
        assert_eq!(cu.cuMemAlloc_v2(&mut addr, 17 << 30), code::OUT_OF_MEMORY);
        assert_eq!(cu.cuMemAlloc_v2(&mut addr, 1000), code::OK);
        assert_eq!(fake.used_bytes(0), 1000);
        assert_eq!(cu.cuMemFree_v2(addr + 1), code::INVALID_VALUE);
        assert_eq!(cu.cuMemFreeHost(addr), code::INVALID_VALUE);
        assert_eq!(cu.cuMemFree_v2(cu.mapped(1)), code::INVALID_VALUE, "virtual memory");
        assert_eq!(cu.cuMemHostAlloc(&mut host, 4096, 1), code::OK);
        assert_eq!(cu.cuMemFree_v2(host), code::INVALID_VALUE);
        let attribute = |at: u64, attribute: u32| {
            let mut value = 0u64;
            let data = (&raw mut value).cast();
            (cu.cuPointerGetAttribute(data, attribute, at), value)
        };
        assert_eq!(attribute(addr + 9, 11), (code::OK, addr));
        assert_eq!(attribute(addr, 2), (code::OK, 2));
        assert_eq!(attribute(host, 2), (code::OK, 1));
        assert_eq!(attribute(&raw const host as u64, 2).0, code::INVALID_VALUE);
        assert_eq!((cu.cuMemFree_v2(addr), cu.cuMemFreeHost(host)), (code::OK, code::OK));
        assert_eq!(cu.cuMemFree_v2(addr), code::INVALID_VALUE, "twice");
        assert_eq!(cu.cuMemFree_v2(0), code::OK);
        let own = vec![0u8; 8192];
        let at = own.as_ptr() as u64;
        assert_eq!(cu.cuMemHostUnregister(at), code::NOT_REGISTERED);
        assert_eq!(cu.cuMemHostRegister_v2(at, 8192, 0), code::OK);
        assert_eq!(cu.cuMemHostRegister_v2(at + 4096, 8, 0), code::ALREADY_REGISTERED);
        assert_eq!(cu.cuMemHostUnregister(at + 4096), code::NOT_REGISTERED);
        assert_eq!(cu.cuMemHostUnregister(at), code::OK);
        assert_eq!(cu.cuMemAllocManaged(&mut addr, 4096, 0), code::INVALID_VALUE);
        assert_eq!(cu.cuMemAllocManaged(&mut addr, 4096, 1), code::OK);
    });
}

fn grow_and_shrink(fake: &Fake, total: u64, handle_bytes: usize) {
    let cu = &fake.cu;
    let addr = cu.reserve(total as usize);
    let count = total / handle_bytes as u64;
    let handles: Vec<u64> = (0..count).map(|_| cu.create(handle_bytes)).collect();
    for (index, handle) in handles.iter().enumerate() {
        cu.map(addr + (index * handle_bytes) as u64, handle_bytes, *handle);
    }
    poke(addr + total - 1, 3);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let lines = maps.lines().count();
    assert!(lines < 2000, "{lines} mappings in the kernel: neighbours are not joined");
    for (index, handle) in handles.iter().enumerate() {
        assert_eq!(cu.cuMemUnmap(addr + (index * handle_bytes) as u64, handle_bytes), code::OK);
        assert_eq!(cu.cuMemRelease(*handle), code::OK);
    }
    assert_eq!(cu.cuMemAddressFree(addr, total as usize), code::OK);
}

/// Processor time of this process: unlike the clock it does not see what else the machine does.
fn processor_seconds() -> i64 {
    // SAFETY: all zeroes is a valid struct, and getrusage fills it.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage.ru_utime.tv_sec + usage.ru_stime.tv_sec
    }
}

#[test]
fn a_hundred_gibibytes_are_quick() {
    let env = [("FAKECUDA_TOTAL_BYTES", "274877906944")];
    in_child("memory::a_hundred_gibibytes_are_quick", &env, |fake| {
        fake.cu.start(0);
        grow_and_shrink(fake, 100 << 30, PAGE);
        grow_and_shrink(fake, 100 << 30, 8 * PAGE);
        let seconds = processor_seconds();
        println!("200 GiB grown and given back in {seconds} s of processor time");
        assert!(seconds < 60, "{seconds} s: something scans");
        assert_eq!(fake.stats().physical, 0);
    });
}
