//! Figures for people: bytes with binary units, counts in groups of three.

/// Bytes with three significant digits: `6.53 GiB`; whole bytes below 1 KiB.
pub fn bytes(value: u64) -> String {
    let (unit, name) = unit_of(value);
    if unit == 1 {
        return format!("{value} B");
    }
    let scaled = value as f64 / unit as f64;
    let decimals = match scaled {
        s if s < 9.995 => 2,
        s if s < 99.95 => 1,
        _ => 0,
    };
    format!("{scaled:.decimals$} {name}")
}

/// The largest binary unit that is not larger than the value, with its name.
pub fn unit_of(value: u64) -> (u64, &'static str) {
    const UNITS: [(u64, &str); 5] =
        [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")];
    UNITS.into_iter().find(|(unit, _)| value >= *unit).unwrap_or((1, "B"))
}

/// A count in groups of three: `13,495`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A time in whole nanoseconds, or in a larger unit with three significant digits.
pub fn nanoseconds(value: f64) -> String {
    match value {
        v if v < 9_999.5 => format!("{} ns", count(v.round() as u64)),
        v if v < 999_500.0 => format!("{:.1} µs", v / 1e3),
        v if v < 999_500_000.0 => format!("{:.1} ms", v / 1e6),
        v => format!("{:.2} s", v / 1e9),
    }
}

/// Held for each live byte: `1.003`; a dash where nothing was live.
pub fn ratio(value: Option<f64>) -> String {
    value.map_or("–".into(), |r| format!("{r:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_three_digits_and_a_unit() {
        let shown: Vec<String> =
            [0, 1023, 1024, 1536, 7_013_335_044, 12 << 30, 300 << 30, u64::MAX].map(bytes).into();
        assert_eq!(
            shown,
            [
                "0 B",
                "1023 B",
                "1.00 KiB",
                "1.50 KiB",
                "6.53 GiB",
                "12.0 GiB",
                "300 GiB",
                "16777216 TiB"
            ]
        );
    }

    #[test]
    fn counts_are_grouped() {
        assert_eq!([0, 999, 1000, 1234567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn times_change_their_unit() {
        assert_eq!(nanoseconds(84.6), "85 ns");
        assert_eq!(nanoseconds(12_345.0), "12.3 µs");
        assert_eq!(nanoseconds(12_345_678.0), "12.3 ms");
        assert_eq!(nanoseconds(2.5e9), "2.50 s");
    }

    #[test]
    fn an_unknown_ratio_is_no_number() {
        assert_eq!((ratio(Some(1.00349)), ratio(None)), ("1.003".into(), "–".into()));
    }
}
