//! Rust text as tokens with their lines: strings and comments cannot confuse a gate.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A token with its line; groups are flattened to their brackets.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    pub text: String,
    pub line: usize,
}

/// The tokens of a Rust text, in order.
pub fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let stream: TokenStream = text.parse().map_err(|e| format!("does not lex: {e}"))?;
    let mut out = Vec::new();
    flatten(stream, &mut out);
    Ok(out)
}

fn flatten(stream: TokenStream, out: &mut Vec<Token>) {
    for tree in stream {
        let TokenTree::Group(group) = tree else {
            let line = tree.span().start().line;
            out.push(Token { text: tree.to_string(), line });
            continue;
        };
        let (open, close) = match group.delimiter() {
            Delimiter::Brace => ("{", "}"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::None => ("", ""),
        };
        let (open_line, close_line) =
            (group.span_open().start().line, group.span_close().start().line);
        out.push(Token { text: open.into(), line: open_line });
        flatten(group.stream(), out);
        out.push(Token { text: close.into(), line: close_line });
    }
}

/// Index of the bracket that closes the one at `open`.
pub fn closing(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "{" | "[" | "(" => depth += 1,
            "}" | "]" | ")" => {
                depth -= 1;
                if depth == 0 {
                    return index;
                }
            }
            _ => {}
        }
    }
    tokens.len() - 1
}

/// True if the tokens from `at` on spell the words.
pub fn spells(tokens: &[Token], at: usize, words: &[&str]) -> bool {
    tokens.len() >= at + words.len()
        && tokens[at..].iter().zip(words).all(|(token, word)| token.text == *word)
}

/// True for a name.
pub fn is_name(token: &Token) -> bool {
    token.text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}
