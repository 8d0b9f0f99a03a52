//! Comma-separated tables with a header line, as the trace formats use them: no quoting.

use crate::failure::{Failure, Outcome};
use std::path::Path;

/// A table whose columns were found by name.
pub struct Table<'a> {
    path: &'a Path,
    text: &'a str,
    column_indexes: Vec<usize>,
    column_names: &'static [&'static str],
}

/// One row: the wanted columns in the order in which they were asked for.
pub struct Row<'a> {
    path: &'a Path,
    line: usize,
    names: &'static [&'static str],
    fields: Vec<&'a str>,
}

/// The header line of a text, without a byte-order mark: what tells the formats apart.
pub fn header_names(text: &str) -> Vec<&str> {
    let line = text.trim_start_matches('\u{feff}').lines().next().unwrap_or("");
    line.split(',').map(str::trim).collect()
}

/// The bytes of a file as text, or the line that is not.
pub fn text<'a>(path: &Path, bytes: &'a [u8]) -> Outcome<&'a str> {
    std::str::from_utf8(bytes).map_err(|e| {
        let line = 1 + bytes[..e.valid_up_to()].iter().filter(|b| **b == b'\n').count();
        Failure::at(path, line, "not text (UTF-8)")
    })
}

impl<'a> Table<'a> {
    /// Find the columns in the header; every one must be there.
    pub fn new(
        path: &'a Path,
        text: &'a str,
        column_names: &'static [&'static str],
    ) -> Outcome<Table<'a>> {
        let header = header_names(text);
        let mut column_indexes = Vec::with_capacity(column_names.len());
        for name in column_names {
            match header.iter().position(|h| h.eq_ignore_ascii_case(name)) {
                Some(index) => column_indexes.push(index),
                None => return Err(Failure::at(path, 1, format_args!("no column \"{name}\""))),
            }
        }
        Ok(Table { path, text, column_indexes, column_names })
    }

    /// The rows below the header; empty lines are passed over.
    pub fn rows(&self) -> impl Iterator<Item = Outcome<Row<'a>>> + '_ {
        let numbered = self.text.lines().enumerate().skip(1);
        numbered.filter(|(_, line)| !line.trim().is_empty()).map(|(i, line)| self.row(i + 1, line))
    }

    fn row(&self, line: usize, content: &'a str) -> Outcome<Row<'a>> {
        let all: Vec<&str> = content.split(',').map(str::trim).collect();
        let mut fields = Vec::with_capacity(self.column_indexes.len());
        for (index, name) in self.column_indexes.iter().zip(self.column_names) {
            match all.get(*index) {
                Some(field) => fields.push(*field),
                None => {
                    let what = format_args!("the row has no column \"{name}\"").to_string();
                    return Err(Failure::at(self.path, line, what));
                }
            }
        }
        Ok(Row { path: self.path, line, names: self.column_names, fields })
    }
}

impl<'a> Row<'a> {
    /// The text of a column.
    pub fn text(&self, column: usize) -> &'a str {
        self.fields[column]
    }

    /// A count or a size: a decimal number that is not negative.
    pub fn number(&self, column: usize) -> Outcome<u64> {
        self.parse(column, 10, self.fields[column])
    }

    /// An address or handle: hexadecimal with 0x, else decimal; "(nil)" is 0.
    pub fn handle(&self, column: usize) -> Outcome<u64> {
        let field = self.fields[column];
        if field == "(nil)" {
            return Ok(0);
        }
        match field.strip_prefix("0x").or_else(|| field.strip_prefix("0X")) {
            Some(digits) => self.parse(column, 16, digits),
            None => self.parse(column, 10, field),
        }
    }

    /// This row is wrong.
    pub fn fail(&self, what: impl std::fmt::Display) -> Failure {
        Failure::at(self.path, self.line, what)
    }

    fn parse(&self, column: usize, radix: u32, digits: &str) -> Outcome<u64> {
        let (name, field) = (self.names[column], self.fields[column]);
        if digits.starts_with('-') {
            return Err(self.fail(format_args!("column \"{name}\": {field} is negative")));
        }
        u64::from_str_radix(digits, radix)
            .map_err(|_| self.fail(format_args!("column \"{name}\": \"{field}\" is not a number")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[&str] = &["b", "a"];

    fn rows(text: &str) -> Outcome<Vec<(u64, u64)>> {
        let table = Table::new(Path::new("f.csv"), text, COLUMNS)?;
        table.rows().map(|r| r.and_then(|r| Ok((r.number(0)?, r.handle(1)?)))).collect()
    }

    #[test]
    fn columns_are_found_by_name_and_numbers_are_read() {
        let text = "\u{feff}a, x ,B\r\n0x10,z,3\r\n\r\n16,,4,extra\n(nil),,5\n";
        assert_eq!(rows(text).unwrap(), [(3, 16), (4, 16), (5, 0)]);
    }

    #[test]
    fn errors_name_file_and_line() {
        let message = |text: &str| rows(text).unwrap_err().to_string();
        assert_eq!(message("a,c\n"), "f.csv:1: no column \"b\"");
        assert_eq!(message("a,b\n1,2\n3\n"), "f.csv:3: the row has no column \"b\"");
        assert_eq!(message("a,b\n1,-2\n"), "f.csv:2: column \"b\": -2 is negative");
        assert_eq!(message("a,b\n1,two\n"), "f.csv:2: column \"b\": \"two\" is not a number");
        let huge = "99999999999999999999999";
        assert!(message(&format!("a,b\n1,{huge}\n")).contains("is not a number"));
    }

    #[test]
    fn bytes_that_are_no_text_have_a_line() {
        let e = text(Path::new("f"), b"a\nb\n\xff").unwrap_err();
        assert_eq!(e.to_string(), "f:3: not text (UTF-8)");
    }
}
