//! The part of HTTP/1.1 that agents need: bounded requests, and complete or chunked replies.

use std::io::{self, BufRead, Read, Write};

const HEAD_BYTES_MAX: u64 = 64 << 10;
const BODY_BYTES_MAX: usize = 32 << 20;

/// A received request.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct HttpRequest {
    pub(crate) method: String,
    /// The path with its query, or the host or URL that `CONNECT` and proxy requests send.
    pub(crate) target: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl HttpRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the path without its query.
    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }
}

/// Reads one request; `None` if the client disconnected between two requests.
pub(crate) fn read_request(from: &mut (impl BufRead + Write)) -> io::Result<Option<HttpRequest>> {
    let mut head = Vec::new();
    loop {
        let before = head.len();
        let remaining = HEAD_BYTES_MAX.saturating_sub(before as u64);
        if remaining == 0 {
            return Err(invalid("the head of the request is too long"));
        }
        let read = Read::by_ref(from).take(remaining).read_until(b'\n', &mut head)?;
        let line = &head[before..];
        if read == 0 {
            return if before == 0 { Ok(None) } else { Err(invalid("the head of the request is cut")) };
        }
        if line == b"\r\n" || line == b"\n" {
            if before == 0 {
                head.clear();
                continue;
            }
            break;
        }
    }
    let head = String::from_utf8(head).map_err(|_| invalid("the head of the request is no text"))?;
    let mut lines = head.lines();
    let mut first = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target)) = (first.next(), first.next()) else {
        return Err(invalid("the request has no target"));
    };
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut request =
        HttpRequest { method: method.to_owned(), target: target.to_owned(), headers, body: Vec::new() };
    if request.header("expect").is_some_and(|expect| expect.eq_ignore_ascii_case("100-continue")) {
        from.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    request.body = read_body(from, &request)?;
    Ok(Some(request))
}

fn read_body(from: &mut impl BufRead, request: &HttpRequest) -> io::Result<Vec<u8>> {
    let chunked = request.header("transfer-encoding").is_some_and(|coding| coding.contains("chunked"));
    if !chunked {
        let length = request.header("content-length").unwrap_or("0");
        let length: usize = length.parse().map_err(|_| invalid("content-length is no number"))?;
        let mut body = Vec::new();
        read_exactly(from, length, &mut body)?;
        return Ok(body);
    }
    let mut body = Vec::new();
    loop {
        let mut size = String::new();
        from.by_ref().take(1024).read_line(&mut size)?;
        let digits = size.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(digits, 16).map_err(|_| invalid("a chunk has no size"))?;
        read_exactly(from, size, &mut body)?;
        let mut end = String::new();
        from.by_ref().take(1024).read_line(&mut end)?;
        if size == 0 {
            return Ok(body);
        }
    }
}

fn read_exactly(from: &mut impl BufRead, length: usize, body: &mut Vec<u8>) -> io::Result<()> {
    if body.len().saturating_add(length) > BODY_BYTES_MAX {
        return Err(invalid("the body of the request is too long"));
    }
    let read = from.by_ref().take(length as u64).read_to_end(body)?;
    if read == length { Ok(()) } else { Err(invalid("the body of the request is cut")) }
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// A reply with a complete body.
pub(crate) struct HttpResponse<'a> {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: &'a [u8],
}

/// Writes the head of a complete reply.
pub(crate) fn write_head(to: &mut impl Write, response: &HttpResponse<'_>) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {} {}\r\n", response.status, reason(response.status));
    for (name, value) in &response.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    // The response to a HEAD request has a length and no body, which the caller handles.
    head.push_str(&format!("content-length: {}\r\n\r\n", response.body.len()));
    to.write_all(head.as_bytes())
}

/// Writes the head of a chunked reply.
pub(crate) fn write_stream_head(to: &mut impl Write) -> io::Result<()> {
    to.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n\
          transfer-encoding: chunked\r\n\r\n",
    )
}

pub(crate) fn write_chunk(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    to.write_all(&chunk)
}

/// Writes the first half of a chunk that was announced with its full length.
pub(crate) fn write_half_chunk(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(format!("{:x}\r\n", bytes.len()).as_bytes())?;
    to.write_all(&bytes[..bytes.len() / 2])
}

pub(crate) fn write_stream_end(to: &mut impl Write) -> io::Result<()> {
    to.write_all(b"0\r\n\r\n")
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        413 => "Content Too Large",
        426 => "Upgrade Required",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        529 => "Overloaded",
        _ => "Scripted",
    }
}
