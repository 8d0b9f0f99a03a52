//! Walks a pickle before it is read, and lets through only what a memory snapshot can be: plain
//! containers and scalars, properly nested, with lengths that the file really has.
//!
//! The reader behind this builds a tree and walks it by recursion, copying what the pickle refers
//! to twice. For a hostile file that means a stack overflow or a tree of 2^60 nodes from 200 bytes,
//! so depth and the size of the unfolded tree are computed here first, from opcodes alone. A
//! container may not grow once it is part of another: pickles of values that do not contain
//! themselves never do that, and it makes both figures exact. Values that the reader does not
//! unfold (call stacks, which snapshots share freely) count as one.

use std::collections::HashMap;
use std::fmt;

/// Dictionary keys whose values the reader looks at; every other value it steps over.
pub const KEYS: &[&str] = &[
    "segments",
    "device_traces",
    "blocks",
    "device",
    "address",
    "addr",
    "size",
    "requested_size",
    "stream",
    "state",
    "action",
];

/// Open marks and containers inside one another; a snapshot needs about eight.
const MOST_DEPTH: u32 = 64;
/// Integers in a snapshot have 64 bits; LONG1 adds a sign byte.
const MOST_INT_BYTES: usize = 9;

/// Why a pickle is refused, and where.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Offset of the opcode in the file.
    pub offset: usize,
    /// What is wrong.
    pub what: String,
}

/// A value on the pickle's stack.
#[derive(Clone, Copy)]
enum Item {
    /// A scalar; true if it is a string that names a value to be stepped over.
    Scalar { skipped_key: bool },
    /// A container: index of its node.
    Node(u32),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Tuple,
    List,
    Dict,
}

/// A container: nodes of its unfolded tree, levels, and whether it is part of another.
struct Node {
    weight: u64,
    depth: u32,
    shape: Shape,
    sealed: bool,
}

/// Check a whole pickle.
pub fn check(bytes: &[u8]) -> Result<(), Refusal> {
    let mut walk = Walk {
        bytes,
        at: 0,
        opcode_at: 0,
        stack: Vec::new(),
        marks: Vec::new(),
        nodes: Vec::new(),
        memo: HashMap::new(),
    };
    while walk.step()? {}
    Ok(())
}

struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    opcode_at: usize,
    stack: Vec<Item>,
    marks: Vec<usize>,
    nodes: Vec<Node>,
    memo: HashMap<u32, Item>,
}

impl Walk<'_> {
    /// One opcode; false after the last.
    fn step(&mut self) -> Result<bool, Refusal> {
        self.opcode_at = self.at;
        let opcode = self.take(1)?[0];
        match opcode {
            0x80 => drop(self.take(1)?),
            0x95 => drop(self.take(8)?),
            b'.' => return self.stop().map(|()| false),
            b'(' => self.mark()?,
            b'q' | b'r' | 0x94 | b'h' | b'j' => self.memo_opcode(opcode)?,
            b'N' | 0x88 | 0x89 => self.scalar(0)?,
            b'K' => self.scalar(1)?,
            b'M' => self.scalar(2)?,
            b'J' => self.scalar(4)?,
            b'G' => self.scalar(8)?,
            0x8a => self.long()?,
            0x8c | b'C' | b'U' => self.text(1)?,
            b'X' | b'B' | b'T' => self.text(4)?,
            0x8d | 0x8e => self.text(8)?,
            b')' | b']' | b'}' | 0x85..=0x87 | b't' | b'l' | b'd' => self.new_opcode(opcode)?,
            b'a' | b's' | b'e' | b'u' => self.add_opcode(opcode)?,
            _ => return Err(self.refuse(foreign(opcode))),
        }
        Ok(true)
    }

    fn refuse(&self, what: impl fmt::Display) -> Refusal {
        Refusal { offset: self.opcode_at, what: what.to_string() }
    }

    fn take(&mut self, count: usize) -> Result<&[u8], Refusal> {
        let left = self.bytes.len() - self.at;
        if count > left {
            let what = format!("the file ends {} bytes too early", count - left);
            return Err(self.refuse(what));
        }
        self.at += count;
        Ok(&self.bytes[self.at - count..self.at])
    }

    /// A little-endian number of 1, 4 or 8 bytes.
    fn number(&mut self, width: usize) -> Result<u64, Refusal> {
        let taken = self.take(width)?;
        Ok(taken.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    fn stop(&mut self) -> Result<(), Refusal> {
        let root = self.pop()?;
        if self.at != self.bytes.len() {
            return Err(self.refuse("the pickle ends here, but the file goes on"));
        }
        // A value that is written once takes at least a byte; a little sharing is normal.
        let most = 4_096 + 8 * self.bytes.len() as u64;
        if self.measure(root).0 > most {
            return Err(self.refuse("shared containers unfold to far more than the file holds"));
        }
        Ok(())
    }

    fn mark(&mut self) -> Result<(), Refusal> {
        if self.marks.len() as u32 >= MOST_DEPTH {
            return Err(self.refuse("nested too deeply"));
        }
        self.marks.push(self.stack.len());
        Ok(())
    }

    fn memo_opcode(&mut self, opcode: u8) -> Result<(), Refusal> {
        let index = match opcode {
            b'q' | b'h' => self.number(1)? as u32,
            b'r' | b'j' => self.number(4)? as u32,
            _ => self.memo.len() as u32,
        };
        if matches!(opcode, b'h' | b'j') {
            let found = self.memo.get(&index).copied();
            self.stack.push(found.ok_or_else(|| self.refuse("refers to a value never stored"))?);
        } else {
            let top = self.top()?;
            self.memo.insert(index, top);
        }
        Ok(())
    }

    fn new_opcode(&mut self, opcode: u8) -> Result<(), Refusal> {
        let children = match opcode {
            b't' | b'l' | b'd' => self.pop_marked()?,
            0x85..=0x87 => self.pop_many(usize::from(opcode - 0x84))?,
            _ => Vec::new(),
        };
        let shape = match opcode {
            b']' | b'l' => Shape::List,
            b'}' | b'd' => Shape::Dict,
            _ => Shape::Tuple,
        };
        self.gather(shape, &children)
    }

    fn add_opcode(&mut self, opcode: u8) -> Result<(), Refusal> {
        let (children, shape) = match opcode {
            b'a' => (self.pop_many(1)?, Shape::List),
            b's' => (self.pop_many(2)?, Shape::Dict),
            b'e' => (self.pop_marked()?, Shape::List),
            _ => (self.pop_marked()?, Shape::Dict),
        };
        self.grow(shape, &children)
    }

    fn scalar(&mut self, width: usize) -> Result<(), Refusal> {
        self.take(width)?;
        self.stack.push(Item::Scalar { skipped_key: false });
        Ok(())
    }

    fn long(&mut self) -> Result<(), Refusal> {
        let length = self.number(1)? as usize;
        if length > MOST_INT_BYTES {
            return Err(self.refuse("an integer of more than 64 bits"));
        }
        self.scalar(length)
    }

    fn text(&mut self, width: usize) -> Result<(), Refusal> {
        let length = usize::try_from(self.number(width)?).unwrap_or(usize::MAX);
        let text = self.take(length)?;
        let skipped_key = !KEYS.iter().any(|key| key.as_bytes() == text);
        self.stack.push(Item::Scalar { skipped_key });
        Ok(())
    }

    fn pop(&mut self) -> Result<Item, Refusal> {
        let floor = self.marks.last().copied().unwrap_or(0);
        if self.stack.len() <= floor {
            return Err(self.refuse("takes a value that is not there"));
        }
        self.stack.pop().ok_or_else(|| self.refuse("takes a value that is not there"))
    }

    fn top(&mut self) -> Result<Item, Refusal> {
        let top = self.pop()?;
        self.stack.push(top);
        Ok(top)
    }

    /// The uppermost values, taken off the stack.
    fn pop_many(&mut self, count: usize) -> Result<Vec<Item>, Refusal> {
        let floor = self.marks.last().copied().unwrap_or(0);
        if self.stack.len() < floor + count {
            return Err(self.refuse("takes a value that is not there"));
        }
        Ok(self.stack.split_off(self.stack.len() - count))
    }

    /// Everything above the last mark, taken off the stack.
    fn pop_marked(&mut self) -> Result<Vec<Item>, Refusal> {
        let from = self.marks.pop().ok_or_else(|| self.refuse("closes a mark never set"))?;
        Ok(self.stack.split_off(from))
    }

    /// A new container that holds `children`.
    fn gather(&mut self, shape: Shape, children: &[Item]) -> Result<(), Refusal> {
        let index = self.nodes.len() as u32;
        self.nodes.push(Node { weight: 1, depth: 1, shape, sealed: false });
        self.stack.push(Item::Node(index));
        self.adopt(index, children)
    }

    /// Put `children` into the container on top of the stack.
    fn grow(&mut self, shape: Shape, children: &[Item]) -> Result<(), Refusal> {
        match self.top()? {
            Item::Node(index) if self.nodes[index as usize].shape == shape => {
                if self.nodes[index as usize].sealed {
                    return Err(self.refuse("a container grows inside another, or holds itself"));
                }
                self.adopt(index, children)
            }
            _ => Err(self.refuse("adds to something that is no such container")),
        }
    }

    fn adopt(&mut self, index: u32, children: &[Item]) -> Result<(), Refusal> {
        let shape = self.nodes[index as usize].shape;
        if shape == Shape::Dict && !children.len().is_multiple_of(2) {
            return Err(self.refuse("a dictionary with a key that has no value"));
        }
        let (mut weight, mut depth) = (0u64, 0);
        for (i, child) in children.iter().enumerate() {
            if let Item::Node(inner) = child {
                if *inner == index {
                    return Err(self.refuse("a container grows inside another, or holds itself"));
                }
                self.nodes[*inner as usize].sealed = true;
            }
            let (child_weight, child_depth) = self.measure(*child);
            depth = depth.max(child_depth);
            let stepped_over = shape == Shape::Dict
                && i % 2 == 1
                && matches!(children[i - 1], Item::Scalar { skipped_key: true });
            weight = weight.saturating_add(if stepped_over { 1 } else { child_weight });
        }
        let node = &mut self.nodes[index as usize];
        node.weight = node.weight.saturating_add(weight);
        node.depth = node.depth.max(depth + 1);
        if node.depth > MOST_DEPTH {
            return Err(self.refuse("nested too deeply"));
        }
        Ok(())
    }

    fn measure(&self, item: Item) -> (u64, u32) {
        match item {
            Item::Scalar { .. } => (1, 0),
            Item::Node(index) => {
                let node = &self.nodes[index as usize];
                (node.weight, node.depth)
            }
        }
    }
}

/// What to say about an opcode that no snapshot has.
fn foreign(opcode: u8) -> String {
    match opcode {
        b'c' | b'i' | b'o' | b'R' | b'b' | b'P' | b'Q' | 0x81..=0x84 | 0x92 | 0x93 => {
            "names a class or function; only plain containers and scalars are read".into()
        }
        _ => format!("opcode {opcode:#04x} is none that a memory snapshot has"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(bytes: &[u8]) -> String {
        check(bytes).expect_err("must be refused").what
    }

    #[test]
    fn plain_values_pass() {
        let all =
            b"\x80\x04\x95\0\0\0\0\0\0\0\0}\x94(\x8c\x01a\x94K\x01h\x01]\x94(M\x01\0J\0\0\0\0e\
            \x8c\x01b\x8a\x02\0\x01\x8c\x01cN\x88\x86u.";
        assert_eq!(check(all), Ok(()));
        assert_eq!(refusal(b"}(Nu."), "a dictionary with a key that has no value");
        let good = b"\x80\x04}\x94(\x8c\x01a\x94]\x94(K\x01G\0\0\0\0\0\0\0\0e\x8c\x01bN\x88\x86u.";
        assert_eq!(check(good), Ok(()));
    }

    #[test]
    fn classes_and_functions_are_refused() {
        for code in [&b"cos\nsystem\n."[..], b"\x8c\x02os\x8c\x06system\x93.", b"(ios\nsystem\n."] {
            assert!(refusal(code).contains("names a class or function"), "{code:?}");
        }
        let reduce = b"\x80\x04)R.";
        assert_eq!(check(reduce).unwrap_err().offset, 3);
        assert!(refusal(b"S'text'\n.").contains("opcode 0x53"));
        assert!(refusal(b"\x97.").contains("opcode 0x97"));
    }

    #[test]
    fn every_truncation_is_refused() {
        let good = b"\x80\x04}\x94(\x8c\x01a\x94]\x94(K\x01G\0\0\0\0\0\0\0\0e\x8c\x01bN\x88\x86u.";
        for length in 0..good.len() {
            assert!(check(&good[..length]).is_err(), "{length} bytes");
        }
        assert!(refusal(b"N.N").contains("the file goes on"));
    }

    #[test]
    fn lengths_beyond_the_file_are_refused() {
        assert!(refusal(b"X\xff\xff\xff\xffab").contains("too early"));
        assert!(refusal(b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffab").contains("too early"));
        assert!(refusal(b"\x8a\xffaa").contains("more than 64 bits"));
    }

    #[test]
    fn deep_nesting_is_refused() {
        assert_eq!(refusal(&[b'('; 100_000]), "nested too deeply");
        let mut tuples = vec![b'N'];
        tuples.extend([0x85; 100_000]);
        assert_eq!(refusal(&tuples), "nested too deeply");
        let mut lists = vec![b']'; 100_000];
        lists.extend([b'a'; 100_000]);
        assert_eq!(refusal(&lists), "nested too deeply");
    }

    #[test]
    fn sharing_that_explodes_is_refused() {
        // [] then 40 times: a tuple of the last value twice.
        let mut bomb = b"]q\0".to_vec();
        for i in 0..40u8 {
            bomb.extend([b'h', i, 0x86, b'q', i + 1]);
        }
        bomb.push(b'.');
        assert!(refusal(&bomb).contains("unfold to far more"));
        // The same under a key that is stepped over is harmless: it is never unfolded.
        let mut framed = b"}\x8c\x06frames".to_vec();
        framed.extend(&bomb[..bomb.len() - 1]);
        framed.extend(b"s.");
        assert_eq!(check(&framed), Ok(()));
        let mut seen = b"}\x8c\x06blocks".to_vec();
        seen.extend(&bomb[..bomb.len() - 1]);
        seen.extend(b"s.");
        assert!(refusal(&seen).contains("unfold to far more"));
    }

    #[test]
    fn values_that_hold_themselves_are_refused() {
        let itself = b"]q\0h\0a.";
        assert!(refusal(itself).contains("holds itself"));
        // a = []; b = [a]; a.append(b)
        let around = b"]q\0]q\x01h\0aah\0h\x01a.";
        assert!(refusal(around).contains("holds itself"));
    }

    #[test]
    fn a_broken_stack_is_refused() {
        for code in [&b"."[..], b"a.", b"(a.", b"u.", b"e.", b"t.", b"\x87.", b"Nq\0Na.", b"h\x09."]
        {
            assert!(check(code).is_err(), "{code:?}");
        }
        assert!(refusal(b"NNa.").contains("no such container"));
    }
}
