//! Reports of people who run GPU programs, as tests of the C ABI: each is named by the number of
//! its case, with the sequence that was reported and the behaviour that would have been right.
//! They run on the fake CUDA driver, each in a process of its own, and end without a violation.
//!
//! `refused` and `states` are the wrong arguments and the states in which nothing works, one status
//! for each.

#[path = "../support/api.rs"]
mod api;
#[path = "../support/driver.rs"]
mod driver;
#[path = "../support/fake.rs"]
mod fake;

mod fragmentation;
mod lost;
mod ownership;
mod refused;
mod states;
mod streams;
mod whole;

/// A test on the fake driver: name, settings, body. It fails if the driver saw a violation.
#[macro_export]
macro_rules! on_fake {
    ($(#[$doc:meta])* $name:ident, $env:expr, $body:expr) => {
        $(#[$doc])*
        #[test]
        fn $name() {
            let name = $crate::api::test_name(module_path!(), stringify!($name));
            $crate::fake::in_child(&name, $env, |fake| {
                let body: fn(&$crate::fake::Fake) = $body;
                body(fake);
                assert_eq!(fake.violation_texts(), [""; 0], "the driver saw violations");
                assert_eq!(fake.mismatches(), 0, "kernels found wrong bytes");
            });
        }
    };
}
