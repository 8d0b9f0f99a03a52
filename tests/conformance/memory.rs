//! Rules about addresses and physical memory.

use cenote::base::Status;
use cenote::device::PhysHandle;

use crate::ensure;
use crate::subject::{Must, Outcome, Subject};

pub fn whole_cycle(subject: &Subject) -> Outcome {
    let region = subject.region(3)?;
    let part: Vec<u8> = (0..=250).collect();
    let pattern = part.repeat(region.size as usize / part.len());
    subject.write(region.base, &pattern)?;
    subject.expect(region.base, &pattern, "what was written")?;
    subject.give_back(&region)
}

pub fn alignment(subject: &Subject) -> Outcome {
    for align in [0, subject.page, 32 * subject.page, 1 << 30] {
        let size = 3 * subject.page;
        let base = subject.backend.reserve(subject.device, size, align).must("reserve")?;
        let wanted = align.max(subject.page);
        ensure!(base % wanted == 0, "{base:#x} is not a multiple of {wanted:#x}");
        subject.backend.unreserve(subject.device, base, size).must("unreserve")?;
    }
    Ok(())
}

pub fn alias(subject: &Subject) -> Outcome {
    if !subject.caps.alias {
        return Ok(());
    }
    let region = subject.region(2)?;
    let second = subject.backend.reserve(subject.device, region.size, 0).must("reserve")?;
    subject.attach(second, region.size, region.handle)?;
    subject.write(region.base + 5, b"through the first")?;
    subject.expect(second + 5, b"through the first", "the alias")?;
    subject.backend.unmap(subject.device, region.base, region.size).must("unmap")?;
    subject.expect(second + 5, b"through the first", "the alias alone")?;
    subject.attach(region.base, region.size, region.handle)?;
    subject.backend.unmap(subject.device, second, region.size).must("unmap")?;
    subject.backend.unreserve(subject.device, second, region.size).must("unreserve")?;
    subject.give_back(&region)
}

pub fn contents_move_with_the_handle(subject: &Subject) -> Outcome {
    let mut region = subject.region(1)?;
    let target = subject.backend.reserve(subject.device, 2 * region.size, 0).must("reserve")?;
    subject.write(region.base, b"kept")?;
    subject.backend.unmap(subject.device, region.base, region.size).must("unmap")?;
    subject.attach(target + region.size, region.size, region.handle)?;
    subject.expect(target + region.size, b"kept", "after the move")?;
    subject.backend.unreserve(subject.device, region.base, region.size).must("unreserve")?;
    region.base = target + region.size;
    subject.backend.unmap(subject.device, region.base, region.size).must("unmap")?;
    subject.backend.release(subject.device, region.handle, region.size).must("release")?;
    subject.backend.unreserve(subject.device, target, 2 * region.size).must("unreserve")
}

pub fn released_memory_lives_while_mapped(subject: &Subject) -> Outcome {
    let region = subject.region(8)?;
    subject.write(region.base, b"alive")?;
    subject.backend.release(subject.device, region.handle, region.size).must("release")?;
    subject.expect(region.base, b"alive", "mapped memory after its release")?;
    let other = subject.backend.create(subject.device, region.size).must("create")?;
    subject.expect(region.base, b"alive", "mapped memory after another create")?;
    subject.backend.release(subject.device, other, region.size).must("release")?;
    subject.backend.unmap(subject.device, region.base, region.size).must("unmap")?;
    subject.backend.unreserve(subject.device, region.base, region.size).must("unreserve")
}

pub fn adjacent_handles_are_one_range(subject: &Subject) -> Outcome {
    let (device, page) = (subject.device, subject.page);
    let base = subject.backend.reserve(device, 3 * page, 0).must("reserve")?;
    let mut handles = Vec::new();
    for index in 0..3 {
        let handle = subject.backend.create(device, page).must("create")?;
        subject.backend.map(device, base + index * page, page, handle).must("map")?;
        handles.push(handle);
    }
    subject.backend.set_access(device, base, 3 * page).must("set_access of three handles")?;
    let pattern = vec![0xA5; 2 * page as usize];
    subject.write(base + page / 2, &pattern)?;
    subject.expect(base + page / 2, &pattern, "across handles")?;
    subject.backend.unmap(device, base, 3 * page).must("unmap of three handles")?;
    for handle in handles {
        subject.backend.release(device, handle, page).must("release")?;
    }
    subject.backend.unreserve(device, base, 3 * page).must("unreserve")
}

/// Whether the CPU can read an address, asked of the kernel and not tried.
fn readable(addr: u64) -> bool {
    let mut byte = 0u8;
    let local = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let remote = libc::iovec { iov_base: addr as *mut libc::c_void, iov_len: 1 };
    // SAFETY: the kernel checks the remote address; the local one is a byte of this frame.
    unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) == 1 }
}

pub fn inaccessible_before_and_after(subject: &Subject) -> Outcome {
    if !subject.caps.host_visible {
        return Ok(());
    }
    let region = subject.region(2)?;
    ensure!(readable(region.base), "mapped memory cannot be read");
    ensure!(readable(region.base + region.size - 1), "the end of mapped memory cannot be read");
    subject.backend.unmap(subject.device, region.base, region.size).must("unmap")?;
    ensure!(!readable(region.base), "memory can be read after it was unmapped");
    subject.attach(region.base, region.size, region.handle)?;
    subject.give_back(&region)?;
    ensure!(!readable(region.base), "memory can be read after its addresses are gone");
    Ok(())
}

/// Reserved addresses and unmapped memory for one check of what must be refused. All of it goes
/// back even where something was not refused, so that the next check does not fail for this one.
fn with_parts(
    subject: &Subject,
    pages_of_handles: &[u64],
    check: impl FnOnce(u64, &[PhysHandle]) -> Outcome,
) -> Outcome {
    let (backend, device) = (&subject.backend, subject.device);
    let sizes: Vec<u64> = pages_of_handles.iter().map(|pages| pages * subject.page).collect();
    let total: u64 = sizes.iter().sum();
    let base = backend.reserve(device, total, 0).must("reserve")?;
    let create = |size: &u64| backend.create(device, *size).must("create");
    let handles: Vec<PhysHandle> = sizes.iter().map(create).collect::<Result<_, _>>()?;
    let mut outcome = check(base, &handles);
    if outcome.is_err() {
        // Whatever is still mapped, wherever it begins; that most of these fail is expected.
        for size in sizes.iter().copied().chain([subject.page]) {
            for page in 0..total / subject.page {
                let _ = backend.unmap(device, base + page * subject.page, size);
            }
        }
    }
    for (handle, size) in handles.into_iter().zip(sizes) {
        outcome = outcome.and(backend.release(device, handle, size).must("release"));
    }
    outcome.and(backend.unreserve(device, base, total).must("unreserve"))
}

/// A mapping that must be refused; one that is not is undone.
fn map_is_refused(
    subject: &Subject,
    addr: u64,
    size: u64,
    handle: PhysHandle,
    what: &str,
) -> Outcome {
    let answer = subject.backend.map(subject.device, addr, size, handle);
    if answer.is_ok() {
        let undone = subject.backend.unmap(subject.device, addr, size);
        undone.must(&format!("undo of: {what}"))?;
    }
    answer.refused(what).map(drop)
}

pub fn illegal_mappings_are_refused(subject: &Subject) -> Outcome {
    let (backend, device, page) = (&subject.backend, subject.device, subject.page);
    with_parts(subject, &[2, 2], |base, handles| {
        let [first, second] = [handles[0], handles[1]];
        let refused = |addr, size, what| map_is_refused(subject, addr, size, second, what);
        backend.set_access(device, base, page).refused("set_access of nothing")?;
        subject.attach(base, 2 * page, first)?;
        subject.write(base, b"first")?;
        refused(base, 2 * page, "map over a mapping")?;
        refused(base + page, 2 * page, "map across a mapping")?;
        refused(base + 2 * page, page, "map of half a handle")?;
        if subject.on_real_driver() {
            // Driver 580 was seen to allow it; another reservation may begin right there.
            println!("skipped: map past the reservation: a real driver may allow it");
        } else {
            refused(base + 3 * page, 2 * page, "map past the reservation")?;
        }
        backend.set_access(device, base, 4 * page).refused("set_access across a gap")?;
        subject.expect(base, b"first", "after refusals")?;
        subject.attach(base + 2 * page, 2 * page, second)?;
        backend.unmap(device, base, 4 * page).must("unmap")
    })
}

pub fn illegal_unmappings_are_refused(subject: &Subject) -> Outcome {
    let (backend, device, page) = (&subject.backend, subject.device, subject.page);
    with_parts(subject, &[2], |base, handles| {
        let size = 2 * page;
        subject.attach(base, size, handles[0])?;
        subject.write(base, b"still here")?;
        backend.unmap(device, base, page).refused("unmap of the first half")?;
        backend.unmap(device, base + page, page).refused("unmap of the second half")?;
        backend.unreserve(device, base, size).refused("unreserve of what is mapped")?;
        subject.expect(base, b"still here", "after refusals")?;
        backend.unmap(device, base, size).must("unmap")?;
        if subject.on_real_driver() {
            println!("skipped: a second unmap: driver 580 takes it");
        } else {
            backend.unmap(device, base, size).refused("a second unmap")?;
        }
        backend.unreserve(device, base + page, page).refused("unreserve of a part")?;
        subject.attach(base, size, handles[0])?;
        backend.unmap(device, base, size).must("unmap")
    })
}

pub fn illegal_sizes_are_refused(subject: &Subject) -> Outcome {
    let (backend, device) = (&subject.backend, subject.device);
    for (size, what) in
        [(0, "create of nothing"), (subject.page + 1, "create of a page and a byte")]
    {
        let answer = backend.create(device, size);
        if let Ok(handle) = &answer {
            backend.release(device, *handle, size).must(&format!("undo of: {what}"))?;
        }
        answer.refused(what)?;
    }
    Ok(())
}

/// Not asked of a device's driver, which may believe whatever handle it is given.
pub fn released_handles_are_refused(subject: &Subject) -> Outcome {
    if !subject.caps.host_visible {
        return Ok(());
    }
    let backend = &subject.backend;
    let (device, page) = (subject.device, subject.page);
    let base = backend.reserve(device, page, 0).must("reserve")?;
    let handle = backend.create(device, page).must("create")?;
    backend.release(device, handle, page).must("release")?;
    backend.map(device, base, page, handle).refused("map of a released handle")?;
    backend.release(device, handle, page).refused("a second release")?;
    backend.unreserve(device, base, page).must("unreserve")
}

pub fn out_of_memory_is_a_status(subject: &Subject) -> Outcome {
    let total = subject.backend.device_info(subject.device).must("device_info")?.total_bytes;
    let size = (2 * total).next_multiple_of(subject.page);
    let error = subject.backend.create(subject.device, size).refused("create of twice of all")?;
    ensure!(error.status == Status::E_OUT_OF_MEMORY, "the status is {:?}", error.status);
    ensure!(error.wanted_bytes == size, "the error does not say what was wanted: {error:?}");
    whole_cycle(subject)
}

pub fn out_of_addresses_is_a_status(subject: &Subject) -> Outcome {
    let size = 1 << 62;
    let answer = subject.backend.reserve(subject.device, size, 0);
    if let Ok(addr) = answer {
        subject.backend.unreserve(subject.device, addr, size).must("unreserve of 2^62")?;
    }
    let error = answer.refused("reserve of 2^62")?;
    ensure!(error.status == Status::E_ADDRESS_SPACE, "the status is {:?}", error.status);
    whole_cycle(subject)
}

pub fn many_threads(subject: &Subject) -> Outcome {
    std::thread::scope(|scope| {
        let work = |mark: u8| {
            move || -> Outcome {
                for round in 0..6u8 {
                    let region = subject.region(1 + u64::from(round % 3))?;
                    let pattern = vec![mark ^ round; region.size as usize];
                    subject.write(region.base, &pattern)?;
                    subject.expect(region.base, &pattern, "on many threads")?;
                    subject.give_back(&region)?;
                }
                Ok(())
            }
        };
        let threads: Vec<_> = (1..=4).map(|mark| scope.spawn(work(mark << 4))).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(outcome) => outcome,
            Err(_) => Err("a thread panicked".to_owned()),
        })
    })
}

pub fn fixed_addresses(subject: &Subject) -> Outcome {
    let handle = subject.backend.create(subject.device, subject.page).must("create")?;
    let answer = subject.backend.fixed_address(subject.device, handle);
    if subject.caps.virtual_memory {
        let error = answer.refused("fixed_address")?;
        ensure!(error.status == Status::E_NOT_SUPPORTED, "the status is {:?}", error.status);
    } else {
        let addr = answer.must("fixed_address")?;
        subject.write(addr, b"fixed")?;
        subject.expect(addr, b"fixed", "memory at a fixed address")?;
    }
    subject.backend.release(subject.device, handle, subject.page).must("release")
}
