//! Live and held bytes over a pass, thinned to what a picture can show.

/// Most points of a curve.
const MOST_POINTS: usize = 2_000;

/// A curve over the operations of a pass.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// The points in order; each stands for `stride` operations.
    pub points: Vec<Point>,
    /// Operations a point stands for.
    pub stride: usize,
    op_count: usize,
}

/// Some operations in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// Number of the last operation, counted from 1.
    pub op: usize,
    /// Most bytes live among them.
    pub live_bytes: u64,
    /// Bytes held after the last of them, and never less than were live.
    pub held_bytes: u64,
}

impl Curve {
    /// A curve over a number of operations.
    pub fn new(op_count: usize) -> Curve {
        let stride = op_count.div_ceil(MOST_POINTS).max(1);
        Curve { points: Vec::with_capacity(op_count.div_ceil(stride)), stride, op_count }
    }

    /// Bytes live after operation `index`; true if the held bytes are wanted now.
    pub fn live(&mut self, index: usize, live_bytes: u64) -> bool {
        if index.is_multiple_of(self.stride) {
            self.points.push(Point::default());
        }
        if let Some(point) = self.points.last_mut() {
            point.op = index + 1;
            point.live_bytes = point.live_bytes.max(live_bytes);
        }
        (index + 1).is_multiple_of(self.stride) || index + 1 == self.op_count
    }

    /// Bytes held at the point just finished. Every live byte is held, so the most that was live
    /// bounds it from below where pages went back inside the stride.
    pub fn held(&mut self, held_bytes: u64) {
        if let Some(point) = self.points.last_mut() {
            point.held_bytes = held_bytes.max(point.live_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_traces_are_kept_whole_and_long_ones_thinned() {
        for op_count in [1, 7, 1_999, 2_000, 2_001, 13_495, 1_000_000] {
            let mut curve = Curve::new(op_count);
            for index in 0..op_count {
                if curve.live(index, (index as u64 * 37) % 1_000) {
                    curve.held(500);
                }
            }
            assert!(curve.points.len() <= MOST_POINTS, "{op_count}: {}", curve.points.len());
            assert_eq!(curve.points.last().unwrap().op, op_count);
            assert!(curve.points.iter().all(|p| p.held_bytes >= p.live_bytes && p.held_bytes > 0));
            let peak = (0..op_count as u64).map(|i| (i * 37) % 1_000).max();
            assert_eq!(curve.points.iter().map(|p| p.live_bytes).max(), peak);
        }
    }
}
