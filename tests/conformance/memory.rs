//! Rules about addresses and physical memory.

use cenote::base::Status;

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

pub fn illegal_mappings_are_refused(subject: &Subject) -> Outcome {
    let backend = &subject.backend;
    let (device, page) = (subject.device, subject.page);
    let base = backend.reserve(device, 4 * page, 0).must("reserve")?;
    let first = backend.create(device, 2 * page).must("create")?;
    let second = backend.create(device, 2 * page).must("create")?;
    backend.set_access(device, base, page).refused("set_access of nothing")?;
    subject.attach(base, 2 * page, first)?;
    subject.write(base, b"first")?;
    backend.map(device, base, 2 * page, second).refused("map over a mapping")?;
    backend.map(device, base + page, 2 * page, second).refused("map across a mapping")?;
    backend.map(device, base + 3 * page, 2 * page, second).refused("map past the reservation")?;
    backend.map(device, base + 2 * page, page, second).refused("map of half a handle")?;
    backend.set_access(device, base, 4 * page).refused("set_access across a gap")?;
    subject.expect(base, b"first", "after refusals")?;
    subject.attach(base + 2 * page, 2 * page, second)?;
    backend.unmap(device, base, 4 * page).must("unmap")?;
    backend.release(device, first, 2 * page).must("release")?;
    backend.release(device, second, 2 * page).must("release")?;
    backend.unreserve(device, base, 4 * page).must("unreserve")
}

pub fn illegal_unmappings_are_refused(subject: &Subject) -> Outcome {
    let backend = &subject.backend;
    let (device, page) = (subject.device, subject.page);
    let region = subject.region(2)?;
    subject.write(region.base, b"still here")?;
    backend.unmap(device, region.base, page).refused("unmap of the first half")?;
    backend.unmap(device, region.base + page, page).refused("unmap of the second half")?;
    backend.unreserve(device, region.base, region.size).refused("unreserve of what is mapped")?;
    subject.expect(region.base, b"still here", "after refusals")?;
    backend.unmap(device, region.base, region.size).must("unmap")?;
    backend.unmap(device, region.base, region.size).refused("a second unmap")?;
    backend.unreserve(device, region.base + page, page).refused("unreserve of a part")?;
    subject.attach(region.base, region.size, region.handle)?;
    subject.give_back(&region)
}

pub fn illegal_sizes_are_refused(subject: &Subject) -> Outcome {
    subject.backend.create(subject.device, 0).refused("create of nothing")?;
    let size = subject.page + 1;
    subject.backend.create(subject.device, size).refused("create of a page and a byte")?;
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
    let error = subject.backend.reserve(subject.device, size, 0).refused("reserve of 2^62")?;
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
