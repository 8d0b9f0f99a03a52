//! Random programs against a model: what a pool hands out never overlaps, in addresses or in the
//! memory behind them, its figures are the model's, and in the end everything goes home.
//!
//! On the host the bytes are written and read by the CPU. On the fake driver kernels do it, in
//! stream order, while completions lag: a block handed out before its last use shows as a wrong
//! byte that a kernel finds. Programs come from a fixed seed; PROPTEST_RNG_SEED and PROPTEST_CASES
//! choose others and more.

#[path = "../support/api.rs"]
mod api;
mod cpu;
#[path = "../support/driver.rs"]
mod driver;
#[path = "../support/fake.rs"]
mod fake;
mod gpu;
mod pool;
mod program;

use fake::in_child;
use proptest::test_runner::{Config, RngSeed, TestRunner};

/// Runs programs; a failure is shrunk to a short one.
fn run<'a>(cases: u32, device: impl Fn() -> Box<dyn pool::Device + 'a>) {
    let mut config = Config { failure_persistence: None, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    if std::env::var_os("PROPTEST_RNG_SEED").is_none() {
        config.rng_seed = RngSeed::Fixed(0x5eed_ce07e);
    }
    // Shrinking reruns the program: bounded, because a waiting pool may make each run slow.
    config.max_shrink_iters = 2000;
    let outcome = TestRunner::new(config)
        .run(&program::program(), |program| pool::execute(&program, device().as_mut()));
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

#[test]
fn programs_on_the_host() {
    api::on_host();
    run(150, || Box::new(cpu::Cpu));
}

#[test]
fn programs_on_the_host_with_late_completions() {
    api::in_own_process(
        "programs_on_the_host_with_late_completions",
        &[("CENOTE_LAG", "25")],
        || run(150, || Box::new(cpu::Cpu)),
    );
}

#[test]
fn programs_on_the_fake_driver() {
    in_child("programs_on_the_fake_driver", &[], |fake| {
        run(100, || Box::new(gpu::Gpu::new(fake)));
    });
}

#[test]
fn programs_on_the_fake_driver_with_late_completions() {
    let env = [("FAKECUDA_LAG_OPS", "40")];
    in_child("programs_on_the_fake_driver_with_late_completions", &env, |fake| {
        run(100, || Box::new(gpu::Gpu::new(fake)));
    });
}

#[test]
fn programs_on_a_small_fake_device() {
    let env = [("FAKECUDA_LAG_OPS", "15"), ("FAKECUDA_TOTAL_BYTES", "67108864")];
    in_child("programs_on_a_small_fake_device", &env, |fake| {
        run(100, || Box::new(gpu::Gpu::new(fake)));
    });
}
