//! The output of a command: its beginning and its end, with a note about what is missing between them.

/// How much of the beginning, and of the end, is kept.
const PART_BYTES_MAX: usize = 512 << 10;

#[derive(Debug, Default)]
pub(crate) struct BoundedOutput {
    head: Vec<u8>,
    tail: Vec<u8>,
    total: u64,
}

impl BoundedOutput {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total = self.total.saturating_add(bytes.len() as u64);
        let room = PART_BYTES_MAX - self.head.len();
        let (first, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(PART_BYTES_MAX)..];
        self.tail.extend_from_slice(rest);
        // Moving the bytes for each chunk would cost more than the memory.
        if self.tail.len() > 2 * PART_BYTES_MAX {
            self.tail.drain(..self.tail.len() - PART_BYTES_MAX);
        }
    }

    /// Returns the output as text. Bytes that are no UTF-8 are replaced.
    pub(crate) fn text(&self) -> String {
        let tail = &self.tail[self.tail.len().saturating_sub(PART_BYTES_MAX)..];
        let omitted = self.total - (self.head.len() + tail.len()) as u64;
        if omitted == 0 {
            return String::from_utf8_lossy(&[&self.head, tail].concat()).into_owned();
        }
        let (head, tail) = (String::from_utf8_lossy(&self.head), String::from_utf8_lossy(tail));
        format!("{head}\n[{omitted} bytes omitted]\n{tail}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_keeps_its_beginning_and_its_end() {
        let mut output = BoundedOutput::default();
        output.push(b"begin\n");
        for _ in 0..300 {
            output.push(&[b'x'; 10_000]);
        }
        output.push(b"\nend");
        let text = output.text();
        assert!(text.starts_with("begin\nxxx") && text.ends_with("xxx\nend"));
        let omitted = 6 + 3_000_000 + 4 - 2 * PART_BYTES_MAX;
        assert!(text.contains(&format!("\n[{omitted} bytes omitted]\n")));
        assert!(text.len() < 2 * PART_BYTES_MAX + 64);
    }

    #[test]
    fn a_character_across_two_chunks_stays_whole() {
        let mut output = BoundedOutput::default();
        let euro = "€".as_bytes();
        output.push(&euro[..1]);
        output.push(&euro[1..]);
        assert_eq!(output.text(), "€");
    }
}
