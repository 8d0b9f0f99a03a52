//! One suite for every backend: host, delayed, vtable and CUDA keep the same contract.
//!
//! A check is a function that says what is wrong, so that it can be run on a backend that breaks
//! the rule on purpose (`flawed`): a check that nothing fails proves nothing.
//!
//! The CUDA part runs where a driver is found and prints why it is skipped elsewhere;
//! `CENOTE_TEST_CUDA=1` makes a missing driver a failure. One test runs all of it again in a
//! process that finds the fake driver (tests/fakecuda), so that it runs everywhere.

mod checks;
#[cfg(feature = "cuda")]
mod cuda;
#[cfg(feature = "cuda")]
#[path = "../support/driver.rs"]
mod driver;
#[cfg(feature = "cuda")]
#[path = "../support/fake.rs"]
mod fake;
mod flawed;
mod memory;
mod order;
#[cfg(feature = "cuda")]
mod raw;
mod spy;
mod subject;
mod table;

/// One test for each check on one backend; a subject that cannot be opened says why.
macro_rules! suite {
    ($($backend:ident),*) => {
        $(mod $backend {
            #[test]
            fn keeps_the_contract() {
                for check in crate::checks::ALL {
                    match crate::subject::$backend() {
                        Ok(subject) => {
                            let outcome = (check.run)(&subject);
                            let name = check.name;
                            assert_eq!(outcome, Ok(()), "{name} on {}", stringify!($backend));
                        }
                        Err(reason) => {
                            println!("skipped on {}: {reason}", stringify!($backend));
                            return;
                        }
                    }
                }
            }
        })*
    };
}

suite!(host, delayed, vtable, vtable_asynchronous, cuda_device);
