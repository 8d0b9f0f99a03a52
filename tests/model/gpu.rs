//! Blocks of the fake driver, written and read by kernels in stream order.

use crate::api;
use crate::fake::{Fake, Kernel};
use crate::holds;
use crate::pool::{Block, Device, Outcome};
use cenote::ffi::types::CENOTE_STREAM_PERSISTENT;

/// Length of a range that a kernel writes or checks in a large block.
const SPOT: u64 = 256;

/// One stream: the driver's handle, and the value that calls get.
#[derive(Clone, Copy)]
struct Stream {
    raw: usize,
    named: u64,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Default,
    Raw,
    Registered,
}

/// A device of the fake driver with two default streams, three raw ones and a registered one.
pub struct Gpu<'a> {
    fake: &'a Fake,
    streams: Vec<Stream>,
    events: Vec<usize>,
    /// Ids of stopped streams; a destroyed one may be among them.
    held: Vec<u64>,
}

impl<'a> Gpu<'a> {
    /// Make the streams.
    pub fn new(fake: &'a Fake) -> Gpu<'a> {
        fake.cu.start(0);
        let mut gpu = Gpu { fake, streams: Vec::new(), events: Vec::new(), held: Vec::new() };
        for raw in [0, 2] {
            gpu.streams.push(Stream { raw, named: raw as u64, kind: Kind::Default });
        }
        for kind in [Kind::Raw, Kind::Raw, Kind::Raw, Kind::Registered] {
            let stream = gpu.made(kind);
            gpu.streams.push(stream);
        }
        gpu
    }

    fn made(&self, kind: Kind) -> Stream {
        let raw = self.fake.cu.stream(true);
        let named = match kind {
            Kind::Registered => api::register(0, raw as u64, CENOTE_STREAM_PERSISTENT),
            _ => Ok(raw as u64),
        };
        Stream { raw, named: named.expect("a live stream can be registered"), kind }
    }

    fn end(&self, stream: Stream) {
        if stream.kind == Kind::Registered {
            api::retire(stream.named).expect("a registered stream can be retired");
        }
        if stream.kind != Kind::Default {
            assert_eq!(self.fake.cu.cuStreamDestroy_v2(stream.raw), 0);
        }
    }

    fn raw(&self, number: usize) -> usize {
        self.streams[number % self.streams.len()].raw
    }

    /// Check the block on a stream, after the write.
    fn check(&self, block: &Block, stream: usize) -> Outcome {
        let raw = self.raw(stream);
        let waited = self.fake.cu.cuStreamWaitEvent(raw, block.note as usize, 0);
        holds!(waited == 0, "cuStreamWaitEvent gives {waited}");
        for (addr, len) in spots(block) {
            let kernel = Kernel::instant().checking(addr, len as usize, block.tag);
            let launched = self.fake.launch(raw, kernel);
            holds!(launched == 0, "a launch gives {launched}");
        }
        Ok(())
    }

    fn mistakes(&self) -> Outcome {
        let texts = self.fake.violation_texts();
        holds!(texts.is_empty(), "violations: {texts:?}");
        let wrong = self.fake.mismatches();
        holds!(wrong == 0, "kernels found {wrong} wrong bytes");
        Ok(())
    }
}

/// Ranges of a block that are written: both ends, and what lies around the middle.
fn spots(block: &Block) -> Vec<(u64, u64)> {
    let (addr, size) = (block.addr, block.size);
    if size <= 4 * SPOT {
        return vec![(addr, size)];
    }
    [0, size / 3, size / 2, size - SPOT].map(|at| (addr + at, SPOT)).to_vec()
}

impl Device for Gpu<'_> {
    fn stream(&self, number: usize) -> u64 {
        self.streams[number % self.streams.len()].named
    }

    fn asynchronous(&self) -> bool {
        true
    }

    fn late(&self) -> bool {
        std::env::var_os("FAKECUDA_LAG_OPS").is_some()
    }

    fn write(&mut self, block: &mut Block) -> Outcome {
        let raw = self.raw(block.stream);
        for (addr, len) in spots(block) {
            let kernel = Kernel::instant().writing(addr, len as usize, block.tag);
            let launched = self.fake.launch(raw, kernel);
            holds!(launched == 0, "a launch gives {launched}");
        }
        block.note = self.fake.cu.recorded(raw) as u64;
        self.events.push(block.note as usize);
        Ok(())
    }

    fn read(&mut self, block: &Block, stream: usize) -> Outcome {
        self.check(block, stream)
    }

    fn finish(&mut self, block: &Block, stream: usize) -> Outcome {
        self.check(block, stream)
    }

    fn step(&mut self) {}

    fn hold(&mut self, stream: usize) {
        self.held.push(self.fake.hold(self.raw(stream)));
    }

    fn release(&mut self) {
        self.held.drain(..).for_each(|id| self.fake.unhold(id));
    }

    fn stopped(&self) -> bool {
        !self.held.is_empty()
    }

    fn renew(&mut self, stream: usize) -> bool {
        let number = stream % self.streams.len();
        let old = self.streams[number];
        if old.kind == Kind::Default {
            return false;
        }
        self.end(old);
        self.streams[number] = self.made(old.kind);
        true
    }

    fn settle(&mut self) -> Outcome {
        self.release();
        let code = self.fake.cu.cuCtxSynchronize();
        holds!(code == 0, "cuCtxSynchronize gives {code}");
        self.mistakes()
    }

    fn empty(&mut self) -> Outcome {
        let (stats, used) = (self.fake.stats(), self.fake.used_bytes(0));
        let left = (used, stats.mappings, stats.handles, stats.reservations);
        holds!(left == (0, 0, 0, 0), "left in the driver: {left:?}");
        self.mistakes()
    }
}

impl Drop for Gpu<'_> {
    fn drop(&mut self) {
        self.release();
        self.streams.iter().for_each(|&stream| self.end(stream));
        for event in self.events.drain(..) {
            assert_eq!(self.fake.cu.cuEventDestroy_v2(event), 0);
        }
    }
}
