//! PyTorch's memory snapshot (`torch.cuda.memory._dump_snapshot`): a pickle of plain values.
//!
//! `device_traces` holds a list of events for each device. A block is freed when the program asks
//! (`free_requested`); `free_completed` is the recorded allocator's own affair. What was live
//! before the first event has no `alloc`: it is found by walking the events with what `segments`
//! says is allocated at the end. The pickle goes through `guard` before it is read; nothing in it
//! is ever executed.

use super::guard::{self, KEYS};
use super::{Builder, Trace};
use crate::failure::{Failure, Outcome};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::path::Path;

/// Read a snapshot: one trace for each device with a history.
pub fn read(path: &Path, bytes: &[u8], name: &str) -> Outcome<Vec<Trace>> {
    guard::check(bytes)
        .map_err(|e| Failure::file(path, format_args!("byte {}: {}", e.offset, e.what)))?;
    let snapshot: Record = serde_pickle::from_slice(bytes, serde_pickle::DeOptions::new())
        .map_err(|e| Failure::file(path, format_args!("not a memory snapshot: {e}")))?;
    let histories: Vec<(usize, &Vec<Record>)> = snapshot
        .device_traces
        .iter()
        .enumerate()
        .filter(|(_, events)| has_history(events))
        .collect();
    if histories.is_empty() {
        return Err(Failure::file(
            path,
            "the snapshot has no allocation history; record it between \
             _record_memory_history() and _dump_snapshot()",
        ));
    }
    let several = histories.len() > 1;
    let mut traces = Vec::with_capacity(histories.len());
    for (device, events) in histories {
        let name = if several { format!("{name} (device {device})") } else { name.into() };
        traces.push(device_trace(path, device, events, &snapshot.segments, name)?);
    }
    Ok(traces)
}

/// One dictionary of a snapshot: the root, a segment, a block or an event. They share their readers
/// because they share their keys; a key that is missing keeps its default.
#[derive(Default)]
struct Record {
    segments: Vec<Record>,
    device_traces: Vec<Vec<Record>>,
    blocks: Vec<Record>,
    device: i64,
    address: Option<u64>,
    size_bytes: Option<u64>,
    requested_bytes: Option<u64>,
    stream: u64,
    action: Action,
    allocated: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Action {
    Alloc,
    FreeRequested,
    FreeCompleted,
    #[default]
    Other,
}

fn has_history(events: &[Record]) -> bool {
    events.iter().any(|e| e.action != Action::Other)
}

/// A value that is stepped over: it is not even unfolded.
struct Skip;

impl<'de> Deserialize<'de> for Skip {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Skip, D::Error> {
        Ok(Skip)
    }
}

impl<'de> Deserialize<'de> for Record {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Record, D::Error> {
        deserializer.deserialize_map(RecordVisitor)
    }
}

struct RecordVisitor;

impl<'de> Visitor<'de> for RecordVisitor {
    type Value = Record;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a dictionary of a memory snapshot")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Record, A::Error> {
        let mut record = Record::default();
        while let Some(key) = map.next_key::<String>()? {
            record.field(&key, &mut map)?;
        }
        Ok(record)
    }
}

impl Record {
    fn field<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        // What is unfolded here must be among the keys that the guard has measured.
        let known = if KEYS.contains(&key) { key } else { "" };
        match known {
            "segments" => self.segments = map.next_value()?,
            "device_traces" => self.device_traces = map.next_value()?,
            "blocks" => self.blocks = map.next_value()?,
            "device" => self.device = map.next_value()?,
            "address" | "addr" => self.address = Some(bits(map.next_value()?)),
            "size" => self.size_bytes = Some(size(map.next_value()?)?),
            "requested_size" => self.requested_bytes = Some(size(map.next_value()?)?),
            "stream" => self.stream = bits(map.next_value()?),
            "state" => self.allocated = map.next_value::<String>()? == "active_allocated",
            "action" => {
                self.action = match map.next_value::<String>()?.as_str() {
                    "alloc" => Action::Alloc,
                    "free_requested" => Action::FreeRequested,
                    "free_completed" => Action::FreeCompleted,
                    _ => Action::Other,
                }
            }
            _ => {
                map.next_value::<Skip>()?;
            }
        }
        Ok(())
    }
}

/// Addresses and stream handles are bit patterns.
fn bits(value: i64) -> u64 {
    value as u64
}

fn size<E: serde::de::Error>(value: i64) -> Result<u64, E> {
    u64::try_from(value).map_err(|_| E::custom(format_args!("size {value} is negative")))
}

/// What is known of an address while the events are walked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Live,
    /// Freed by the program; the recorded allocator still waits for the device.
    Pending,
    Free,
}

fn device_trace(
    path: &Path,
    device: usize,
    events: &[Record],
    segments: &[Record],
    name: String,
) -> Outcome<Trace> {
    let fail = |index: usize, what: &dyn fmt::Display| {
        Failure::file(path, format_args!("device {device}, event {index}: {what}"))
    };
    let mut builder = Builder::new();
    for (address, (size_bytes, stream)) in live_before(device, events, segments) {
        builder
            .alloc(address, size_bytes, stream)
            .map_err(|e| Failure::file(path, format_args!("device {device}: {e}")))?;
    }
    builder.end_of_pre();
    let mut pending: HashMap<u64, State> = HashMap::new();
    for (index, event) in events.iter().enumerate() {
        if event.action == Action::Other {
            continue;
        }
        let address = event.address.ok_or_else(|| fail(index, &"has no addr"))?;
        let done = match event.action {
            Action::Alloc => {
                pending.insert(address, State::Live);
                let size_bytes = event.size_bytes.ok_or_else(|| fail(index, &"has no size"))?;
                builder.alloc(address, size_bytes, event.stream)
            }
            Action::FreeRequested => {
                pending.insert(address, State::Pending);
                builder.free(address, Some(event.stream))
            }
            _ => match pending.insert(address, State::Free) {
                Some(State::Pending) => Ok(()),
                _ => builder.free(address, Some(event.stream)),
            },
        };
        done.map_err(|reject| fail(index, &reject))?;
    }
    Ok(builder.finish(name))
}

/// Blocks live before the first event, in the order of their addresses: those whose first event is
/// a free, and those allocated at the end without any event.
fn live_before(device: usize, events: &[Record], segments: &[Record]) -> BTreeMap<u64, (u64, u64)> {
    let mut before = BTreeMap::new();
    let mut seen = HashSet::new();
    for event in events.iter().filter(|e| e.action != Action::Other) {
        let (Some(address), size_bytes) = (event.address, event.size_bytes.unwrap_or(0)) else {
            continue;
        };
        if seen.insert(address) && event.action != Action::Alloc {
            before.insert(address, (size_bytes, event.stream));
        }
    }
    for segment in segments.iter().filter(|s| usize::try_from(s.device) == Ok(device)) {
        let mut address = segment.address.unwrap_or(0);
        for block in &segment.blocks {
            address = block.address.unwrap_or(address);
            let size_bytes = block.size_bytes.unwrap_or(0);
            if block.allocated && !seen.contains(&address) {
                let asked = block.requested_bytes.unwrap_or(size_bytes);
                before.insert(address, (asked, segment.stream));
            }
            address = address.wrapping_add(size_bytes);
        }
    }
    before
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::OpKind::{Alloc, Free};
    use serde_json::{json, Value};

    fn pickle(value: &Value) -> Vec<u8> {
        serde_pickle::to_vec(value, serde_pickle::SerOptions::new()).unwrap()
    }

    fn parse(value: &Value) -> Outcome<Vec<Trace>> {
        read(Path::new("s.pickle"), &pickle(value), "s")
    }

    fn event(action: &str, addr: u64, size: i64, stream: i64) -> Value {
        let frames = [json!({"filename": "a.py", "line": 1, "name": "f"})];
        json!({"action": action, "addr": addr, "size": size, "stream": stream, "frames": frames,
               "time_us": 1})
    }

    fn block(address: u64, size: i64, requested: i64, state: &str) -> Value {
        json!({"address": address, "size": size, "requested_size": requested, "state": state})
    }

    fn seen(trace: &Trace) -> Vec<(crate::trace::OpKind, u32, u64)> {
        trace.ops.iter().map(|o| (o.kind, o.block, o.size_bytes)).collect()
    }

    #[test]
    fn what_was_live_before_is_found_in_events_and_segments() {
        let blocks = [
            block(4096, 512, 300, "active_allocated"),
            block(4608, 512, 0, "inactive"),
            block(5120, 1024, 1000, "active_allocated"),
            block(6144, 512, 500, "active_pending_free"),
        ];
        let segments =
            [json!({"device": 0, "address": 4096, "stream": 5, "blocks": blocks, "frames": []})];
        let events = [
            event("segment_alloc", 4096, 4096, 5),
            event("free_requested", 4608, 200, 5),
            event("free_completed", 4608, 200, 5),
            event("alloc", 5120, 1000, 6),
            event("free_completed", 9000, 77, 5),
        ];
        let t = parse(&json!({"segments": segments, "device_traces": [events]})).unwrap().remove(0);
        assert_eq!((t.pre_count, t.streams.as_slice()), (3, &[5, 6][..]));
        let before = [(Alloc, 0, 300), (Alloc, 1, 200), (Alloc, 2, 77)];
        assert_eq!(seen(&t)[..3], before);
        assert_eq!(seen(&t)[3..], [(Free, 1, 200), (Alloc, 3, 1000), (Free, 2, 77)]);
    }

    #[test]
    fn each_device_with_a_history_is_a_trace() {
        let traces =
            [json!([event("alloc", 1, 8, 0)]), json!([]), json!([event("alloc", 1, 9, 0)])];
        let t = parse(&json!({"segments": [], "device_traces": traces})).unwrap();
        assert_eq!(
            t.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(),
            ["s (device 0)", "s (device 2)"]
        );
    }

    #[test]
    fn impossible_histories_are_refused() {
        let message = |events: &[Value]| {
            parse(&json!({"segments": [], "device_traces": [events]})).unwrap_err().to_string()
        };
        let twice = [event("alloc", 4096, 8, 0), event("alloc", 4096, 8, 0)];
        assert_eq!(
            message(&twice),
            "s.pickle: device 0, event 1: allocates 0x1000, which is still allocated"
        );
        let freed = [event("free_requested", 4096, 8, 0), event("free_requested", 4096, 8, 0)];
        assert!(message(&freed).contains("event 1: frees 0x1000, which is already free"));
        assert!(message(&[event("alloc", 1, -8, 0)]).contains("size -8 is negative"));
        assert!(message(&[json!({"action": "alloc", "addr": 1})]).contains("event 0: has no size"));
        assert!(message(&[json!({"action": "alloc", "size": 1})]).contains("event 0: has no addr"));
        assert!(message(&[json!({"action": 7})]).contains("not a memory snapshot"));
        assert!(message(&[]).contains("has no allocation history"));
        assert!(parse(&json!([1, 2])).unwrap_err().to_string().contains("not a memory snapshot"));
        assert!(parse(&json!({})).unwrap_err().to_string().contains("no allocation history"));
    }

    #[test]
    fn every_truncation_and_flipped_byte_ends_in_a_result() {
        let events = [event("alloc", 1 << 40, 8, 0), event("free_requested", 1 << 40, 8, 0)];
        let good = pickle(&json!({"segments": [], "device_traces": [events]}));
        for length in 0..good.len() {
            assert!(read(Path::new("s"), &good[..length], "s").is_err(), "{length} bytes");
        }
        for at in 0..good.len() {
            for flip in [0x01, 0x40, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[at] ^= flip;
                // Any result will do: what must not happen is a panic, a hang or a huge allocation.
                let _ = read(Path::new("s"), &bad, "s");
            }
        }
    }
}
