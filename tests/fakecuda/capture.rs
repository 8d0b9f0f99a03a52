//! Stream capture with its rules of what may be called meanwhile.

use std::collections::HashMap;

use crate::abi::{code, Code, Res};
use crate::engine::{StreamKind, Work};
use crate::graph::{Graphs, Node};
use crate::state::State;
use crate::thread;

/// A capture under way.
pub struct Capture {
    /// Mode it was begun in.
    pub mode: u32,
    /// Thread that began it.
    pub thread: u64,
    /// Stream that it was begun in.
    pub origin: u64,
    /// Nodes that the next node of each stream depends on.
    pub frontier: HashMap<u64, Vec<usize>>,
    /// The graph being built.
    pub graph: usize,
    /// A forbidden call broke it.
    pub invalid: bool,
}

/// All captures, and the graphs they make.
pub struct Captures {
    active: HashMap<u64, Capture>,
    next_id: u64,
    /// Graphs, executables and user objects.
    pub graphs: Graphs,
}

impl Captures {
    /// No capture.
    pub fn new() -> Captures {
        Captures { active: HashMap::new(), next_id: 1, graphs: Graphs::new() }
    }

    /// Number of captures under way.
    pub fn active_count(&self) -> usize {
        self.active.len()
    }

    /// A capture under way.
    pub fn get(&self, id: u64) -> Option<&Capture> {
        self.active.get(&id)
    }
}

impl State {
    /// Break a capture; its stream learns it at the next call.
    pub fn invalidate(&mut self, capture: u64) {
        if let Some(capture) = self.captures.active.get_mut(&capture) {
            capture.invalid = true;
        }
    }

    /// A call that may depend on unfinished work of others: forbidden while a capture that concerns
    /// the thread runs, and it breaks that capture.
    pub fn unsafe_in_capture(&mut self) -> Res {
        let mode = thread::mode();
        if self.captures.active.is_empty() || mode == thread::MODE_RELAXED {
            return Ok(());
        }
        let me = thread::id();
        let mut refused = false;
        for capture in self.captures.active.values_mut() {
            let own = capture.thread == me && capture.mode != thread::MODE_RELAXED;
            let global = mode == thread::MODE_GLOBAL && capture.mode == thread::MODE_GLOBAL;
            if own || global {
                capture.invalid = true;
                refused = true;
            }
        }
        if refused {
            return Err(code::STREAM_CAPTURE_UNSUPPORTED);
        }
        Ok(())
    }

    /// Captures in which a stream of the context takes part.
    fn captures_in(&self, context: usize, blocking_only: bool) -> Vec<u64> {
        if self.captures.active.is_empty() {
            return Vec::new();
        }
        let takes_part = |capture: &Capture| {
            capture.frontier.keys().any(|id| {
                let stream = self.engine.streams.get(id);
                stream.is_some_and(|s| {
                    s.context == context && (!blocking_only || s.kind.is_blocking())
                })
            })
        };
        let active = self.captures.active.iter();
        active.filter(|(_, capture)| takes_part(capture)).map(|(id, _)| *id).collect()
    }

    /// The legacy stream is unusable while a blocking stream of its context is captured.
    pub fn legacy_is_blocked(&self, id: u64) -> bool {
        let stream = &self.engine.streams[&id];
        stream.kind == StreamKind::Legacy && !self.captures_in(stream.context, true).is_empty()
    }

    /// Refuse work on such a legacy stream, and the question for its id; the captures break.
    pub fn check_legacy(&mut self, id: u64) -> Res {
        if !self.legacy_is_blocked(id) {
            return Ok(());
        }
        let context = self.engine.streams[&id].context;
        for capture in self.captures_in(context, true) {
            self.invalidate(capture);
        }
        Err(code::STREAM_CAPTURE_IMPLICIT)
    }

    /// Refuse a call that covers all streams of a context while one of them is captured.
    pub fn check_context_captures(&mut self, context: usize) -> Res {
        let captures = self.captures_in(context, false);
        for capture in &captures {
            self.invalidate(*capture);
        }
        if captures.is_empty() {
            return Ok(());
        }
        Err(code::STREAM_CAPTURE_UNSUPPORTED)
    }

    /// Refuse what a captured stream does not answer, in any mode and on any thread: a query, a
    /// wait and even the question for its id; the capture breaks.
    pub fn check_not_captured(&mut self, id: u64) -> Res {
        let Some(capture) = self.engine.streams[&id].capture else { return Ok(()) };
        self.invalidate(capture);
        Err(code::STREAM_CAPTURE_UNSUPPORTED)
    }

    /// Refuse to query or wait for a stream that is captured, or whose legacy stream is blocked.
    pub fn check_stream_wait(&mut self, id: u64) -> Res {
        self.check_not_captured(id)?;
        self.check_legacy(id)?;
        self.unsafe_in_capture()
    }

    /// Begin a capture.
    pub fn begin_capture(&mut self, id: u64, mode: u32) -> Res {
        let stream = &self.engine.streams[&id];
        if mode > thread::MODE_RELAXED {
            return Err(code::INVALID_VALUE);
        }
        if stream.kind == StreamKind::Legacy {
            return Err(code::STREAM_CAPTURE_UNSUPPORTED);
        }
        if stream.capture.is_some() {
            return Err(code::ILLEGAL_STATE);
        }
        let graph = self.captures.graphs.add(true)?;
        let capture = self.captures.next_id;
        self.captures.next_id += 1;
        let frontier = HashMap::from([(id, Vec::new())]);
        let thread = thread::id();
        let record = Capture { mode, thread, origin: id, frontier, graph, invalid: false };
        self.captures.active.insert(capture, record);
        self.set_capture(id, Some(capture));
        Ok(())
    }

    fn set_capture(&mut self, id: u64, capture: Option<u64>) {
        if let Some(stream) = self.engine.streams.get_mut(&id) {
            stream.capture = capture;
        }
    }

    /// The capture that a stream takes part in; an error if it is broken.
    fn valid_capture(&mut self, capture: u64) -> Res<&mut Capture> {
        match self.captures.active.get_mut(&capture) {
            Some(found) if !found.invalid => Ok(found),
            _ => Err(code::STREAM_CAPTURE_INVALIDATED),
        }
    }

    /// Add work to the graph instead of running it.
    pub fn capture_node(&mut self, id: u64, work: Work) -> Res {
        let Some(capture) = self.engine.streams[&id].capture else {
            return Err(code::ILLEGAL_STATE);
        };
        let found = self.valid_capture(capture)?;
        let graph = found.graph;
        let deps = found.frontier.get(&id).cloned().unwrap_or_default();
        let node = self.captures.graphs.add_node(graph, Node { deps, work });
        self.valid_capture(capture)?.frontier.insert(id, vec![node]);
        Ok(())
    }

    /// End a capture and give its graph, or the reason why there is none.
    pub fn end_capture(&mut self, id: u64) -> Res<usize> {
        let capture = self.engine.streams[&id].capture.ok_or(code::ILLEGAL_STATE)?;
        let found = self.captures.active.get(&capture).ok_or(code::ILLEGAL_STATE)?;
        if found.origin != id {
            self.invalidate(capture);
            return Err(code::STREAM_CAPTURE_UNMATCHED);
        }
        if found.mode != thread::MODE_RELAXED && found.thread != thread::id() {
            self.invalidate(capture);
            return Err(code::STREAM_CAPTURE_WRONG_THREAD);
        }
        let failure = if found.invalid {
            Some(code::STREAM_CAPTURE_INVALIDATED)
        } else if !self.is_joined(found) {
            Some(code::STREAM_CAPTURE_UNJOINED)
        } else {
            None
        };
        self.close_capture(capture, failure)
    }

    fn close_capture(&mut self, capture: u64, failure: Option<Code>) -> Res<usize> {
        let found = self.captures.active.remove(&capture).ok_or(code::ILLEGAL_STATE)?;
        for id in found.frontier.keys() {
            self.set_capture(*id, None);
        }
        self.captures.graphs.end_capture(found.graph);
        match failure {
            None => Ok(found.graph),
            Some(error) => {
                self.graph_destroy(found.graph)?;
                Err(error)
            }
        }
    }

    /// A stream that is captured is destroyed: the capture ends with the stream it was begun in.
    /// Without a stream that had joined it, it is broken; what the real driver does then was not
    /// measured.
    pub fn leave_capture(&mut self, id: u64) {
        let Some(capture) = self.engine.streams[&id].capture else { return };
        if self.captures.active.get(&capture).is_some_and(|found| found.origin == id) {
            // The failure is the purpose; nobody waits for the code.
            let _ = self.close_capture(capture, Some(code::STREAM_CAPTURE_INVALIDATED));
            return;
        }
        self.invalidate(capture);
    }

    /// Whether everything captured in forked streams precedes the end of the first stream.
    fn is_joined(&self, capture: &Capture) -> bool {
        let ends = capture.frontier.get(&capture.origin).cloned().unwrap_or_default();
        let before = self.captures.graphs.ancestors(capture.graph, ends);
        let mut forks = capture.frontier.iter().filter(|(id, _)| **id != capture.origin);
        forks.all(|(_, nodes)| nodes.iter().all(|node| before.contains(node)))
    }

    /// Abort the captures of a context that ends.
    pub fn abort_captures_of(&mut self, context: usize) {
        for capture in self.captures_in(context, false) {
            // The failure is the purpose; nobody waits for the code.
            let _ = self.close_capture(capture, Some(code::STREAM_CAPTURE_INVALIDATED));
        }
    }

    /// Record an event on a stream: a point of its work, or of its capture.
    pub fn event_record(&mut self, event: usize, id: u64) -> Res {
        let context = self.event(event)?.context;
        let stream = &self.engine.streams[&id];
        if stream.context != context {
            return Err(code::INVALID_HANDLE);
        }
        if let Some(capture) = stream.capture {
            let nodes = self.valid_capture(capture)?.frontier.get(&id).cloned();
            let event = self.event(event)?;
            event.captured = Some((capture, nodes.unwrap_or_default()));
            event.points.clear();
            return Ok(());
        }
        self.check_legacy(id)?;
        let point = self.enqueue(id, Vec::new(), Work::Marker);
        let event = self.event(event)?;
        event.points = vec![point];
        event.captured = None;
        Ok(())
    }

    /// Record an event that covers all work of a context.
    pub fn event_record_context(&mut self, context: usize, event: usize) -> Res {
        if self.event(event)?.context != context {
            return Err(code::INVALID_HANDLE);
        }
        self.check_context_captures(context)?;
        let points = self.engine.tails(context);
        let event = self.event(event)?;
        event.points = points;
        event.captured = None;
        Ok(())
    }

    /// Refuse to query or wait for an event where a capture forbids it.
    pub fn check_event_wait(&mut self, event: usize) -> Res {
        let found = self.event(event)?;
        let (context, captured) = (found.context, found.captured.as_ref().map(|(id, _)| *id));
        self.live_context(context)?;
        if let Some(capture) = captured {
            self.invalidate(capture);
            return Err(code::CAPTURED_EVENT);
        }
        self.unsafe_in_capture()
    }

    /// Let a stream wait for an event.
    pub fn stream_wait(&mut self, id: u64, event: usize) -> Res {
        let found = self.event(event)?;
        let (points, captured) = (found.points.clone(), found.captured.clone());
        let own = self.engine.streams[&id].capture;
        match (captured, own) {
            (Some((capture, nodes)), _) => self.join_capture(id, capture, nodes),
            (None, Some(capture)) => {
                self.valid_capture(capture)?;
                if points.is_empty() {
                    return Ok(());
                }
                self.invalidate(capture);
                Err(code::STREAM_CAPTURE_ISOLATION)
            }
            (None, None) => {
                self.check_legacy(id)?;
                self.enqueue(id, points, Work::Marker);
                Ok(())
            }
        }
    }

    /// A stream waits for an event of a capture: it joins that capture.
    fn join_capture(&mut self, id: u64, capture: u64, nodes: Vec<usize>) -> Res {
        if !self.captures.active.contains_key(&capture) {
            return Err(code::CAPTURED_EVENT);
        }
        if let Some(own) = self.engine.streams[&id].capture.filter(|own| *own != capture) {
            self.invalidate(own);
            self.invalidate(capture);
            return Err(code::STREAM_CAPTURE_MERGE);
        }
        if self.engine.streams[&id].kind == StreamKind::Legacy {
            self.invalidate(capture);
            return Err(code::STREAM_CAPTURE_IMPLICIT);
        }
        let frontier = self.valid_capture(capture)?.frontier.entry(id).or_default();
        for node in nodes {
            if !frontier.contains(&node) {
                frontier.push(node);
            }
        }
        self.set_capture(id, Some(capture));
        Ok(())
    }
}
