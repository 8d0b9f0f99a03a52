//! What the backend makes of a driver that fails, and of devices that lack things.

use cenote::base::Status;
use cenote::device::cuda::Cuda;
use cenote::device::Backend;

use super::on_fake;
use crate::fake::Fake;
use crate::raw;
use crate::subject::{Must, Outcome, Subject};
use crate::{checks, ensure};

/// CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED.
const VMM: i32 = 102;

fn opened() -> Outcome<Subject> {
    Ok(Subject::new(Box::new(Cuda::open().must("open")?)))
}

#[test]
fn a_device_without_virtual_memory() {
    on_fake("a_device_without_virtual_memory", |_, fake| {
        fake.set_attribute(VMM, 0);
        let subject = opened();
        fake.set_attribute(VMM, 1);
        let subject = subject?;
        ensure!(!subject.caps.virtual_memory && !subject.caps.alias, "{:?}", subject.caps);
        for name in [
            "device_facts",
            "free_memory_follows",
            "fixed_addresses",
            "events_complete",
            "streams_have_identities",
            "capabilities_are_honest",
        ] {
            (checks::named(name).run)(&subject)?;
        }
        let error = subject.backend.reserve(0, subject.page, 0).refused("reserve")?;
        ensure!(error.status == Status::E_NOT_SUPPORTED, "the status is {:?}", error.status);
        Ok(())
    });
}

#[test]
fn a_property_that_create_refuses_is_given_up() {
    on_fake("a_property_that_create_refuses_is_given_up", |_, fake| {
        let subject = opened()?;
        ensure!(subject.caps.rdma && subject.caps.export_fd, "the fake device has both");
        let caps = |subject: &Subject| subject.backend.device_info(0).map(|info| info.caps);
        for (code, rdma, export_fd) in [(801, false, true), (800, false, false)] {
            fake.fail("cuMemCreate", 1, code);
            let handle = subject.backend.create(0, subject.page).must("create")?;
            let now = caps(&subject).must("device_info")?;
            ensure!((now.rdma, now.export_fd) == (rdma, export_fd), "after {code}: {now:?}");
            fake.reset_counts();
            subject.backend.release(0, handle, subject.page).must("release")?;
            let handle = subject.backend.create(0, subject.page).must("create")?;
            ensure!(fake.count("cuMemCreate") == 1, "what was refused is asked for again");
            subject.backend.release(0, handle, subject.page).must("release")?;
        }
        let handle = subject.backend.create(0, subject.page).must("create")?;
        let error = subject.backend.export_fd(0, handle).refused("export_fd")?;
        ensure!(error.status == Status::E_NOT_SUPPORTED, "the status is {:?}", error.status);
        subject.backend.release(0, handle, subject.page).must("release")?;
        fake.fail("cuMemCreate", 1, 801);
        let error = subject.backend.create(0, subject.page).refused("create of nothing special")?;
        ensure!(error.status == Status::E_NOT_SUPPORTED, "the status is {:?}", error.status);
        Ok(())
    });
}

#[test]
fn errors_carry_the_drivers_code() {
    on_fake("errors_carry_the_drivers_code", |subject, fake| {
        let backend = &subject.backend;
        let cases = [
            (2, Status::E_OUT_OF_MEMORY),
            (1, Status::E_DRIVER),
            (999, Status::E_DRIVER),
            (4_000_000_000, Status::E_DRIVER),
            (900, Status::E_CAPTURE),
        ];
        for (code, status) in cases {
            fake.fail("cuMemGetInfo_v2", 1, code);
            let error = backend.mem_info(0).refused("mem_info")?;
            ensure!(error.status == status, "{code} gives {:?}", error.status);
            ensure!(error.backend_code == code as i32, "{code} became {}", error.backend_code);
            backend.mem_info(0).must("mem_info after an error that passes")?;
        }
        ensure!(backend.sticky().is_none(), "an error that passes was kept");
        fake.fail("cuMemAddressReserve", 1, 2);
        let error = backend.reserve(0, subject.page, 0).refused("reserve")?;
        ensure!(error.status == Status::E_ADDRESS_SPACE, "the status is {:?}", error.status);
        Ok(())
    });
}

/// Makes every call that asks the driver, and wants this error from each.
fn all_give(backend: &dyn Backend, page: u64, status: Status, code: i32) -> Outcome {
    let handle = cenote::device::PhysHandle(1);
    let errors = [
        backend.current_device(0).refused("current_device")?,
        backend.activate(0).refused("activate")?,
        backend.mem_info(0).refused("mem_info")?,
        backend.reserve(0, page, 0).refused("reserve")?,
        backend.unreserve(0, page, page).refused("unreserve")?,
        backend.create(0, page).refused("create")?,
        backend.release(0, handle, page).refused("release")?,
        backend.map(0, page, page, handle).refused("map")?,
        backend.set_access(0, page, page).refused("set_access")?,
        backend.unmap(0, page, page).refused("unmap")?,
        backend.export_fd(0, handle).refused("export_fd")?,
        backend.identify(0, 0).refused("identify")?,
        backend.identify(0, 4096).refused("identify")?,
        backend.capture(0, 4096).refused("capture")?,
        backend.event_create(0).refused("event_create")?,
        backend.copy(0, 0, 0, 1, 0).refused("copy")?,
        backend.fill(0, 0, 0, 1, 0).refused("fill")?,
        backend.synchronize(0).refused("synchronize")?,
    ];
    let right = |error: &cenote::base::Error| {
        error.status == status && error.backend_code == code && error.what == "cuMemGetInfo"
    };
    let wrong = errors.iter().find(|error| !right(error));
    ensure!(wrong.is_none(), "not the first error: {wrong:?}");
    Ok(())
}

fn total_calls(fake: &Fake) -> u64 {
    let names =
        ["cuCtxGetCurrent", "cuCtxSetCurrent", "cuCtxGetId", "cuMemCreate", "cuEventCreate"];
    names.iter().map(|name| fake.count(name)).sum()
}

#[test]
fn the_first_fatal_error_ends_it() {
    on_fake("the_first_fatal_error_ends_it", |_, fake| {
        for (code, status) in [
            (700, Status::E_CONTEXT_LOST),
            (719, Status::E_CONTEXT_LOST),
            (226, Status::E_CONTEXT_LOST),
            (4, Status::E_DRIVER_EXIT),
        ] {
            let subject = opened()?;
            let event = subject.backend.event_create(0).must("event_create")?;
            fake.fail("cuMemGetInfo_v2", 1, code);
            let first = subject.backend.mem_info(0).refused("mem_info")?;
            // While the driver shuts down nothing is put back: its threads end with it.
            let left = status == Status::E_DRIVER_EXIT || raw::current() == 0;
            raw::context_set(0);
            ensure!(left, "a context stays current after {code}");
            fake.reset_counts();
            all_give(&*subject.backend, subject.page, status, code as i32)?;
            subject.backend.event_record(0, event, 0).refused("event_record")?;
            subject.backend.event_query(0, event).refused("event_query")?;
            subject.backend.event_destroy(0, event).refused("event_destroy")?;
            ensure!(total_calls(fake) == 0, "the driver was called after {code}");
            ensure!(subject.backend.sticky() == Some(first), "{:?}", subject.backend.sticky());
        }
        Ok(())
    });
}

#[test]
fn a_reset_by_another_library_is_noticed() {
    on_fake("a_reset_by_another_library_is_noticed", |_, _| {
        let subject = opened()?;
        subject.backend.mem_info(0).must("mem_info")?;
        assert_eq!(raw::primary_reset(0), 0, "cuDevicePrimaryCtxReset");
        let error = subject.backend.mem_info(0).refused("mem_info")?;
        ensure!(error.status == Status::E_CONTEXT_LOST, "the status is {:?}", error.status);
        ensure!(raw::current() == 0, "a context stays current");
        let again = opened()?;
        again.backend.mem_info(0).must("mem_info of a new backend").map(|_| ())
    });
}
