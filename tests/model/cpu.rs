//! Blocks of the host backend, written and read by the CPU.

use crate::holds;
use crate::pool::{Block, Device, Outcome};
use crate::program::STREAMS;

/// Distance of the bytes that are written in a large block; less than a page of any backend.
const STRIDE: u64 = 1 << 16;

/// The CPU.
pub struct Cpu;

/// Addresses in a block that carry its tag: both ends and points in between.
fn spots(block: &Block) -> impl Iterator<Item = u64> {
    let (addr, last) = (block.addr, block.addr + block.size - 1);
    (addr..last).step_by(STRIDE as usize).chain([addr + block.size / 2, last])
}

impl Cpu {
    fn check(block: &Block) -> Outcome {
        for spot in spots(block) {
            // SAFETY: the block is live and memory of the host backend can be read.
            let found = unsafe { (spot as *const u8).read_volatile() };
            let (tag, addr) = (block.tag, block.addr);
            holds!(found == tag, "{found} in place of {tag} at {addr:#x}+{:#x}", spot - addr);
        }
        Ok(())
    }
}

impl Device for Cpu {
    fn stream(&self, number: usize) -> u64 {
        // Any value that is not registered is a stream of the host.
        (number % STREAMS) as u64
    }

    fn asynchronous(&self) -> bool {
        std::env::var_os("CENOTE_LAG").is_some()
    }

    fn late(&self) -> bool {
        self.asynchronous()
    }

    fn write(&mut self, block: &mut Block) -> Outcome {
        for spot in spots(block) {
            // SAFETY: the block is live and memory of the host backend can be written.
            unsafe { (spot as *mut u8).write_volatile(block.tag) };
        }
        Ok(())
    }

    fn read(&mut self, block: &Block, _: usize) -> Outcome {
        Cpu::check(block)
    }

    fn finish(&mut self, block: &Block, _: usize) -> Outcome {
        Cpu::check(block)
    }

    fn step(&mut self) {
        cenote::runtime::tick();
    }

    fn hold(&mut self, _: usize) {}

    fn release(&mut self) {}

    fn stopped(&self) -> bool {
        false
    }

    fn renew(&mut self, _: usize) -> bool {
        false
    }

    fn settle(&mut self) -> Outcome {
        (0..100).for_each(|_| cenote::runtime::tick());
        Ok(())
    }

    fn empty(&mut self) -> Outcome {
        Ok(())
    }
}
