//! The Azure table of LLM requests as an allocation trace: one buffer a request.
//!
//! Columns `TIMESTAMP,ContextTokens,GeneratedTokens`. A request's keys and values take 163,840
//! bytes a token (40 layers, 8 heads of 128, keys and values, fp16) for its context and what it
//! generates; they are freed 25 ms after its arrival for each token generated. Only 60 GiB are
//! served at a time: before a block that would pass this, the requests that end earliest are ended.

use super::csv::{Row, Table};
use super::{Builder, Reject, Trace};
use crate::failure::{Failure, Outcome};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;

/// Columns of the format.
pub const COLUMNS: &[&str] = &["TIMESTAMP", "ContextTokens", "GeneratedTokens"];
const TIME: usize = 0;
const CONTEXT: usize = 1;
const GENERATED: usize = 2;

/// Rows that are replayed; the rest of the table repeats the same load.
const ROWS: usize = 12_000;
const BYTES_PER_TOKEN: u64 = 163_840;
const CAP_BYTES: u64 = 60 << 30;
/// Time is counted in ticks of 100 ns, the resolution of the table.
const TICKS_PER_SECOND: u64 = 10_000_000;
const TICKS_PER_TOKEN: u64 = TICKS_PER_SECOND / 40;
/// A request longer than this is an error in the table; it also keeps the arithmetic in range.
const MOST_TOKENS: u64 = 100_000_000;

/// Read the table and turn it into allocations.
pub fn read(path: &Path, text: &str, name: String) -> Outcome<Trace> {
    let table = Table::new(path, text, COLUMNS)?;
    let mut server = Server::default();
    for (id, row) in table.rows().take(ROWS).enumerate() {
        let row = row?;
        let (arrival, context, generated) =
            (ticks(&row)?, tokens(&row, CONTEXT)?, tokens(&row, GENERATED)?);
        if arrival < server.now {
            return Err(row.fail("the rows are not in the order of their time"));
        }
        let size_bytes = (context + generated) * BYTES_PER_TOKEN;
        let end = arrival + generated * TICKS_PER_TOKEN;
        server.arrive(arrival, end, id as u64, size_bytes).map_err(|e| row.fail(e))?;
    }
    if server.builder.is_empty() {
        return Err(Failure::file(path, "holds no request"));
    }
    server.end_all().map_err(|e| Failure::file(path, e))?;
    Ok(server.builder.finish(name))
}

/// The requests being served; those with equal ends leave in the order of arrival.
#[derive(Default)]
struct Server {
    builder: Builder,
    running: BinaryHeap<Reverse<(u64, u64, u64)>>,
    live_bytes: u64,
    now: u64,
}

impl Server {
    fn arrive(&mut self, now: u64, end: u64, id: u64, size_bytes: u64) -> Result<(), Reject> {
        self.now = now;
        while self.running.peek().is_some_and(|Reverse((end, ..))| *end <= now) {
            self.end_earliest()?;
        }
        while self.live_bytes + size_bytes > CAP_BYTES && !self.running.is_empty() {
            self.end_earliest()?;
        }
        self.builder.alloc(id, size_bytes, 0)?;
        self.live_bytes += size_bytes;
        self.running.push(Reverse((end, id, size_bytes)));
        Ok(())
    }

    fn end_earliest(&mut self) -> Result<(), Reject> {
        if let Some(Reverse((_, id, size_bytes))) = self.running.pop() {
            self.live_bytes -= size_bytes;
            self.builder.free(id, None)?;
        }
        Ok(())
    }

    fn end_all(&mut self) -> Result<(), Reject> {
        while !self.running.is_empty() {
            self.end_earliest()?;
        }
        Ok(())
    }
}

fn tokens(row: &Row, column: usize) -> Outcome<u64> {
    let count = row.number(column)?;
    if count > MOST_TOKENS {
        return Err(row.fail(format_args!("{count} tokens are more than a request can have")));
    }
    Ok(count)
}

/// `2023-11-16 18:15:46.6805900` in ticks since year 0.
fn ticks(row: &Row) -> Outcome<u64> {
    let text = row.text(TIME);
    let bad = || row.fail(format_args!("time \"{text}\" is not YYYY-MM-DD HH:MM:SS.fffffff"));
    let (date, time) = text.split_once([' ', 'T']).ok_or_else(bad)?;
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [year, month, day] = three(date, '-').ok_or_else(bad)?;
    let [hour, minute, second] = three(clock, ':').ok_or_else(bad)?;
    let in_range = (1..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second < 61;
    let digits = fraction.trim_end_matches('Z').as_bytes();
    if !in_range || digits.len() > 9 || !digits.iter().all(u8::is_ascii_digit) {
        return Err(bad());
    }
    let padded = digits.iter().chain(std::iter::repeat(&b'0')).take(7);
    let sub_ticks = padded.fold(0u64, |sum, d| sum * 10 + u64::from(d - b'0'));
    let seconds = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    Ok(seconds * TICKS_PER_SECOND + sub_ticks)
}

fn three(text: &str, separator: char) -> Option<[u64; 3]> {
    let mut parts = text.split(separator).map(|p| p.parse::<u64>().ok());
    let found = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(found)
}

/// Days since the start of year 0 in the Gregorian calendar. The year is counted from March, so
/// that a leap day is its last.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::OpKind::{Alloc, Free};

    const HEAD: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\n";

    fn parse(rows: &str) -> Outcome<Trace> {
        read(Path::new("a.csv"), &format!("{HEAD}{rows}"), "a".into())
    }

    #[test]
    fn a_request_lives_25_ms_for_each_token_generated() {
        let t = parse(
            "2023-11-16 23:59:59.9750000,9,1\n2023-11-16 23:59:59.9999999,1,1\n\
             2023-11-17 00:00:00.0000000,1,1\n",
        )
        .unwrap();
        let seen: Vec<_> = t.ops.iter().map(|o| (o.kind, o.block, o.size_bytes)).collect();
        let (big, small) = (10 * 163_840, 2 * 163_840);
        // The first ends in the tick in which the third arrives, across midnight.
        assert_eq!(
            seen,
            [
                (Alloc, 0, big),
                (Alloc, 1, small),
                (Free, 0, big),
                (Alloc, 2, small),
                (Free, 1, small),
                (Free, 2, small)
            ]
        );
    }

    #[test]
    fn the_earliest_end_makes_room_under_the_cap() {
        let half = (CAP_BYTES / 2 / BYTES_PER_TOKEN) - 1_000;
        let t = parse(&format!(
            "2023-11-16 00:00:00.0,{half},900\n2023-11-16 00:00:00.1,{half},100\n\
             2023-11-16 00:00:00.2,{half},500\n"
        ))
        .unwrap();
        let seen: Vec<_> = t.ops.iter().map(|o| (o.kind, o.block)).collect();
        let (a, f) = (Alloc, Free);
        assert_eq!(seen, [(a, 0), (a, 1), (f, 1), (a, 2), (f, 2), (f, 0)]);
    }

    #[test]
    fn calendar_days_follow_one_another() {
        assert_eq!(days(2024, 3, 1), days(2024, 2, 28) + 2);
        assert_eq!(days(2023, 3, 1), days(2023, 2, 28) + 1);
        assert_eq!(days(1900, 3, 1), days(1900, 2, 28) + 1);
        assert_eq!(days(2024, 1, 1), days(2023, 12, 31) + 1);
        assert_eq!(days(2023, 8, 1), days(2023, 7, 31) + 1);
    }

    #[test]
    fn bad_rows_are_named_by_their_line() {
        let message = |rows: &str| parse(rows).unwrap_err().to_string();
        assert!(message("yesterday,1,1\n").starts_with("a.csv:2: time \"yesterday\" is not"));
        assert!(message("2023-13-01 00:00:00.0,1,1\n").contains("is not YYYY"));
        assert!(message("2023-11-16 00:00:00.0000000000,1,1\n").contains("is not YYYY"));
        assert!(message("2023-11-16 00:00:00.0,-1,1\n").contains("-1 is negative"));
        assert!(message("2023-11-16 00:00:00.0,1,99999999999\n").contains("more than a request"));
        let back = "2023-11-16 00:00:01.0,1,1\n2023-11-16 00:00:00.0,1,1\n";
        assert_eq!(message(back), "a.csv:3: the rows are not in the order of their time");
        assert_eq!(message(""), "a.csv: holds no request");
    }
}
