//! Proof that the checks can fail: each meets a backend that breaks its rule.

use crate::checks::{self, ALL};
use crate::spy::{Flaw, Spy};
use crate::subject::{small_host, Subject};

/// Which check must notice which flaw.
const NOTICED_BY: &[(Flaw, &str)] = &[
    (Flaw::OddPage, "device_facts"),
    (Flaw::AnyDevice, "no_such_device"),
    (Flaw::WrongCurrentDevice, "device_without_a_context"),
    (Flaw::ConstantFree, "free_memory_follows"),
    (Flaw::UnmapsNothing, "whole_cycle"),
    (Flaw::NoAlignment, "alignment"),
    (Flaw::MapsACopy, "alias"),
    (Flaw::MapsACopy, "contents_move_with_the_handle"),
    (Flaw::ReleaseUnmaps, "released_memory_lives_while_mapped"),
    (Flaw::UnmapsNothing, "adjacent_handles_are_one_range"),
    (Flaw::UnmapsNothing, "inaccessible_before_and_after"),
    (Flaw::AllowsAnyMap, "illegal_mappings_are_refused"),
    (Flaw::AllowsAnyAccess, "illegal_mappings_are_refused"),
    (Flaw::UnmapsAnyPart, "illegal_unmappings_are_refused"),
    (Flaw::ReleasesTwice, "released_handles_are_refused"),
    (Flaw::CreatesAnySize, "illegal_sizes_are_refused"),
    (Flaw::WrongOutOfMemory, "out_of_memory_is_a_status"),
    (Flaw::WrongAddressSpace, "out_of_addresses_is_a_status"),
    (Flaw::NotThreadSafe, "many_threads"),
    (Flaw::FixedAddress, "fixed_addresses"),
    (Flaw::ShortFill, "copy_and_fill"),
    (Flaw::NeverComplete, "events_complete"),
    (Flaw::NewIdentityEachTime, "streams_have_identities"),
    (Flaw::OneIdentityForAll, "streams_have_identities"),
    (Flaw::AlwaysCaptured, "no_capture_without_one"),
    (Flaw::ExportsNothing, "capabilities_are_honest"),
];

fn outcome(flaw: Flaw, check: &str) -> Result<(), String> {
    let subject = Subject::new(Box::new(Spy::new(small_host(false), flaw)));
    (checks::named(check).run)(&subject)
}

#[test]
fn every_flaw_is_noticed() {
    for &(flaw, check) in NOTICED_BY {
        assert_eq!(outcome(Flaw::None, check), Ok(()), "{check} without a flaw");
        let found = outcome(flaw, check);
        assert!(found.is_err(), "{check} did not notice {flaw:?}");
        println!("{flaw:?}: {}", found.unwrap_err());
    }
}

#[test]
fn every_check_can_fail() {
    for check in ALL {
        let known = NOTICED_BY.iter().any(|(_, name)| *name == check.name);
        assert!(known, "no flaw makes {} fail", check.name);
    }
}
