//! What is particular to the host backend; the contract itself is tests/conformance.

use super::*;

const PAGE: u64 = PAGE_BYTES;

fn host() -> Host {
    Host::new(HostOptions::default()).expect("a host backend")
}

fn file_bytes(host: &Host) -> u64 {
    // SAFETY: all-zero bytes are a valid stat.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open and the struct is valid.
    assert_eq!(unsafe { libc::fstat(host.file.as_raw_fd(), &mut stat) }, 0);
    stat.st_blocks as u64 * 512
}

/// Mappings of the process inside a range, as the kernel counts them.
fn kernel_mappings(addr: u64, size_bytes: u64) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc is mounted");
    let starts =
        maps.lines().filter_map(|line| u64::from_str_radix(line.split('-').next()?, 16).ok());
    starts.filter(|&start| start >= addr && start < addr + size_bytes).count()
}

#[test]
fn pages_take_memory_when_touched_and_go_back_when_released() {
    let host = host();
    let base = host.reserve(0, 8 * PAGE, 0).unwrap();
    let handle = host.create(0, 8 * PAGE).unwrap();
    host.map(0, base, 8 * PAGE, handle).unwrap();
    host.set_access(0, base, 8 * PAGE).unwrap();
    assert_eq!(file_bytes(&host), 0);
    host.fill(0, base, 7, 3 * PAGE, 0).unwrap();
    assert_eq!(file_bytes(&host), 3 * PAGE);
    host.unmap(0, base, 8 * PAGE).unwrap();
    assert_eq!(file_bytes(&host), 3 * PAGE, "an unmapped handle keeps its pages");
    host.release(0, handle, 8 * PAGE).unwrap();
    assert_eq!(file_bytes(&host), 0);
    host.unreserve(0, base, 8 * PAGE).unwrap();
}

#[test]
fn adjacent_handles_are_one_mapping_of_the_kernel() {
    const COUNT: u64 = 64;
    let host = host();
    let base = host.reserve(0, COUNT * PAGE, 0).unwrap();
    for page in 0..COUNT {
        let handle = host.create(0, PAGE).unwrap();
        host.map(0, base + page * PAGE, PAGE, handle).unwrap();
        host.set_access(0, base + page * PAGE, PAGE).unwrap();
    }
    assert_eq!(kernel_mappings(base, COUNT * PAGE), 1);
    host.unmap(0, base + PAGE, PAGE).unwrap();
    assert_eq!(kernel_mappings(base, COUNT * PAGE), 3, "the count must be able to differ");
}

#[test]
fn one_access_call_joins_a_run_and_skips_what_is_accessible() {
    let host = host();
    let base = host.reserve(0, 4 * PAGE, 0).unwrap();
    for page in 0..4 {
        let handle = host.create(0, PAGE).unwrap();
        host.map(0, base + page * PAGE, PAGE, handle).unwrap();
    }
    host.set_access(0, base + PAGE, PAGE).unwrap();
    assert_eq!(host.state.lock().runs(base, 4 * PAGE).len(), 2);
    host.set_access(0, base, 4 * PAGE).unwrap();
    assert!(host.state.lock().runs(base, 4 * PAGE).is_empty());
    host.fill(0, base, 1, 4 * PAGE, 0).unwrap();
}

#[test]
fn more_than_there_is_is_refused_unless_overcommitted() {
    let options = HostOptions { total_bytes: Some(4 * PAGE), ..HostOptions::default() };
    let host = Host::new(options).unwrap();
    let handle = host.create(0, 3 * PAGE).unwrap();
    let error = host.create(0, 2 * PAGE).unwrap_err();
    assert_eq!(error.status, Status::E_OUT_OF_MEMORY);
    assert_eq!((error.wanted_bytes, error.available_bytes), (2 * PAGE, PAGE));
    assert_eq!(host.mem_info(0).unwrap(), MemInfo { free_bytes: PAGE, total_bytes: 4 * PAGE });
    host.release(0, handle, 3 * PAGE).unwrap();
    host.create(0, 4 * PAGE).unwrap();
    let options = HostOptions { overcommit: true, ..options };
    let host = Host::new(options).unwrap();
    host.create(0, 1 << 40).unwrap();
    assert_eq!(host.mem_info(0).unwrap().free_bytes, 0);
    assert_eq!(host.create(0, 1 << 63).unwrap_err().status, Status::E_OUT_OF_MEMORY);
}

#[test]
fn devices_are_counted_apart() {
    let total_bytes = Some(4 * PAGE);
    let options = HostOptions { device_count: 2, total_bytes, overcommit: false };
    let host = Host::new(options).unwrap();
    let handle = host.create(1, 4 * PAGE).unwrap();
    assert_eq!(host.mem_info(0).unwrap().free_bytes, 4 * PAGE);
    assert_eq!(host.mem_info(1).unwrap().free_bytes, 0);
    assert!(host.release(0, handle, 4 * PAGE).is_err(), "a handle belongs to its device");
    assert!(Host::new(HostOptions { device_count: 0, ..options }).is_err());
    assert!(Host::new(HostOptions { device_count: 65, ..options }).is_err());
}

#[test]
fn a_whole_cycle_takes_microseconds() {
    const ROUNDS: u32 = 2000;
    let host = host();
    let base = host.reserve(0, 1 << 30, 0).unwrap();
    let start = std::time::Instant::now();
    for _ in 0..ROUNDS {
        let handle = host.create(0, PAGE).unwrap();
        host.map(0, base, PAGE, handle).unwrap();
        host.set_access(0, base, PAGE).unwrap();
        host.unmap(0, base, PAGE).unwrap();
        host.release(0, handle, PAGE).unwrap();
    }
    let each = start.elapsed() / ROUNDS;
    println!("create + map + access + unmap + release: {each:?}");
    // Ten times what it takes unloaded in a debug build: machines are shared.
    assert!(each < std::time::Duration::from_micros(100), "{each:?}");
}
