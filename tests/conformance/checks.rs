//! The list of checks, and those on facts about devices.

use cenote::base::Status;

use crate::ensure;
use crate::subject::{Must, Outcome, Subject};
use crate::{memory, order};

/// A rule of the contract.
pub struct Check {
    pub name: &'static str,
    pub run: fn(&Subject) -> Outcome,
}

macro_rules! list {
    ($($module:ident::$name:ident),* $(,)?) => {
        &[$(Check { name: stringify!($name), run: $module::$name },)*]
    };
}

/// Every rule, on every backend; a rule about a capability is empty where that is missing.
pub const ALL: &[Check] = list![
    facts::device_facts,
    facts::no_such_device,
    facts::device_without_a_context,
    facts::free_memory_follows,
    memory::whole_cycle,
    memory::alignment,
    memory::alias,
    memory::contents_move_with_the_handle,
    memory::released_memory_lives_while_mapped,
    memory::adjacent_handles_are_one_range,
    memory::inaccessible_before_and_after,
    memory::illegal_mappings_are_refused,
    memory::illegal_unmappings_are_refused,
    memory::illegal_sizes_are_refused,
    memory::released_handles_are_refused,
    memory::out_of_memory_is_a_status,
    memory::out_of_addresses_is_a_status,
    memory::many_threads,
    memory::fixed_addresses,
    order::copy_and_fill,
    order::events_complete,
    order::streams_have_identities,
    order::no_capture_without_one,
    order::capabilities_are_honest,
];

/// A check by its name.
pub fn named(name: &str) -> &'static Check {
    ALL.iter().find(|check| check.name == name).expect("a check of this name")
}

mod facts {
    use super::*;

    pub fn device_facts(subject: &Subject) -> Outcome {
        let count = subject.backend.device_count();
        ensure!((1..=64).contains(&count), "device_count is {count}");
        for device in 0..count {
            let info = subject.backend.device_info(device).must("device_info")?;
            let page = info.page_bytes;
            ensure!(page.is_power_of_two() && page >= 4096, "page_bytes is {page}");
            ensure!(info.total_bytes >= page, "total_bytes is {}", info.total_bytes);
            ensure!((1..256).contains(&info.name.len()), "the name is {:?}", info.name);
        }
        subject.backend.activate(subject.device).must("a second activate")?;
        ensure!(subject.backend.sticky().is_none(), "a sticky error without a cause");
        Ok(())
    }

    pub fn no_such_device(subject: &Subject) -> Outcome {
        let none = subject.backend.device_count();
        let backend = &subject.backend;
        let errors = [
            backend.device_info(none).refused("device_info")?,
            backend.activate(none).refused("activate")?,
            backend.mem_info(none).refused("mem_info")?,
            backend.reserve(none, subject.page, 0).refused("reserve")?,
            backend.create(none, subject.page).refused("create")?,
            backend.event_create(none).refused("event_create")?,
            backend.synchronize(none).refused("synchronize")?,
        ];
        let wrong = errors.iter().find(|error| error.status != Status::E_DEVICE);
        ensure!(wrong.is_none(), "the status is not E_DEVICE: {wrong:?}");
        Ok(())
    }

    /// No context is current on a thread of these tests.
    pub fn device_without_a_context(subject: &Subject) -> Outcome {
        let count = subject.backend.device_count();
        let error = subject.backend.current_device(count).refused("a fallback that is none")?;
        ensure!(error.status == Status::E_DEVICE, "the status is {:?}", error.status);
        for device in 0..count {
            let current = subject.backend.current_device(device).must("current_device")?;
            ensure!(current == device, "the fallback is {device}, the current device {current}");
        }
        Ok(())
    }

    pub fn free_memory_follows(subject: &Subject) -> Outcome {
        let free = || -> Outcome<u64> {
            let info = subject.backend.mem_info(subject.device).must("mem_info")?;
            ensure!(info.free_bytes <= info.total_bytes, "more is free than there is");
            Ok(info.free_bytes)
        };
        let size = 8 * subject.page;
        let before = free()?;
        let handle = subject.backend.create(subject.device, size).must("create")?;
        let during = free()?;
        subject.backend.release(subject.device, handle, size).must("release")?;
        let after = free()?;
        ensure!(during <= before.saturating_sub(size), "create took nothing: {before} {during}");
        ensure!(after >= during + size, "release gave nothing back: {during} {after}");
        Ok(())
    }
}
