//! Sizes as people write them.

/// A size: bytes, or a share of something known later.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// Bytes.
    Bytes(u64),
    /// Parts per million of a total.
    Share(u32),
}

impl Size {
    /// Bytes, given the total that a share refers to.
    pub fn of(self, total_bytes: u64) -> u64 {
        match self {
            Size::Bytes(n) => n,
            Size::Share(ppm) => (u128::from(total_bytes) * u128::from(ppm) / 1_000_000) as u64,
        }
    }
}

/// Read "8GiB", "500MB" (decimal), "50%" or "4096" (bytes from 1 KiB up). A bare small number, a
/// bare fraction, a blank inside and unknown units are refused: they are ambiguous.
pub fn parse_size(text: &str) -> Option<Size> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    if number.is_empty() || number.starts_with('.') || number.ends_with('.') {
        return None;
    }
    if unit == "%" {
        let share: f64 = number.parse().ok()?;
        return (share > 0.0 && share <= 100.0).then_some(Size::Share((share * 10_000.0) as u32));
    }
    let scale: u64 = match unit {
        "" => 1,
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return None,
    };
    if number.contains('.') {
        // "1.5GiB" is fine, "0.15" could be a share.
        let value: f64 = number.parse().ok()?;
        let bytes = value * scale as f64;
        return (scale > 1 && bytes < 1.4e14).then_some(Size::Bytes(bytes as u64));
    }
    let bytes = number.parse::<u64>().ok()?.checked_mul(scale)?;
    // "8" could be meant as gigabytes or as a percentage.
    (!unit.is_empty() || bytes == 0 || bytes >= 1024).then_some(Size::Bytes(bytes))
}

/// Read a share of 1 as parts per million: "0.01", "1%", "auto" is none.
pub fn parse_share(text: &str) -> Option<Option<u32>> {
    if text == "auto" {
        return Some(None);
    }
    let (number, scale) = match text.strip_suffix('%') {
        Some(number) => (number, 10_000.0),
        None => (text, 1_000_000.0),
    };
    let value: f64 = number.parse().ok()?;
    let ppm = value * scale;
    (value.is_finite() && (0.0..=1e6).contains(&ppm)).then_some(Some(ppm as u32))
}

/// Read a duration: "10s", "500ms", "off" is none, "0" at once.
pub fn parse_duration_ms(text: &str) -> Option<Option<u32>> {
    if text == "off" {
        return Some(None);
    }
    if text == "0" {
        return Some(Some(0));
    }
    let ms = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(n), _) => n.parse::<u32>().ok()?,
        (None, Some(n)) => n.parse::<u32>().ok()?.checked_mul(1000)?,
        _ => return None,
    };
    (ms < u32::MAX).then_some(Some(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("8GiB"), Some(Size::Bytes(8 << 30)));
        assert_eq!(parse_size("500MB"), Some(Size::Bytes(500_000_000)));
        assert_eq!(parse_size("1.5GiB"), Some(Size::Bytes(3 << 29)));
        assert_eq!(parse_size("50%"), Some(Size::Share(500_000)));
        assert_eq!(parse_size("4096"), Some(Size::Bytes(4096)));
        assert_eq!(parse_size("64B"), Some(Size::Bytes(64)));
        assert_eq!(Size::Share(500_000).of(1 << 40), 1 << 39);
        for bad in ["8", "0.15", "8 GB?", "8 GB", "", "GiB", "-1GiB", "8gib", "1e9", "120%", "0%"] {
            assert_eq!(parse_size(bad), None, "{bad}");
        }
        assert_eq!(parse_size("99999999999TiB"), None);
    }

    #[test]
    fn shares_and_durations() {
        assert_eq!(parse_share("0.01"), Some(Some(10_000)));
        assert_eq!(parse_share("1%"), Some(Some(10_000)));
        assert_eq!(parse_share("auto"), Some(None));
        assert_eq!(parse_share("-0.1"), None);
        assert_eq!(parse_share("x"), None);
        assert_eq!(parse_duration_ms("10s"), Some(Some(10_000)));
        assert_eq!(parse_duration_ms("250ms"), Some(Some(250)));
        assert_eq!(parse_duration_ms("off"), Some(None));
        assert_eq!(parse_duration_ms("0"), Some(Some(0)));
        assert_eq!(parse_duration_ms("10"), None);
    }
}
