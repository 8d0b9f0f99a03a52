//! The report as one HTML page: no script, nothing loaded from elsewhere, light and dark.

use super::{svg, table, units, File, Run};
use std::fmt::Write;

const STYLE: &str = include_str!("report.css");

/// The page.
pub fn page(run: &Run) -> String {
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>cenote replay</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>cenote replay</h1>\n<p class=\"meta\">{}</p>\n",
        escape(&table::heading(run))
    );
    summary(&mut html, &run.files);
    for file in &run.files {
        section(&mut html, file);
    }
    html.push_str(
        "<footer><p><b>live</b>: bytes requested and not yet freed. <b>held</b>: every byte taken \
         from the driver and not released. <b>ratio</b>: peak held ÷ peak live of the first pass. \
         Between passes everything is freed and nothing is given back. The cost of reading the \
         clock is subtracted from the times.</p></footer>\n</main>\n</body>\n</html>\n",
    );
    html
}

fn summary(html: &mut String, files: &[File]) {
    html.push_str(
        "<div class=\"scroll\"><table>\n<thead><tr><th>trace</th><th>operations</th>\
         <th>peak live</th><th>peak held</th><th>ratio</th><th>median</th><th>p99</th>\
         <th>driver calls<br>by pass</th><th>failed</th></tr></thead>\n<tbody>\n",
    );
    for file in files {
        let calls: Vec<String> =
            file.passes.iter().map(|p| units::count(p.driver_calls.total())).collect();
        let failed = if file.failed == 0 { "" } else { " class=\"bad\"" };
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td><b>{}</b></td><td>{}</td>\
             <td>{}</td><td>{}</td><td{failed}>{}</td></tr>",
            escape(&file.name),
            units::count(file.operations),
            units::bytes(file.peak_live_bytes),
            units::bytes(file.peak_held_bytes),
            units::ratio(file.ratio),
            units::nanoseconds(file.ns_per_op_median),
            units::nanoseconds(file.ns_per_op_p99),
            calls.join(" → "),
            units::count(file.failed),
        );
    }
    html.push_str("</tbody>\n</table></div>\n");
}

fn section(html: &mut String, file: &File) {
    let streams = if file.streams == 1 { "stream" } else { "streams" };
    let _ = writeln!(
        html,
        "<section>\n<h2>{}</h2>\n<p class=\"meta\">{} operations on {} blocks, {} {streams}</p>",
        escape(&file.name),
        units::count(file.operations),
        units::count(file.blocks),
        units::count(file.streams),
    );
    if let Some(failure) = &file.first_failure {
        let _ = writeln!(html, "<p class=\"bad\">{}</p>", escape(failure));
    }
    if !file.curve.points.is_empty() {
        html.push_str(
            "<figure>\n<figcaption><span class=\"key held-key\"></span>held <span class=\"key \
             live-key\"></span>live <span class=\"soft\">(first pass)</span></figcaption>\n",
        );
        html.push_str(&svg::curve(&file.curve));
        html.push_str("</figure>\n");
    }
    passes(html, file);
    html.push_str("</section>\n");
}

fn passes(html: &mut String, file: &File) {
    html.push_str(
        "<div class=\"scroll\"><table>\n<thead><tr><th>pass</th><th>peak live</th>\
         <th>peak held</th><th>median</th><th>p99</th><th>create</th><th>map</th>\
         <th>set access</th><th>unmap</th><th>release</th><th>calls per allocation</th>\
         <th>time in driver</th></tr></thead>\n<tbody>\n",
    );
    for (index, pass) in file.passes.iter().enumerate() {
        let _ = write!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>",
            index + 1,
            units::bytes(pass.peak_live_bytes),
            units::bytes(pass.peak_held_bytes),
            units::nanoseconds(pass.ns_per_op_median),
            units::nanoseconds(pass.ns_per_op_p99),
        );
        for (_, count) in pass.driver_calls.by_kind() {
            let _ = write!(html, "<td>{}</td>", units::count(count));
        }
        let _ = writeln!(
            html,
            "<td>{:.2}</td><td>{}</td></tr>",
            pass.driver_calls_per_alloc,
            units::nanoseconds(pass.driver_time_ns as f64),
        );
    }
    html.push_str("</tbody>\n</table></div>\n");
}

/// Names come from files: nothing in them may become markup.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            _ => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_stands_alone_and_its_text_is_escaped() {
        let html = page(&super::super::tests::sample());
        assert!(html.contains("gpt &lt;medium&gt;.csv") && !html.contains("<medium>"));
        for outside in ["<script", "http:", "https:", "src=", "@import", "url("] {
            assert!(!html.contains(outside), "{outside}");
        }
        for tag in ["table", "tr", "td", "section", "svg", "figure", "div", "p", "main", "body"] {
            let opened = html.matches(&format!("<{tag}>")).count()
                + html.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, html.matches(&format!("</{tag}>")).count(), "{tag}");
        }
        assert!(html.len() < 200_000, "{} bytes", html.len());
    }
}
