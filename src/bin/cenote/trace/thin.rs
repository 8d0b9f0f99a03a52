//! Makes a trace smaller and keeps it a trace: a part of its time, or only its larger blocks.

use super::{Builder, OpKind, Reject, Trace};

/// What to keep.
#[derive(Clone, Copy, Debug)]
pub struct Thinning {
    /// Operations after the recording's start to leave out; what is live then counts as live
    /// before.
    pub skip_ops: usize,
    /// Most operations to keep after that.
    pub max_ops: usize,
    /// Smallest block to keep.
    pub min_bytes: u64,
}

impl Thinning {
    /// The part of a trace that is asked for. Frees of blocks left out are left out too.
    pub fn apply(&self, trace: &Trace) -> Result<Trace, Reject> {
        let start = trace.pre_count.saturating_add(self.skip_ops).min(trace.ops.len());
        let end = start.saturating_add(self.max_ops).min(trace.ops.len());
        let mut live = vec![None; trace.block_count as usize];
        for op in &trace.ops[..start] {
            let slot = &mut live[op.block as usize];
            *slot = (op.kind == OpKind::Alloc).then_some(*op);
        }
        let mut builder = Builder::new();
        for op in live.into_iter().flatten().filter(|op| op.size_bytes >= self.min_bytes) {
            let stream = trace.streams[usize::from(op.stream)];
            builder.alloc(u64::from(op.block), op.size_bytes, stream)?;
        }
        builder.end_of_pre();
        for op in trace.ops[start..end].iter().filter(|op| op.size_bytes >= self.min_bytes) {
            let (key, stream) = (u64::from(op.block), trace.streams[usize::from(op.stream)]);
            match op.kind {
                OpKind::Alloc => builder.alloc(key, op.size_bytes, stream)?,
                OpKind::Free => builder.free(key, Some(stream))?,
            }
        }
        Ok(builder.finish(trace.name.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Trace {
        let mut b = Builder::new();
        b.alloc(1, 100, 0).unwrap();
        b.alloc(2, 10, 0).unwrap();
        b.end_of_pre();
        b.alloc(3, 200, 5).unwrap();
        b.free(1, None).unwrap();
        b.alloc(4, 20, 0).unwrap();
        b.free(2, None).unwrap();
        b.free(3, None).unwrap();
        b.finish("t".into())
    }

    fn kept(skip_ops: usize, max_ops: usize, min_bytes: u64) -> Trace {
        Thinning { skip_ops, max_ops, min_bytes }.apply(&sample()).unwrap()
    }

    #[test]
    fn all_of_it_is_the_same_trace() {
        assert_eq!(kept(0, usize::MAX, 0), sample());
    }

    #[test]
    fn what_is_live_at_the_cut_was_live_before() {
        let t = kept(2, 2, 0);
        let sizes: Vec<u64> = t.ops.iter().map(|o| o.size_bytes).collect();
        assert_eq!((t.pre_count, sizes.as_slice()), (2, &[10, 200, 20, 10][..]));
        assert_eq!(kept(99, 99, 0).ops.len(), 1, "only the last block is live at the end");
    }

    #[test]
    fn small_blocks_go_with_their_frees() {
        let t = kept(0, usize::MAX, 100);
        let sizes: Vec<u64> = t.ops.iter().map(|o| o.size_bytes).collect();
        assert_eq!((t.pre_count, sizes.as_slice()), (1, &[100, 200, 100, 200][..]));
        assert!(kept(0, usize::MAX, 1_000).ops.is_empty());
    }
}
