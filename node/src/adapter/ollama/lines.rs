//! An answer's bytes cut into its lines. What a line says is not looked at.

use bytes::{Bytes, BytesMut};

/// Longest line, in bytes. A completion's last line may list the tokens of a whole context, some 7 bytes each.
pub const LINE_BYTES: usize = 4 << 20;

/// The bytes that have come and are not a whole line yet.
#[derive(Debug, Default)]
pub struct Lines {
    held: BytesMut,
    /// So many of them are known to hold no line's end.
    searched: usize,
}

/// Always the inference server's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a line of the answer is longer than {LINE_BYTES} bytes")]
pub struct LineTooLong;

impl Lines {
    /// Takes what has come. Ask for the lines before the next bytes: only so does the limit hold.
    pub fn push(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// The next whole line, without its end. Blank lines are left out.
    pub fn next_line(&mut self) -> Result<Option<Bytes>, LineTooLong> {
        loop {
            let Some(found) = self.held[self.searched..].iter().position(|byte| *byte == b'\n') else {
                self.searched = self.held.len();
                return if self.searched > LINE_BYTES { Err(LineTooLong) } else { Ok(None) };
            };
            let line = self.held.split_to(self.searched + found + 1).freeze();
            self.searched = 0;
            if line.len() > LINE_BYTES {
                return Err(LineTooLong);
            }
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line.slice_ref(line.trim_ascii())));
            }
        }
    }

    /// What is left when no more bytes come: a last line that nothing ended, unless it is blank.
    pub fn last(self) -> Option<Bytes> {
        let line = self.held.freeze();
        let line = line.slice_ref(line.trim_ascii());
        (!line.is_empty()).then_some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::{LINE_BYTES, LineTooLong, Lines};
    use bytes::Bytes;

    fn all(lines: &mut Lines) -> Vec<Bytes> {
        std::iter::from_fn(|| lines.next_line().expect("short lines")).collect()
    }

    #[test]
    fn lines_come_out_whole_wherever_their_bytes_were_cut() {
        let text = "{\"a\":1}\n\r\n {\"b\":\"ü\"}\r\n\n{\"c\":3}".as_bytes();
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let mut lines = Lines::default();
                let mut found = Vec::new();
                for piece in [&text[..first], &text[first..second], &text[second..]] {
                    lines.push(piece);
                    found.extend(all(&mut lines));
                }
                found.extend(lines.last());
                assert_eq!(found, ["{\"a\":1}", "{\"b\":\"ü\"}", "{\"c\":3}"], "{first} {second}");
            }
        }
    }

    #[test]
    fn a_blank_rest_is_no_line() {
        for text in ["", "a\n", "a\n \r\n\t", "\n\n"] {
            let mut lines = Lines::default();
            lines.push(text.as_bytes());
            all(&mut lines);
            assert_eq!(lines.last(), None, "{text:?}");
        }
    }

    #[test]
    fn a_line_over_the_limit_is_an_error_whether_it_ends_or_not() {
        let longest = vec![b'x'; LINE_BYTES];
        let mut lines = Lines::default();
        lines.push(&longest[1..]);
        lines.push(b"\n");
        assert_eq!(lines.next_line().map(|line| line.map(|line| line.len())), Ok(Some(LINE_BYTES - 1)));
        lines.push(&longest);
        assert_eq!(lines.next_line(), Ok(None));
        lines.push(b"x");
        assert_eq!(lines.next_line(), Err(LineTooLong));
        let mut lines = Lines::default();
        lines.push(&longest);
        lines.push(b"\n");
        assert_eq!(lines.next_line(), Err(LineTooLong));
    }
}
