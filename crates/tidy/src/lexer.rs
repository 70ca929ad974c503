//! Separates code, comments and string literals of a Rust file: just enough of a lexer for the checks.

/// A Rust file with each byte classified as code, comment or string. Line breaks are preserved everywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceParts {
    /// The code; comments and the contents of strings are replaced by spaces.
    pub code: String,
    /// The comments; everything else is replaced by spaces.
    pub comments: String,
    /// The content of each string literal, as written, with its line.
    pub strings: Vec<(usize, String)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ByteKind {
    Code,
    Comment,
    Text,
}

pub fn split(text: &str) -> SourceParts {
    let bytes = text.as_bytes();
    let mut kinds = vec![ByteKind::Code; bytes.len()];
    let mut strings = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        at = if rest.starts_with(b"//") {
            let end = find(bytes, at, b"\n").unwrap_or(bytes.len());
            mark(&mut kinds, at, end, ByteKind::Comment)
        } else if rest.starts_with(b"/*") {
            mark(&mut kinds, at, end_of_block(bytes, at), ByteKind::Comment)
        } else if let Some((open, close)) = string_opening(bytes, at) {
            let start = at + open;
            let end = match close {
                Close::Quote => end_of_quoted(bytes, start),
                Close::Raw(hashes) => {
                    let marker = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
                    find(bytes, start, &marker).unwrap_or(bytes.len())
                }
            };
            let line = 1 + bytes[..at].iter().filter(|byte| **byte == b'\n').count();
            strings.push((line, String::from_utf8_lossy(&bytes[start..end]).into_owned()));
            let after = match close {
                Close::Quote => end + 1,
                Close::Raw(hashes) => end + 1 + hashes,
            };
            mark(&mut kinds, start, end, ByteKind::Text).max(after)
        } else if let Some(end) = end_of_character(text, at) {
            mark(&mut kinds, at + 1, end, ByteKind::Text) + 1
        } else {
            at + 1
        };
    }
    let only = |kind: ByteKind| {
        let keep = |(byte, byte_kind): (&u8, &ByteKind)| {
            if *byte_kind == kind || *byte == b'\n' { *byte } else { b' ' }
        };
        String::from_utf8_lossy(&bytes.iter().zip(&kinds).map(keep).collect::<Vec<u8>>()).into_owned()
    };
    SourceParts { code: only(ByteKind::Code), comments: only(ByteKind::Comment), strings }
}

/// Returns the lines, from 1, that contain a word without a letter, digit or `_` next to it.
pub fn lines_with(text: &str, word: &str) -> Vec<usize> {
    let part = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let bytes = text.as_bytes();
    let (first, last) = (part(word.as_bytes().first()), part(word.as_bytes().last()));
    let mut lines = Vec::new();
    for (at, _) in text.match_indices(word) {
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        let joined = (first && part(before)) || (last && part(bytes.get(at + word.len())));
        let line = 1 + text[..at].matches('\n').count();
        if !joined && lines.last() != Some(&line) {
            lines.push(line);
        }
    }
    lines
}

#[derive(Clone, Copy)]
enum Close {
    Quote,
    Raw(usize),
}

/// Returns the length of the string opening at this position and the kind of closing it needs.
fn string_opening(bytes: &[u8], at: usize) -> Option<(usize, Close)> {
    let inside_name = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    if bytes[at] == b'"' {
        return Some((1, Close::Quote));
    }
    if inside_name {
        return None;
    }
    let prefix = bytes[at..].iter().take_while(|byte| matches!(byte, b'b' | b'c' | b'r')).count();
    if prefix == 0 || prefix > 2 {
        return None;
    }
    let raw = bytes[at..at + prefix].ends_with(b"r");
    let hashes = bytes[at + prefix..].iter().take_while(|byte| **byte == b'#').count();
    match bytes.get(at + prefix + hashes) {
        Some(b'"') if raw => Some((prefix + hashes + 1, Close::Raw(hashes))),
        Some(b'"') if hashes == 0 => Some((prefix + 1, Close::Quote)),
        Some(_) | None => None,
    }
}

/// Returns the end of a character literal that begins here; `None` for a lifetime.
fn end_of_character(text: &str, at: usize) -> Option<usize> {
    let mut rest = text.get(at..)?.strip_prefix('\'')?.chars();
    match rest.next()? {
        '\\' => {
            // The character after the backslash may itself be a quote.
            let start = at + 2 + rest.next()?.len_utf8();
            text[start..].find('\'').map(|length| start + length)
        }
        character => {
            let end = at + 1 + character.len_utf8();
            text[end..].starts_with('\'').then_some(end)
        }
    }
}

fn end_of_quoted(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at.min(bytes.len())
}

fn end_of_block(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0;
    let mut at = start;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

fn find(bytes: &[u8], from: usize, pattern: &[u8]) -> Option<usize> {
    bytes.get(from..)?.windows(pattern.len()).position(|window| window == pattern).map(|at| from + at)
}

fn mark(kinds: &mut [ByteKind], from: usize, to: usize, kind: ByteKind) -> usize {
    kinds[from..to].fill(kind);
    to
}
