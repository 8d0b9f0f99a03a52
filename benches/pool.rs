//! Speed of a pool: pair, churn and a training step, for cenote and for the system's malloc.
//!
//! Goal: the time of one operation where the caller is one thread and nothing has to be fetched
//! from the driver. Not a goal: footprint (`cenote replay` measures it), threads, or a verdict on
//! regressions: machines differ. Runs on the host backend unless CENOTE_BACKEND says otherwise.

mod harness;

use criterion::{criterion_group, BenchmarkId, Criterion, Throughput};
use harness::{scale, Allocator, Cenote, Hash, Malloc, Rng, SEED};
use std::ffi::c_void;
use std::time::Duration;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn allocators() -> Vec<Box<dyn Allocator>> {
    vec![Box::new(Malloc), Box::new(Cenote::raw()), Box::new(Cenote::registered())]
}

/// Allocate and free one block, again and again: the hit path.
fn pair(c: &mut Criterion) {
    let mut group = c.benchmark_group("pair");
    for size_bytes in [256, 64 * KIB, 2 * MIB] {
        for allocator in allocators() {
            let id = BenchmarkId::new(allocator.name(), size_bytes);
            group.bench_function(id, |b| {
                b.iter(|| allocator.free(allocator.allocate(size_bytes)));
            });
        }
    }
    group.finish();
}

/// One step of churn: a random slot gives its block back and takes another.
fn churn_step(
    allocator: &dyn Allocator,
    slots: &mut [*mut c_void],
    rng: &mut Rng,
    most_bytes: u64,
) -> u64 {
    let slot = rng.below(slots.len() as u64) as usize;
    allocator.free(slots[slot]);
    let size_bytes = rng.size(256, most_bytes);
    slots[slot] = allocator.allocate(size_bytes);
    size_bytes
}

/// Many live blocks of many sizes, replaced in random order: up to 1 MiB, and up to 16 MiB.
fn churn(c: &mut Criterion) {
    let mut group = c.benchmark_group("churn");
    let live = scale(1000, 50);
    for (kind, most_bytes) in [("small", MIB), ("mixed", 16 * MIB)] {
        for allocator in allocators() {
            let (mut rng, mut hash) = (Rng::new(SEED), Hash::new());
            let first = |rng: &mut Rng| allocator.allocate(rng.size(256, most_bytes));
            let mut slots: Vec<_> = (0..live).map(|_| first(&mut rng)).collect();
            // A fixed number of steps first: to warm up, and so that the hash says the same always.
            for _ in 0..live * 4 {
                hash.add(churn_step(&*allocator, &mut slots, &mut rng, most_bytes));
            }
            hash.show(&format!("churn/{kind}/{}", allocator.name()));
            group.bench_function(BenchmarkId::new(allocator.name(), kind), |b| {
                b.iter(|| churn_step(&*allocator, &mut slots, &mut rng, most_bytes));
            });
            slots.into_iter().for_each(|block| allocator.free(block));
        }
    }
    group.finish();
}

/// Sizes of a training step: what each layer keeps, and its short-lived workspace.
fn layers(count: usize) -> Vec<(u64, u64)> {
    let mut rng = Rng::new(SEED);
    (0..count).map(|_| (rng.size(4 * KIB, 8 * MIB), rng.size(64 * KIB, 16 * MIB))).collect()
}

/// Forward: every layer keeps its activations. Backward: they go in reverse order, each beside a
/// gradient. Workspace comes and goes in every layer. Gives the operations done.
fn training_step(allocator: &dyn Allocator, layers: &[(u64, u64)], hash: &mut Hash) -> u64 {
    let mut kept = Vec::with_capacity(layers.len());
    for (activation_bytes, workspace_bytes) in layers {
        kept.push(allocator.allocate(*activation_bytes));
        let workspace = allocator.allocate(*workspace_bytes);
        allocator.free(workspace);
        hash.add(activation_bytes ^ workspace_bytes);
    }
    for (activation_bytes, workspace_bytes) in layers.iter().rev() {
        let gradient = allocator.allocate(*activation_bytes);
        let workspace = allocator.allocate(*workspace_bytes);
        allocator.free(workspace);
        allocator.free(kept.pop().expect("one block a layer"));
        allocator.free(gradient);
    }
    layers.len() as u64 * 8
}

/// A training step over and over; recorded traces are for `cenote replay`.
fn replay(c: &mut Criterion) {
    let mut group = c.benchmark_group("replay");
    let layers = layers(scale(200, 10));
    for allocator in allocators() {
        let mut hash = Hash::new();
        let operations = training_step(&*allocator, &layers, &mut hash);
        hash.show(&format!("replay/{}", allocator.name()));
        group.throughput(Throughput::Elements(operations));
        group.bench_function(allocator.name(), |b| {
            b.iter(|| training_step(&*allocator, &layers, &mut Hash::new()));
        });
    }
    group.finish();
}

fn config() -> Criterion {
    let base = Criterion::default().without_plots();
    base.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3))
}

criterion_group! { name = benches; config = config(); targets = pair, churn, replay }

fn main() {
    if std::env::var_os("CENOTE_BACKEND").is_none() {
        std::env::set_var("CENOTE_BACKEND", "host");
    }
    benches();
    config().configure_from_args().final_summary();
}
