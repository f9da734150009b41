//! The scan of a multipart/form-data body (RFC 7578): one pass over its chunks as they arrive, which finds the `model` and
//! `stream` fields wherever they stand. It holds no copy of the body and does not look into files.

mod error;
mod head;

pub use error::{MultipartError, MultipartErrorKind};
pub(crate) use head::parameter;

use super::{MODEL_BYTES, ModelField, Scanned};
use head::Field;

/// Longest head of one part, in bytes: a file's name and type, with room.
pub const HEAD_BYTES: usize = 8 << 10;

/// Longest `stream` value that can mean something.
const STREAM_BYTES: usize = 8;

/// The scan of one body, fed chunk by chunk. Its size does not depend on the body's.
#[derive(Debug)]
pub struct MultipartScan {
    /// Line end, two hyphens and the boundary. No byte of it but the first is a carriage return, so a match that fails
    /// can begin anew only at the byte where it failed.
    delimiter: Vec<u8>,
    state: State,
    offset: usize,
    /// How many bytes of the delimiter the last ones were.
    matched: usize,
    head: Vec<u8>,
    head_start: usize,
    field: Field,
    content_start: usize,
    /// The content of a field of interest.
    value: Vec<u8>,
    found: Scanned,
    failed: Option<MultipartError>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first delimiter.
    Preamble,
    /// Behind a delimiter.
    Delimited,
    /// Behind a delimiter and one hyphen.
    Closing,
    /// In the white space behind a delimiter.
    Padding,
    /// Behind the carriage return that ends a delimiter's line.
    LineEnd,
    /// In a part's head.
    Head,
    /// In a part's content.
    Content,
    /// Behind the last delimiter: what follows means nothing.
    End,
}

impl MultipartScan {
    /// A scan before the first byte. A boundary with a carriage return in it is not found.
    pub fn new(boundary: &[u8]) -> Self {
        Self {
            delimiter: [b"\r\n--", boundary].concat(),
            state: State::Preamble,
            offset: 0,
            // The first delimiter needs no line end before it.
            matched: 2,
            head: Vec::new(),
            head_start: 0,
            field: Field::Other,
            content_start: 0,
            value: Vec::new(),
            found: Scanned::default(),
            failed: None,
        }
    }

    /// Takes the next bytes of the body. After an error, every further call gives the same error.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), MultipartError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let mut at = 0;
        while at < chunk.len() {
            match self.step(&chunk[at..]) {
                Ok(used) => {
                    at += used;
                    self.offset += used;
                }
                Err(error) => {
                    self.failed = Some(error);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Ends the body.
    pub fn finish(self) -> Result<Scanned, MultipartError> {
        match (self.failed, self.state) {
            (Some(error), _) => Err(error),
            (None, State::End) => Ok(self.found),
            (None, State::Preamble) => Err(self.error(MultipartErrorKind::NoBoundary)),
            (None, _) => Err(self.error(MultipartErrorKind::Truncated)),
        }
    }

    fn error(&self, kind: MultipartErrorKind) -> MultipartError {
        MultipartError { offset: self.offset, kind }
    }

    /// Takes some bytes of `rest`, which is not empty, and says how many. None only where the match of a delimiter fails.
    fn step(&mut self, rest: &[u8]) -> Result<usize, MultipartError> {
        let next = match (self.state, rest[0]) {
            (State::Preamble | State::Content, _) => return self.content(rest),
            (State::Head, _) => return self.head_bytes(rest),
            (State::End, _) => return Ok(rest.len()),
            (State::Delimited, b'-') => State::Closing,
            (State::Closing, b'-') => State::End,
            (State::Delimited | State::Padding, b' ' | b'\t') => State::Padding,
            (State::Delimited | State::Padding, b'\r') => State::LineEnd,
            (State::LineEnd, b'\n') => State::Head,
            _ => return Err(self.error(MultipartErrorKind::BoundaryLine)),
        };
        self.state = next;
        self.head_start = self.offset + 1;
        Ok(1)
    }

    fn content(&mut self, rest: &[u8]) -> Result<usize, MultipartError> {
        if self.matched == 0 {
            let run = memchr::memchr(b'\r', rest).unwrap_or(rest.len());
            if run == 0 {
                self.matched = 1;
                return Ok(1);
            }
            self.take(&rest[..run])?;
            return Ok(run);
        }
        if rest[0] == self.delimiter[self.matched] {
            self.matched += 1;
            if self.matched == self.delimiter.len() {
                self.matched = 0;
                self.end_content(self.offset + 1)?;
                self.state = State::Delimited;
            }
            return Ok(1);
        }
        // What looked like a delimiter was content.
        let content = self.delimiter[..std::mem::take(&mut self.matched)].to_vec();
        self.take(&content)?;
        Ok(0)
    }

    /// Takes bytes of a part's content.
    fn take(&mut self, bytes: &[u8]) -> Result<(), MultipartError> {
        let (limit, kind) = match (self.state, self.field) {
            (State::Content, Field::Model) => (MODEL_BYTES, MultipartErrorKind::ModelTooLong),
            (State::Content, Field::Stream) => (STREAM_BYTES, MultipartErrorKind::StreamNotABool),
            _ => return Ok(()),
        };
        if self.value.len() + bytes.len() > limit {
            return Err(MultipartError { offset: self.content_start, kind });
        }
        self.value.extend_from_slice(bytes);
        Ok(())
    }

    /// Ends a part whose delimiter ends at `offset`.
    fn end_content(&mut self, offset: usize) -> Result<(), MultipartError> {
        if self.state != State::Content {
            return Ok(());
        }
        let wrong = |kind| MultipartError { offset: self.content_start, kind };
        let value = std::mem::take(&mut self.value);
        match self.field {
            Field::Model => {
                let value = String::from_utf8(value).map_err(|_| wrong(MultipartErrorKind::ModelNotText))?;
                let literal = self.content_start..offset - self.delimiter.len();
                self.found.model = Some(ModelField { value, literal });
            }
            Field::Stream => match value.to_ascii_lowercase().as_slice() {
                b"true" | b"1" => self.found.stream = true,
                b"false" | b"0" | b"" => self.found.stream = false,
                _ => return Err(wrong(MultipartErrorKind::StreamNotABool)),
            },
            Field::Other => {}
        }
        Ok(())
    }

    fn head_bytes(&mut self, rest: &[u8]) -> Result<usize, MultipartError> {
        let line = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
        if self.head.len() + line > HEAD_BYTES {
            return Err(MultipartError { offset: self.head_start, kind: MultipartErrorKind::HeadTooLong });
        }
        self.head.extend_from_slice(&rest[..line]);
        if self.head == b"\r\n" || self.head.ends_with(b"\r\n\r\n") {
            self.end_head(self.offset + line)?;
        } else if self.head.ends_with(b"\n") && !self.head.ends_with(b"\r\n") {
            let offset = self.offset + line - 1;
            return Err(MultipartError { offset, kind: MultipartErrorKind::BareLineFeed });
        }
        Ok(line)
    }

    fn end_head(&mut self, offset: usize) -> Result<(), MultipartError> {
        let wrong = |kind| MultipartError { offset: self.head_start, kind };
        self.field = head::field(&self.head).map_err(wrong)?;
        if self.field == Field::Model && self.found.model.is_some() {
            return Err(wrong(MultipartErrorKind::DuplicateModel));
        }
        self.head.clear();
        self.content_start = offset;
        self.state = State::Content;
        Ok(())
    }
}
