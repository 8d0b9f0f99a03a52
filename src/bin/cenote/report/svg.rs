//! The live and held curve of a trace as an inline SVG.
//!
//! Colours are classes, so that the page's light and dark themes apply. Drawn here and not by a
//! plotting library, because the page must carry its theme into the picture.

use super::units;
use crate::replay::curve::Curve;
use std::fmt::Write;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 48.0;

/// Maps operations and bytes to the picture.
struct Scale {
    ops: f64,
    bytes: f64,
}

impl Scale {
    fn x(&self, op: f64) -> f64 {
        LEFT + op / self.ops * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, bytes: f64) -> f64 {
        HEIGHT - BOTTOM - bytes / self.bytes * (HEIGHT - TOP - BOTTOM)
    }
}

/// The picture; empty text if there is no curve.
pub fn curve(curve: &Curve) -> String {
    let Some(last) = curve.points.last() else { return String::new() };
    let highest = curve.points.iter().map(|p| p.held_bytes.max(p.live_bytes)).max().unwrap_or(0);
    let (unit, unit_name) = units::unit_of(highest);
    let steps = ticks(highest.max(1) as f64 / unit as f64, 5, 0.0);
    let top = steps.last().copied().unwrap_or(1.0) * unit as f64;
    let scale = Scale { ops: last.op as f64, bytes: top };
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"Live and held bytes over the operations of the first pass\">\n"
    );
    axes(&mut svg, &scale, &steps, unit as f64, unit_name);
    let live = stepped(curve, &scale, |p| p.live_bytes);
    let (x0, x1, y0) = (scale.x(0.0), scale.x(scale.ops), scale.y(0.0));
    let _ =
        writeln!(svg, "<path class=\"live-area\" d=\"M{x0:.1} {y0:.1}{live}H{x1:.1}V{y0:.1}Z\"/>");
    let start = curve.points.first().map_or(0.0, |p| p.live_bytes as f64);
    let _ = writeln!(svg, "<path class=\"live\" d=\"M{x0:.1} {:.1}{live}\"/>", scale.y(start));
    let held = stepped(curve, &scale, |p| p.held_bytes);
    let start = curve.points.first().map_or(0.0, |p| p.held_bytes as f64);
    let _ = writeln!(svg, "<path class=\"held\" d=\"M{x0:.1} {:.1}{held}\"/>", scale.y(start));
    peak(&mut svg, curve, &scale);
    svg.push_str("</svg>\n");
    svg
}

/// The steps of a curve: a value holds from one point's operation to the next.
fn stepped(
    curve: &Curve,
    scale: &Scale,
    value: impl Fn(&crate::replay::curve::Point) -> u64,
) -> String {
    let (mut path, mut from, mut y_before) = (String::new(), 0.0, f64::NAN);
    for point in &curve.points {
        let y = scale.y(value(point) as f64);
        // Runs of one height need no points between.
        if (y - y_before).abs() >= 0.05 || y_before.is_nan() {
            let _ = write!(path, "H{:.1}V{y:.1}", scale.x(from));
            y_before = y;
        }
        from = point.op as f64;
    }
    let _ = write!(path, "H{:.1}", scale.x(scale.ops));
    path
}

fn axes(svg: &mut String, scale: &Scale, steps: &[f64], unit: f64, unit_name: &str) {
    let (x0, x1, y0) = (scale.x(0.0), scale.x(scale.ops), scale.y(0.0));
    for step in steps {
        let y = scale.y(step * unit);
        let _ = writeln!(svg, "<path class=\"grid\" d=\"M{x0:.1} {y:.1}H{x1:.1}\"/>");
        let _ = writeln!(
            svg,
            "<text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{} {unit_name}</text>",
            x0 - 8.0,
            y + 4.0,
            plain(*step)
        );
    }
    for step in ticks(scale.ops, 8, 1.0).into_iter().filter(|s| *s <= scale.ops) {
        let x = scale.x(step);
        let _ = writeln!(svg, "<path class=\"axis\" d=\"M{x:.1} {y0:.1}v5\"/>");
        let label = units::count(step as u64);
        let _ =
            writeln!(svg, "<text class=\"mid\" x=\"{x:.1}\" y=\"{:.1}\">{label}</text>", y0 + 18.0);
    }
    let _ = writeln!(svg, "<path class=\"axis\" d=\"M{x0:.1} {y0:.1}H{x1:.1}\"/>");
    let _ = writeln!(
        svg,
        "<text class=\"mid\" x=\"{:.1}\" y=\"{:.1}\">operations (allocations and frees)</text>",
        (x0 + x1) / 2.0,
        HEIGHT - 8.0
    );
}

/// Marks where the most was held, with the figure beside it.
fn peak(svg: &mut String, curve: &Curve, scale: &Scale) {
    let Some(most) = curve.points.iter().map(|p| p.held_bytes).max() else { return };
    let Some(first) = curve.points.iter().find(|p| p.held_bytes == most) else { return };
    let (x, y) = (scale.x(first.op as f64), scale.y(most as f64));
    let _ = writeln!(svg, "<circle class=\"peak\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>");
    // Beside the mark where there is room, else on its other side.
    let (class, x) = if x < WIDTH * 0.7 { ("start", x + 8.0) } else { ("end", x - 8.0) };
    let label = units::bytes(most);
    let _ = writeln!(
        svg,
        "<text class=\"{class} strong\" x=\"{x:.1}\" y=\"{:.1}\">peak held {label}</text>",
        y - 8.0
    );
}

/// Round steps from 0 up to the first that is not below `most`: about `wanted` of them, and none
/// below `least`.
fn ticks(most: f64, wanted: usize, least: f64) -> Vec<f64> {
    let rough = (most / wanted as f64).max(least).max(f64::MIN_POSITIVE);
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|f| f * power >= rough * 0.999);
    let step = factor.unwrap_or(10.0) * power;
    let last = (most / step - 1e-9).ceil().max(1.0) as usize;
    (0..=last).map(|i| i as f64 * step).collect()
}

/// A tick's figure without needless digits.
fn plain(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::curve::Point;

    #[test]
    fn ticks_are_round_and_reach_the_top() {
        assert_eq!(ticks(6.55, 5, 0.0), [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(ticks(13.1, 5, 0.0), [0.0, 5.0, 10.0, 15.0]);
        assert_eq!(ticks(3.0, 8, 1.0), [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(ticks(13_495.0, 8, 1.0).last(), Some(&14_000.0));
        for most in [0.001, 0.3, 1.0, 7.7, 1023.9, 1e7] {
            let t = ticks(most, 5, 0.0);
            assert!(t.len() >= 2 && t.len() <= 9 && *t.last().unwrap() >= most, "{most}: {t:?}");
        }
        assert_eq!([0.0, 2.5, 10.0, 0.25].map(plain), ["0", "2.5", "10", "0.25"]);
    }

    #[test]
    fn the_picture_is_whole_and_bounded() {
        let mut c = Curve::new(5);
        for (i, live) in [0u64, 1 << 30, 3 << 30, 0, 1].into_iter().enumerate() {
            c.points.push(Point { op: i + 1, live_bytes: live, held_bytes: 4 << 30 });
        }
        let svg = curve(&c);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("peak held 4.00 GiB") && svg.contains(">4 GiB<"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert_eq!(curve(&Curve::default()), "");
    }

    #[test]
    fn a_trace_of_nothing_live_is_drawn() {
        let mut c = Curve::new(1);
        c.points.push(Point { op: 1, live_bytes: 0, held_bytes: 0 });
        let svg = curve(&c);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
