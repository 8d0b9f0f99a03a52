//! cenote's own trace file (`.cenotetrace`): a recording of 13,000 operations takes about 25 kB.
//!
//! ```text
//! magic    "cenotetr"                     8 bytes
//! version  1                              1 byte
//! counts   pre, operations, streams, sizes
//! streams  the value of each stream
//! sizes    each size that occurs, the commonest first
//! ops      payload * 4 + tag, one number each:
//!            tag 0  allocate; payload: index into sizes
//!            tag 1  free; payload: allocations since the block's own (0: the latest)
//!            tag 2  the following operations are on another stream; payload: its index
//! check    FNV-1a 64 of everything before, little-endian, 8 bytes
//! ```
//!
//! Numbers are LEB128: seven bits a byte, low ones first. Blocks need no names, because a free says
//! how long ago its block was allocated; stream changes do not count as operations; the first
//! stream is current at the start. There are no texts and no times in the file.

use super::{Builder, Op, OpKind, Trace};
use crate::failure::{Failure, Outcome};
use std::collections::HashMap;
use std::fmt;
use std::path::Path;

/// First bytes of every file.
pub const MAGIC: &[u8; 8] = b"cenotetr";
const VERSION: u8 = 1;
const CHECK_BYTES: usize = 8;

const TAG_ALLOC: u64 = 0;
const TAG_FREE: u64 = 1;
const TAG_STREAM: u64 = 2;

/// The file's bytes for a trace.
pub fn write(trace: &Trace) -> Vec<u8> {
    let sizes = sizes_by_frequency(&trace.ops);
    let index: HashMap<u64, u64> = sizes.iter().zip(0..).map(|(size, i)| (*size, i)).collect();
    let mut out = Vec::with_capacity(64 + sizes.len() * 4 + trace.ops.len() * 2);
    out.extend(MAGIC);
    out.push(VERSION);
    for count in [trace.pre_count, trace.ops.len(), trace.streams.len(), sizes.len()] {
        push(&mut out, count as u64);
    }
    for value in trace.streams.iter().chain(&sizes) {
        push(&mut out, *value);
    }
    let (mut stream, mut allocated) = (0, 0u64);
    for op in &trace.ops {
        if op.stream != stream {
            stream = op.stream;
            push(&mut out, u64::from(stream) << 2 | TAG_STREAM);
        }
        match op.kind {
            OpKind::Alloc => {
                allocated += 1;
                push(&mut out, index[&op.size_bytes] << 2 | TAG_ALLOC);
            }
            OpKind::Free => push(&mut out, (allocated - 1 - u64::from(op.block)) << 2 | TAG_FREE),
        }
    }
    let check = fnv(&out);
    out.extend(check.to_le_bytes());
    out
}

/// Read a file.
pub fn read(path: &Path, bytes: &[u8], name: String) -> Outcome<Trace> {
    let mut input = Input { bytes, at: 0 };
    parse(&mut input, name).map_err(|what| {
        Failure::file(path, format_args!("byte {}: {what}", input.at.min(input.bytes.len())))
    })
}

fn parse(input: &mut Input, name: String) -> Result<Trace, String> {
    let opened = open(input)?;
    let counts = [input.count()?, input.count()?, input.count()?, input.count()?];
    let [pre_count, op_count, stream_count, size_count] = counts;
    if pre_count > op_count {
        return Err("more operations before recording than in all".into());
    }
    let streams = input.numbers(stream_count)?;
    let sizes = input.numbers(size_count)?;
    let mut reader = Ops { builder: Builder::new(), streams, sizes, stream: 0, allocated: 0 };
    let mut done = 0;
    while done < op_count {
        if done == pre_count {
            reader.builder.end_of_pre();
        }
        done += usize::from(reader.step(input.number()?)?);
    }
    if done == pre_count {
        reader.builder.end_of_pre();
    }
    if input.at != opened {
        return Err("more bytes than the counts allow".into());
    }
    if op_count == 0 {
        return Err("holds no operation".into());
    }
    Ok(reader.builder.finish(name))
}

/// Check what frames the file; the offset at which its content ends.
fn open(input: &mut Input) -> Result<usize, String> {
    let frame = MAGIC.len() + 1 + CHECK_BYTES;
    if !input.bytes.starts_with(MAGIC) {
        return Err("not a cenote trace".into());
    }
    if let Some(version) = input.bytes.get(MAGIC.len()).filter(|v| **v != VERSION) {
        return Err(format!("format version {version}; this cenote reads version {VERSION}"));
    }
    if input.bytes.len() < frame {
        return Err("the file ends too early".into());
    }
    let (content, check) = input.bytes.split_at(input.bytes.len() - CHECK_BYTES);
    if check != fnv(content).to_le_bytes() {
        return Err("the check sum does not fit: the file is cut off or damaged".into());
    }
    input.bytes = content;
    input.at = MAGIC.len() + 1;
    Ok(content.len())
}

struct Ops {
    builder: Builder,
    streams: Vec<u64>,
    sizes: Vec<u64>,
    stream: usize,
    allocated: u64,
}

impl Ops {
    /// One number of the operation list; true if it was an operation.
    fn step(&mut self, number: u64) -> Result<bool, String> {
        let (payload, tag) = (number >> 2, number & 3);
        match tag {
            TAG_ALLOC => {
                let size_bytes = *get(&self.sizes, payload).ok_or("a size that is not listed")?;
                let stream = *self.streams.get(self.stream).ok_or("no stream is listed")?;
                // Blocks are keyed by the number of their allocation.
                self.builder.alloc(self.allocated, size_bytes, stream).map_err(text)?;
                self.allocated += 1;
            }
            TAG_FREE => {
                let block = self.allocated.checked_sub(payload + 1);
                let block = block.ok_or("frees what was never allocated")?;
                let stream = *self.streams.get(self.stream).ok_or("no stream is listed")?;
                self.builder.free(block, Some(stream)).map_err(text)?;
            }
            TAG_STREAM => {
                get(&self.streams, payload).ok_or("a stream that is not listed")?;
                self.stream = payload as usize;
                return Ok(false);
            }
            _ => return Err("an operation of an unknown kind".into()),
        }
        Ok(true)
    }
}

fn get(list: &[u64], index: u64) -> Option<&u64> {
    list.get(usize::try_from(index).ok()?)
}

fn text(what: impl fmt::Display) -> String {
    what.to_string()
}

fn sizes_by_frequency(ops: &[Op]) -> Vec<u64> {
    let mut counts: HashMap<u64, usize> = HashMap::new();
    for op in ops.iter().filter(|op| op.kind == OpKind::Alloc) {
        *counts.entry(op.size_bytes).or_default() += 1;
    }
    let mut sizes: Vec<(u64, usize)> = counts.into_iter().collect();
    sizes.sort_by_key(|(size, count)| (usize::MAX - count, *size));
    sizes.into_iter().map(|(size, _)| size).collect()
}

fn push(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Input<'_> {
    fn number(&mut self) -> Result<u64, String> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.get(self.at).ok_or("the file ends too early")?;
            self.at += 1;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                break;
            }
            value |= part << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number of more than 64 bits".into())
    }

    /// A number of things that each take at least a byte: more than there are bytes is a lie.
    fn count(&mut self) -> Result<usize, String> {
        let value = self.number()?;
        let left = self.bytes.len() - self.at;
        usize::try_from(value)
            .ok()
            .filter(|v| *v <= left)
            .ok_or_else(|| format!("a count of {value} in a file with {left} bytes left"))
    }

    fn numbers(&mut self, count: usize) -> Result<Vec<u64>, String> {
        (0..count).map(|_| self.number()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Trace {
        let mut b = Builder::new();
        b.alloc(1, 4096, 0).unwrap();
        b.alloc(2, u64::from(u32::MAX) * 7, 0).unwrap();
        b.end_of_pre();
        b.alloc(3, 512, 0xdead_beef_0000).unwrap();
        b.free(1, Some(0)).unwrap();
        for i in 0..300 {
            b.alloc(10 + i, 512 * (1 + i % 5), i % 3).unwrap();
        }
        b.free(3, Some(2)).unwrap();
        b.finish("t".into())
    }

    fn parse_bytes(bytes: &[u8]) -> Outcome<Trace> {
        read(Path::new("f"), bytes, "t".into())
    }

    fn framed(body: &[u64]) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.push(VERSION);
        body.iter().for_each(|v| push(&mut out, *v));
        let check = fnv(&out);
        out.extend(check.to_le_bytes());
        out
    }

    #[test]
    fn what_is_written_is_read_again() {
        let trace = sample();
        let bytes = write(&trace);
        assert!(bytes.len() < 3 * trace.ops.len(), "{} bytes", bytes.len());
        assert_eq!(parse_bytes(&bytes).unwrap(), trace);
    }

    #[test]
    fn all_pre_is_kept() {
        let mut b = Builder::new();
        b.alloc(1, 8, 3).unwrap();
        b.end_of_pre();
        let trace = b.finish("t".into());
        assert_eq!(parse_bytes(&write(&trace)).unwrap(), trace);
    }

    #[test]
    fn damage_is_found() {
        let good = write(&sample());
        for length in 0..good.len() {
            assert!(parse_bytes(&good[..length]).is_err(), "{length} bytes");
        }
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert!(parse_bytes(&bad).is_err(), "byte {at}");
        }
    }

    #[test]
    fn lies_under_a_good_check_sum_are_refused() {
        let message = |body: &[u64]| parse_bytes(&framed(body)).unwrap_err().to_string();
        assert!(message(&[0, u64::MAX, 1, 1]).contains("a count of 18446744073709551615"));
        assert!(message(&[2, 1, 1, 1, 0, 8, 0]).contains("more operations before recording"));
        assert!(message(&[0, 1, 1, 1, 0, 8, 4]).contains("a size that is not listed"));
        assert!(message(&[0, 1, 0, 1, 8, 0]).contains("no stream is listed"));
        assert!(message(&[0, 1, 1, 1, 0, 8, 1]).contains("frees what was never allocated"));
        assert!(message(&[0, 1, 1, 1, 0, 8, 6]).contains("a stream that is not listed"));
        assert!(message(&[0, 1, 1, 1, 0, 8, 3]).contains("unknown kind"));
        assert!(message(&[0, 3, 1, 1, 0, 8, 0, 1, 1]).contains("already free"));
        assert!(message(&[0, 2, 1, 1, 0, 8, 0]).contains("ends too early"));
        assert!(message(&[0, 1, 1, 1, 0, 8, 0, 0]).contains("more bytes than"));
        assert!(message(&[0, 0, 0, 0]).contains("holds no operation"));
        let huge = [0, 2, 1, 1, 0, u64::MAX, 0, 0];
        assert!(message(&huge).contains("more than 2^63 bytes"));
        assert!(message(&[0, 1, 1, 1, 0, 8, u64::MAX]).contains("unknown kind"));
        assert!(message(&[0, 1, 1, 1, 0, 8, u64::MAX - 2]).contains("never allocated"));
    }

    #[test]
    fn other_versions_are_told() {
        let mut bytes = write(&sample());
        bytes[MAGIC.len()] = 9;
        let message = parse_bytes(&bytes).unwrap_err().to_string();
        assert_eq!(message, "f: byte 0: format version 9; this cenote reads version 1");
    }

    #[test]
    fn overlong_numbers_are_refused() {
        let mut out = MAGIC.to_vec();
        out.push(VERSION);
        out.extend([0xff; 12]);
        let check = fnv(&out);
        out.extend(check.to_le_bytes());
        let message = parse_bytes(&out).unwrap_err().to_string();
        assert!(message.contains("more than 64 bits"), "{message}");
    }
}
