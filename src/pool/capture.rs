//! Stream captures: memory private to a graph, and when it is released.

use super::Pool;
use crate::base::{Error, Result, Status};
use crate::heap::blocks::Route;
use crate::heap::{Heap, NO_GRAPH};
use crate::space::Sort;
use crate::stream::StreamRef;
use parking_lot::{Mutex, MutexGuard};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// CU_STREAM_PER_THREAD.
const PER_THREAD: u64 = 2;

/// A capture that took memory from this pool.
struct Capture {
    graph: u64,
    /// Handles of the streams seen in it: the driver tells no id while a stream is captured.
    streams: Vec<u64>,
    running: bool,
    /// Set by the driver when the graph and all its executables are gone. Leaked with the graph:
    /// the driver keeps its address for as long as it likes.
    gone: &'static AtomicBool,
}

/// Captures of a pool.
#[derive(Default)]
pub(super) struct Captures {
    list: Mutex<Vec<Capture>>,
}

/// Captures known to run, of all pools: an event of the context would break each of them.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// The driver's call: sets a flag and nothing else.
unsafe extern "C" fn graph_gone(cookie: *mut c_void) {
    // SAFETY: the cookie is the leaked flag that `Captures::note` gave to the driver.
    unsafe { &*cookie.cast::<AtomicBool>() }.store(true, Ordering::Release);
}

/// A told capture begins or ends somewhere, whether or not it allocates.
pub fn told(begins: bool) {
    if begins {
        RUNNING.fetch_add(1, Ordering::Relaxed);
    } else {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Captures {
    /// The stream is not being captured now: what ran on it has ended.
    #[inline]
    pub fn ended(&self, stream: u64) {
        // One handle names the default stream of every thread: it says nothing about this one.
        if stream != PER_THREAD && RUNNING.load(Ordering::Relaxed) != 0 {
            self.ended_slow(stream);
        }
    }

    #[cold]
    fn ended_slow(&self, stream: u64) {
        for c in self.list.lock().iter_mut() {
            if c.running && c.streams.contains(&stream) {
                c.running = false;
                RUNNING.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// True if some known capture of any pool may still run.
    pub fn any_running(&self) -> bool {
        RUNNING.load(Ordering::Relaxed) != 0
    }

    /// True if a known capture may still run on the stream.
    pub fn runs_on(&self, stream: u64) -> bool {
        self.any_running()
            && self.list.lock().iter().any(|c| c.running && c.streams.contains(&stream))
    }

    fn note(&self, graph: u64, stream: u64) -> Option<&'static AtomicBool> {
        let mut list = self.list.lock();
        if let Some(c) = list.iter_mut().find(|c| c.graph == graph) {
            if !c.streams.contains(&stream) {
                c.streams.push(stream);
            }
            return None;
        }
        let gone: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
        list.push(Capture { graph, streams: vec![stream], running: true, gone });
        RUNNING.fetch_add(1, Ordering::Relaxed);
        Some(gone)
    }

    /// Forget a capture; true if it was known.
    fn forget(&self, graph: u64) -> bool {
        let mut list = self.list.lock();
        let Some(at) = list.iter().position(|c| c.graph == graph) else { return false };
        if list.swap_remove(at).running {
            RUNNING.fetch_sub(1, Ordering::Relaxed);
        }
        true
    }

    /// The pool is gone, and with it what it knew.
    pub fn clear(&self) {
        for c in self.list.lock().drain(..) {
            if c.running {
                RUNNING.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    fn gone(&self) -> Vec<u64> {
        let list = self.list.lock();
        list.iter().filter(|c| c.gone.load(Ordering::Acquire)).map(|c| c.graph).collect()
    }

    fn is_empty(&self) -> bool {
        self.list.lock().is_empty()
    }
}

impl Pool {
    /// Region and stream index for an allocation inside a capture.
    pub(super) fn captured(
        &self,
        heap: &mut MutexGuard<'_, Heap>,
        stream: &StreamRef,
        route: Route,
    ) -> Result<(u16, u32)> {
        let Some(capture) = stream.capture.filter(|c| c.id != 0) else {
            return Err(Error::new(Status::E_CAPTURE, "the capture of the stream is broken"));
        };
        if let Some(flag) = self.captures.note(capture.id, stream.raw) {
            if capture.graph != 0 {
                let cookie = std::ptr::from_ref(flag).cast_mut().cast();
                let (device, graph) = (self.desc.device, capture.graph);
                // Without user objects the memory stays until the pool is destroyed.
                let _ = self.backend.graph_retain(device, graph, graph_gone, cookie);
            }
        }
        let sort = route.sort();
        let found = (0..heap.regions.len())
            .find(|&r| heap.regions[r].graph == capture.id && heap.regions[r].sort == sort);
        let region = match found.or_else(|| self.recycled_region(heap, capture.id, sort)) {
            Some(region) => region,
            None => {
                MutexGuard::unlocked(heap, || self.add_region(sort, capture.id))?;
                heap.regions.len() - 1
            }
        };
        Ok((region as u16, self.captured_stream(heap, stream, capture.id)))
    }

    fn recycled_region(&self, heap: &mut Heap, graph: u64, sort: Sort) -> Option<usize> {
        let r = heap
            .regions
            .iter()
            .position(|r| r.graph == NO_GRAPH && r.live == 0 && r.sort == sort)?;
        heap.regions[r].graph = graph;
        Some(r)
    }

    /// Inside a capture a stream counts as another one: what is freed there serves the same capture
    /// only.
    fn captured_stream(&self, heap: &mut Heap, stream: &StreamRef, graph: u64) -> u32 {
        if !heap.asynchronous {
            return 0;
        }
        let key = (1 << 63) | (graph.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ stream.key) >> 1;
        let inside = StreamRef { key, persistent: false, ..*stream };
        let now = heap.now_ms;
        heap.streams.intern(&inside, now)
    }

    /// The index under which a free on the stream counts, for a block of the region.
    pub(super) fn freeing_stream(&self, heap: &mut Heap, region: u16, stream: &StreamRef) -> u32 {
        match stream.capture {
            Some(c) if c.id != 0 && heap.regions[region as usize].graph == c.id => {
                self.captured_stream(heap, stream, c.id)
            }
            _ => self.stream_index(heap, stream),
        }
    }

    /// A told capture of the stream has begun or ended.
    pub fn capture_ended(&self, stream: u64) {
        self.captures.ended(stream);
    }

    /// Release a graph's private memory; true if this pool had some.
    pub fn release_graph(&self, graph: u64) -> bool {
        if !self.captures.forget(graph) {
            return false;
        }
        self.heap.lock().release_graph(graph);
        true
    }

    /// Release the memory of graphs that the driver says are gone.
    pub(super) fn collect_graphs(&self, heap: &mut Heap) {
        if self.captures.is_empty() {
            return;
        }
        for graph in self.captures.gone() {
            if self.captures.forget(graph) {
                heap.release_graph(graph);
            }
        }
    }
}
