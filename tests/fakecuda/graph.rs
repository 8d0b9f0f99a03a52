//! Graphs, executables and user objects.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::abi::{code, HostFn, Res};
use crate::callback::Job;
use crate::engine::{Point, Work};
use crate::handle::HandleSpace;
use crate::state::State;

/// A node of a graph.
#[derive(Clone)]
pub struct Node {
    /// Nodes before it.
    pub deps: Vec<usize>,
    /// What it does.
    pub work: Work,
}

#[derive(Default)]
struct Graph {
    nodes: Vec<Node>,
    objects: HashMap<usize, u64>,
    capturing: bool,
}

struct Exec {
    nodes: Arc<Vec<Node>>,
    objects: HashMap<usize, u64>,
    last: Option<Point>,
    pending: u64,
    destroyed: bool,
}

struct UserObject {
    func: HostFn,
    data: usize,
    /// References of the program.
    own: u64,
    /// References of graphs and executables.
    graphs: u64,
}

/// All graphs.
pub struct Graphs {
    graphs: HashMap<usize, Graph>,
    execs: HashMap<u64, Exec>,
    exec_handles: HashMap<usize, u64>,
    objects: HashMap<usize, UserObject>,
    graph_space: HandleSpace,
    exec_space: HandleSpace,
    object_space: HandleSpace,
    next_exec: u64,
}

impl Graphs {
    /// No graphs.
    pub fn new() -> Graphs {
        Graphs {
            graphs: HashMap::new(),
            execs: HashMap::new(),
            exec_handles: HashMap::new(),
            objects: HashMap::new(),
            graph_space: HandleSpace::new(),
            exec_space: HandleSpace::new(),
            object_space: HandleSpace::new(),
            next_exec: 1,
        }
    }

    /// Graphs, executables and user objects that are alive.
    pub fn live(&self) -> (usize, usize, usize) {
        (self.graphs.len(), self.exec_handles.len(), self.objects.len())
    }

    /// A new graph.
    pub fn add(&mut self, capturing: bool) -> Res<usize> {
        let handle = self.graph_space.take().ok_or(code::OUT_OF_MEMORY)?;
        self.graphs.insert(handle, Graph { capturing, ..Graph::default() });
        Ok(handle)
    }

    /// The capture that builds the graph is over.
    pub fn end_capture(&mut self, graph: usize) {
        if let Some(graph) = self.graphs.get_mut(&graph) {
            graph.capturing = false;
        }
    }

    /// Append a node; its number.
    pub fn add_node(&mut self, graph: usize, node: Node) -> usize {
        let Some(graph) = self.graphs.get_mut(&graph) else { return 0 };
        graph.nodes.push(node);
        graph.nodes.len() - 1
    }

    /// The nodes themselves and all nodes before them.
    pub fn ancestors(&self, graph: usize, mut open: Vec<usize>) -> HashSet<usize> {
        let mut seen = HashSet::new();
        let Some(graph) = self.graphs.get(&graph) else { return seen };
        while let Some(node) = open.pop() {
            if seen.insert(node) {
                open.extend(&graph.nodes[node].deps);
            }
        }
        seen
    }
}

fn check_count(count: u32) -> Res<u64> {
    if count == 0 || count > i32::MAX as u32 {
        return Err(code::INVALID_VALUE);
    }
    Ok(u64::from(count))
}

impl State {
    fn objects(&mut self) -> &mut HashMap<usize, UserObject> {
        &mut self.captures.graphs.objects
    }

    /// Create a user object; the program owns `initial` references.
    pub fn object_create(
        &mut self,
        data: usize,
        func: HostFn,
        initial: u32,
        flags: u32,
    ) -> Res<usize> {
        let own = check_count(initial)?;
        if func.is_none() || flags != 1 {
            return Err(code::INVALID_VALUE);
        }
        let handle = self.captures.graphs.object_space.take().ok_or(code::OUT_OF_MEMORY)?;
        self.objects().insert(handle, UserObject { func, data, own, graphs: 0 });
        Ok(handle)
    }

    /// More references for the program.
    pub fn object_retain(&mut self, object: usize, count: u32) -> Res {
        let count = check_count(count)?;
        let found = self.objects().get_mut(&object).ok_or(code::INVALID_VALUE)?;
        found.own += count;
        Ok(())
    }

    /// The program gives references back.
    pub fn object_release(&mut self, object: usize, count: u32) -> Res {
        let count = check_count(count)?;
        let found = self.objects().get_mut(&object).ok_or(code::INVALID_VALUE)?;
        if found.own < count {
            self.violation("a user object was released more often than retained".to_owned());
            return Err(code::INVALID_VALUE);
        }
        found.own -= count;
        self.object_check(object);
        Ok(())
    }

    /// Without references the destructor runs, later and on another thread.
    fn object_check(&mut self, object: usize) {
        let dead = self.objects().get(&object).is_some_and(|o| o.own == 0 && o.graphs == 0);
        let Some(gone) = dead.then(|| self.objects().remove(&object)).flatten() else { return };
        self.captures.graphs.object_space.give(object);
        self.schedule(Job::Destructor { func: gone.func, data: gone.data });
    }

    /// Let a graph own references; with MOVE they come from the program's.
    pub fn graph_retain(&mut self, graph: usize, object: usize, count: u32, flags: u32) -> Res {
        let count = check_count(count)?;
        let graphs = &mut self.captures.graphs;
        let found = graphs.objects.get_mut(&object).ok_or(code::INVALID_VALUE)?;
        let graph = graphs.graphs.get_mut(&graph).ok_or(code::INVALID_VALUE)?;
        if flags > 1 || (flags == 1 && found.own < count) {
            return Err(code::INVALID_VALUE);
        }
        if flags == 1 {
            found.own -= count;
        }
        found.graphs += count;
        *graph.objects.entry(object).or_insert(0) += count;
        Ok(())
    }

    /// A graph gives references back.
    pub fn graph_release(&mut self, graph: usize, object: usize, count: u32) -> Res {
        let count = check_count(count)?;
        let graphs = &mut self.captures.graphs;
        let graph = graphs.graphs.get_mut(&graph).ok_or(code::INVALID_VALUE)?;
        let held = graph.objects.get_mut(&object).ok_or(code::INVALID_VALUE)?;
        if *held < count {
            return Err(code::INVALID_VALUE);
        }
        *held -= count;
        if *held == 0 {
            graph.objects.remove(&object);
        }
        self.drop_objects(&HashMap::from([(object, count)]));
        Ok(())
    }

    fn drop_objects(&mut self, objects: &HashMap<usize, u64>) {
        for (object, count) in objects {
            if let Some(found) = self.objects().get_mut(object) {
                found.graphs -= count;
            }
            self.object_check(*object);
        }
    }

    /// Destroy a graph that is not being captured.
    pub fn graph_destroy(&mut self, handle: usize) -> Res {
        let graphs = &mut self.captures.graphs;
        let known = graphs.graphs.get(&handle).is_some_and(|graph| !graph.capturing);
        let Some(graph) = known.then(|| graphs.graphs.remove(&handle)).flatten() else {
            self.violation("a graph was destroyed that is unknown or being captured".to_owned());
            return Err(code::INVALID_VALUE);
        };
        graphs.graph_space.give(handle);
        self.drop_objects(&graph.objects);
        Ok(())
    }

    /// Make an executable; it keeps the graph's user objects too.
    pub fn graph_instantiate(&mut self, graph: usize) -> Res<usize> {
        let graphs = &mut self.captures.graphs;
        let found = graphs.graphs.get(&graph).filter(|graph| !graph.capturing);
        let found = found.ok_or(code::INVALID_VALUE)?;
        let handle = graphs.exec_space.take().ok_or(code::OUT_OF_MEMORY)?;
        let objects: HashMap<usize, u64> = found.objects.keys().map(|o| (*o, 1)).collect();
        for object in objects.keys() {
            graphs.objects.entry(*object).and_modify(|object| object.graphs += 1);
        }
        let nodes = Arc::new(found.nodes.clone());
        let exec = Exec { nodes, objects, last: None, pending: 0, destroyed: false };
        let id = graphs.next_exec;
        graphs.next_exec += 1;
        graphs.execs.insert(id, exec);
        graphs.exec_handles.insert(handle, id);
        Ok(handle)
    }

    fn exec_id(&self, handle: usize) -> Res<u64> {
        self.captures.graphs.exec_handles.get(&handle).copied().ok_or(code::INVALID_VALUE)
    }

    /// Launch an executable: its nodes run in stream order, after its previous launch.
    pub fn graph_launch(&mut self, handle: usize, id: u64) -> Res {
        let exec = self.exec_id(handle)?;
        if let Some(capture) = self.engine.streams[&id].capture {
            self.invalidate(capture);
            return Err(code::STREAM_CAPTURE_UNSUPPORTED);
        }
        self.check_legacy(id)?;
        let found = self.captures.graphs.execs.get_mut(&exec).ok_or(code::INVALID_VALUE)?;
        found.pending += 1;
        let (nodes, last) = (found.nodes.clone(), found.last);
        self.enqueue(id, last.into_iter().collect(), Work::Marker);
        for node in nodes.iter() {
            self.enqueue(id, Vec::new(), node.work.clone());
        }
        let point = self.enqueue(id, Vec::new(), Work::LaunchDone(exec));
        if let Some(found) = self.captures.graphs.execs.get_mut(&exec) {
            found.last = Some(point);
        }
        Ok(())
    }

    /// A launch ended; an executable that was destroyed meanwhile goes now.
    pub fn launch_done(&mut self, exec: u64) {
        if let Some(found) = self.captures.graphs.execs.get_mut(&exec) {
            found.pending -= 1;
        }
        self.exec_check(exec);
    }

    /// Destroy an executable; a running launch keeps it until it ends.
    pub fn exec_destroy(&mut self, handle: usize) -> Res {
        let exec = self.exec_id(handle)?;
        self.captures.graphs.exec_handles.remove(&handle);
        self.captures.graphs.exec_space.give(handle);
        if let Some(found) = self.captures.graphs.execs.get_mut(&exec) {
            found.destroyed = true;
        }
        self.exec_check(exec);
        Ok(())
    }

    fn exec_check(&mut self, exec: u64) {
        let execs = &mut self.captures.graphs.execs;
        let dead = execs.get(&exec).is_some_and(|found| found.destroyed && found.pending == 0);
        if let Some(gone) = dead.then(|| execs.remove(&exec)).flatten() {
            self.drop_objects(&gone.objects);
        }
    }
}
