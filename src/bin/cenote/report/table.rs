//! Tables for a terminal: columns as wide as their widest cell.

use super::{units, File, Run};

/// A table: the first column is aligned left, the others right.
struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new(head: &[&str]) -> Table {
        Table { rows: vec![head.iter().map(|h| h.to_string()).collect()] }
    }

    fn text(&self) -> String {
        let columns = self.rows[0].len();
        let width =
            |c: usize| self.rows.iter().map(|r| r[c].chars().count()).max().unwrap_or_default();
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut out = String::new();
        for row in &self.rows {
            let mut line = format!("{:<1$}", row[0], widths[0]);
            for (cell, width) in row.iter().zip(&widths).skip(1) {
                line.push_str(&format!("  {cell:>width$}"));
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

/// One line that says what was run.
pub fn heading(run: &Run) -> String {
    let mut line = format!("cenote {} · {} backend", run.version, run.backend);
    if !run.device.is_empty() {
        line.push_str(&format!(" ({})", run.device));
    }
    line.push_str(&format!(" · slack {}", run.slack));
    if run.lag_ops != 0 {
        line.push_str(&format!(" · completions {} operations late", units::count(run.lag_ops)));
    }
    line
}

/// The whole result for a terminal.
pub fn text(run: &Run) -> String {
    let mut out = format!("{}\n\n", heading(run));
    out.push_str(&summary(&run.files).text());
    out.push('\n');
    out.push_str(&calls(&run.files).text());
    let timer = run.files.iter().map(|f| f.timer_cost_ns).fold(0.0, f64::max);
    out.push_str(&format!(
        "\nlive: requested and not freed. held: taken from the driver. ratio: held ÷ live at their \
         peaks, first pass.\ntime an operation: second pass where there is one, {} for the clock \
         subtracted.\n",
        units::nanoseconds(timer)
    ));
    out
}

fn summary(files: &[File]) -> Table {
    let mut table = Table::new(&[
        "trace",
        "operations",
        "peak live",
        "peak held",
        "ratio",
        "ns/op median",
        "p99",
        "failed",
    ]);
    for file in files {
        table.rows.push(vec![
            file.name.clone(),
            units::count(file.operations),
            units::bytes(file.peak_live_bytes),
            units::bytes(file.peak_held_bytes),
            units::ratio(file.ratio),
            units::count(file.ns_per_op_median.round() as u64),
            units::count(file.ns_per_op_p99.round() as u64),
            units::count(file.failed),
        ]);
    }
    table
}

fn calls(files: &[File]) -> Table {
    let mut table = Table::new(&[
        "driver calls",
        "pass",
        "create",
        "map",
        "set access",
        "unmap",
        "release",
        "per alloc",
        "time",
    ]);
    for file in files {
        for (index, pass) in file.passes.iter().enumerate() {
            let name = if index == 0 { file.name.clone() } else { String::new() };
            let mut row = vec![name, (index + 1).to_string()];
            row.extend(pass.driver_calls.by_kind().map(|(_, count)| units::count(count)));
            row.push(format!("{:.2}", pass.driver_calls_per_alloc));
            row.push(units::nanoseconds(pass.driver_time_ns as f64));
            table.rows.push(row);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let text = text(&super::super::tests::sample());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "cenote 0.1.0 · host backend (host memory) · slack auto");
        let column = |line: &str, word: &str| {
            let at = line.find(word).unwrap_or_else(|| panic!("{word} in {line}"));
            line[..at].chars().count() + word.chars().count()
        };
        assert_eq!(column(lines[2], "peak held"), column(lines[3], "6.55 GiB"), "{text}");
        assert_eq!(column(lines[2], "  ratio"), column(lines[3], "1.003"), "{text}");
        assert_eq!(column(lines[6], "create"), column(lines[7], "3,354"), "{text}");
        assert!(lines[8].starts_with("      "), "the second pass repeats no name: {text}");
    }
}
