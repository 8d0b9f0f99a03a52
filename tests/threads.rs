//! Eight threads that allocate, free and hand blocks to each other while another trims without
//! pause: no byte of a live block changes, and in the end everything is accounted for.

#[path = "support/api.rs"]
mod api;

use api::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::time::{Duration, Instant};

const THREADS: usize = 8;
/// How long the threads work.
const WORK: Duration = Duration::from_secs(2);
/// Blocks that a thread keeps at most.
const KEPT: usize = 40;

/// A block filled with a byte of its own at both ends and in between.
#[derive(Clone, Copy)]
struct Block {
    addr: u64,
    size: u64,
    tag: u8,
}

impl Block {
    fn spots(self) -> impl Iterator<Item = *mut u8> {
        let last = self.addr + self.size - 1;
        let between = (self.addr..last).step_by(1 << 19);
        between.chain([self.addr + self.size / 2, last]).map(|addr| addr as *mut u8)
    }

    fn fill(self) {
        // SAFETY: the block is live and memory of the host backend can be written.
        self.spots().for_each(|spot| unsafe { spot.write_volatile(self.tag) });
    }

    fn check(self) {
        for spot in self.spots() {
            // SAFETY: the block is live and memory of the host backend can be read.
            let found = unsafe { spot.read_volatile() };
            assert_eq!(found, self.tag, "a byte of {:#x}+{} changed", self.addr, self.size);
        }
    }
}

/// A generator of its own for each thread, from a fixed seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    fn size(&mut self) -> u64 {
        match self.below(10) {
            0..4 => 1 + self.below(4096),
            4..7 => 1 + self.below(200_000),
            7..9 => 1 + self.below(2 * MIB),
            _ => 1 + self.below(12 * MIB),
        }
    }
}

/// What a thread has to do with.
struct Worker {
    pool: u64,
    stream: u64,
    random: Random,
    others: Vec<Sender<Block>>,
    inbox: Receiver<Block>,
    allocs: u64,
}

impl Worker {
    fn work(mut self, stop: &AtomicBool) -> u64 {
        let mut kept: Vec<Block> = Vec::new();
        while !stop.load(Relaxed) {
            kept.extend(self.inbox.try_iter());
            match self.random.below(8) {
                0..4 if kept.len() < KEPT => kept.push(self.allocate()),
                4 if !kept.is_empty() => {
                    let block = self.pick(&mut kept);
                    let to = self.random.below(self.others.len() as u64) as usize;
                    // A thread that has left its channel leaves the block to this one.
                    if let Err(back) = self.others[to].send(block) {
                        kept.push(back.0);
                    }
                }
                _ if !kept.is_empty() => {
                    let block = self.pick(&mut kept);
                    self.free(block);
                }
                _ => {}
            }
        }
        drop(std::mem::take(&mut self.others));
        // Until every other thread has let go of its senders: no block is lost on the way.
        kept.extend(self.inbox.iter());
        kept.into_iter().for_each(|block| self.free(block));
        self.allocs
    }

    fn pick(&mut self, kept: &mut Vec<Block>) -> Block {
        let at = self.random.below(kept.len() as u64) as usize;
        kept.swap_remove(at)
    }

    fn allocate(&mut self) -> Block {
        let (size, tag) = (self.random.size(), 1 + self.random.below(250) as u8);
        let addr = alloc(self.pool, size, self.stream).expect("there is memory enough");
        self.allocs += 1;
        let block = Block { addr, size, tag };
        block.fill();
        block
    }

    fn free(&mut self, block: Block) {
        block.check();
        if block.tag.is_multiple_of(2) {
            free(block.addr, self.stream).unwrap();
        } else {
            free_sized(block.addr, block.size, self.stream).unwrap();
        }
    }
}

fn workers(pool: u64) -> Vec<Worker> {
    let (senders, inboxes): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| channel()).unzip();
    let with_inbox = inboxes.into_iter().enumerate();
    with_inbox
        .map(|(i, inbox)| Worker {
            pool,
            stream: 100 + i as u64,
            random: Random(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(i as u64 + 1)),
            others: senders.clone(),
            inbox,
            allocs: 0,
        })
        .collect()
}

/// Trims, asks and polls without pause; the number of rounds.
fn trim_without_pause(pool: u64, stop: &AtomicBool) -> u64 {
    let mut rounds = 0;
    while !stop.load(Relaxed) {
        trim(pool, if rounds % 3 == 0 { 16 * MIB } else { 0 }).unwrap();
        if rounds % 5 == 0 {
            empty_cache(0).unwrap();
            poll().unwrap();
        }
        let s = stats(pool);
        assert!(s.live_bytes <= s.used_bytes && s.used_bytes <= s.held_bytes, "figures");
        rounds += 1;
    }
    rounds
}

fn stress() {
    let pool = pool_limited(0);
    let (stop, allocs) = (AtomicBool::new(false), AtomicU64::new(0));
    let rounds = std::thread::scope(|scope| {
        let _stops = Stops(&stop);
        for worker in workers(pool) {
            let (stop, allocs) = (&stop, &allocs);
            scope.spawn(move || allocs.fetch_add(worker.work(stop), Relaxed));
        }
        let trimmer = scope.spawn(|| trim_without_pause(pool, &stop));
        let start = Instant::now();
        while start.elapsed() < WORK && !trimmer.is_finished() {
            std::thread::sleep(Duration::from_millis(10));
        }
        stop.store(true, Relaxed);
        trimmer.join().expect("the trimming thread does not panic")
    });
    let s = stats(pool);
    let allocs = allocs.into_inner();
    println!("{allocs} blocks, {rounds} trims, {} handles taken over", s.takeover_count);
    assert!(allocs > 1000 && rounds > 10, "{allocs} blocks and {rounds} trims show nothing");
    assert_eq!((s.alloc_count, s.free_count), (allocs, allocs));
    assert_eq!((s.live_blocks, s.live_bytes, s.used_bytes), (0, 0, 0));
    for _ in 0..3 {
        (0..100).for_each(|_| cenote::runtime::tick());
        trim(pool, 0).unwrap();
    }
    assert_eq!(stats(pool).held_bytes, 0);
    destroy(pool).unwrap();
}

#[test]
fn threads_on_the_host() {
    on_host();
    stress();
}

/// Stops a loop at the end of a scope, reached or not.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// The same with streams that matter: events complete a little late.
#[test]
fn threads_with_late_completions() {
    in_own_process("threads_with_late_completions", &[("CENOTE_LAG", "20")], || {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    cenote::runtime::tick();
                    std::thread::sleep(Duration::from_micros(20));
                }
            });
            let _stops = Stops(&stop);
            stress();
        });
    });
}
