//! The structure of the body: which token may come next, how deep it is nested, and which fields are of interest.

use super::{
    MAX_DEPTH, MODEL_BYTES, ModelField, Scanned,
    error::{ScanError, ScanErrorKind},
    number::{NumberScan, NumberStep},
    string::StringScan,
    text::{BINARY_BYTES, HEAD_BYTES, is_binary_key, is_data_url},
};

/// Longest key that is of interest, and one byte more to tell it from a longer one.
const KEY_BYTES: usize = 32;

/// The scan of one body, fed chunk by chunk. Its size does not depend on the body's.
#[derive(Debug, Default)]
pub struct BodyScan {
    state: State,
    offset: usize,
    depth: u32,
    /// One bit for each open container, the innermost lowest: 1 is an object.
    objects: u128,
    /// What the value that comes next, or is being read, is.
    field: Field,
    in_stream_options: bool,
    string: StringScan,
    string_start: usize,
    number: NumberScan,
    /// By [`Field::MaxTokens`].
    max_tokens: [Option<u64>; 3],
    found: Scanned,
    failed: Option<ScanError>,
}

#[derive(Debug, Default, Clone, Copy)]
enum State {
    /// Before the object.
    #[default]
    Start,
    /// Behind `{`.
    FirstKey,
    /// Behind a comma in an object.
    NextKey,
    InKey,
    Colon,
    /// Behind `[`.
    FirstItem,
    /// Behind a colon, or a comma in an array.
    Value,
    InString,
    InNumber,
    /// Inside `true`, `false` or `null`: what is left of it.
    InWord(&'static [u8]),
    /// Behind a value in a container.
    AfterValue,
    /// Behind the object.
    End,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Field {
    #[default]
    Other,
    Model,
    Stream,
    StreamOptions,
    IncludeUsage,
    MaxTokens(usize),
    Binary,
}

impl BodyScan {
    /// A scan before the first byte.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes of the body. After an error, every further call gives the same error.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), ScanError> {
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
    pub fn finish(mut self) -> Result<Scanned, ScanError> {
        match (self.failed, self.state) {
            (Some(error), _) => Err(error),
            (None, State::End) => {
                self.found.max_tokens = self.max_tokens.into_iter().flatten().max();
                Ok(self.found)
            }
            (None, _) => Err(self.error(ScanErrorKind::Truncated)),
        }
    }

    fn error(&self, kind: ScanErrorKind) -> ScanError {
        ScanError { offset: self.offset, kind }
    }

    fn expected(&self, what: &'static str) -> ScanError {
        self.error(ScanErrorKind::Syntax(what))
    }

    /// Takes some bytes of `rest`, which is not empty, and says how many. None only where a number ends.
    fn step(&mut self, rest: &[u8]) -> Result<usize, ScanError> {
        match self.state {
            State::InString | State::InKey => return self.string_bytes(rest),
            State::InNumber => return self.number_byte(rest[0]),
            State::InWord(left) => self.word_byte(left, rest[0])?,
            _ if matches!(rest[0], b' ' | b'\t' | b'\n' | b'\r') => {}
            _ => self.token(rest[0])?,
        }
        Ok(1)
    }

    /// Takes a byte that is not white space, between tokens.
    fn token(&mut self, byte: u8) -> Result<(), ScanError> {
        match (self.state, byte) {
            (State::Start, b'{') => self.open(true)?,
            (State::Start, b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                return Err(self.error(ScanErrorKind::NotAnObject));
            }
            (State::Start, _) => return Err(self.expected("'{'")),
            (State::FirstKey | State::NextKey, b'"') => {
                self.state = State::InKey;
                self.begin_string(KEY_BYTES);
            }
            (State::FirstKey, b'}') => self.close(),
            (State::FirstKey, _) => return Err(self.expected("a key in quotes or '}'")),
            (State::NextKey, _) => return Err(self.expected("a key in quotes")),
            (State::Colon, b':') => self.state = State::Value,
            (State::Colon, _) => return Err(self.expected("':' after a key")),
            (State::FirstItem, b']') => self.close(),
            (State::AfterValue, b',') if self.in_object() => self.state = State::NextKey,
            (State::AfterValue, b',') => {
                self.field = Field::Other;
                self.state = State::Value;
            }
            (State::AfterValue, b'}') if self.in_object() => self.close(),
            (State::AfterValue, b']') if !self.in_object() => self.close(),
            (State::AfterValue, _) if self.in_object() => return Err(self.expected("',' or '}'")),
            (State::AfterValue, _) => return Err(self.expected("',' or ']'")),
            (State::End, _) => return Err(self.expected("nothing after the object")),
            _ => self.begin_value(byte)?,
        }
        Ok(())
    }

    fn begin_value(&mut self, byte: u8) -> Result<(), ScanError> {
        if !matches!(byte, b'"' | b'{' | b'[' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n') {
            return Err(self.expected("a value"));
        }
        match self.field {
            Field::Model if byte != b'"' => return Err(self.error(ScanErrorKind::ModelNotAString)),
            Field::Stream if !matches!(byte, b't' | b'f' | b'n') => {
                return Err(self.error(ScanErrorKind::StreamNotABool));
            }
            Field::Stream => self.found.stream = byte == b't',
            Field::IncludeUsage => self.found.include_usage = byte == b't',
            _ => {}
        }
        self.state = match byte {
            b'"' => {
                let keep = if self.field == Field::Model { MODEL_BYTES } else { HEAD_BYTES };
                self.begin_string(keep);
                State::InString
            }
            b'{' | b'[' => return self.open(byte == b'{'),
            b't' => State::InWord(b"rue"),
            b'f' => State::InWord(b"alse"),
            b'n' => State::InWord(b"ull"),
            _ => {
                self.number = NumberScan::default();
                self.number.step(byte);
                State::InNumber
            }
        };
        Ok(())
    }

    fn in_object(&self) -> bool {
        self.objects & 1 == 1
    }

    fn open(&mut self, object: bool) -> Result<(), ScanError> {
        if self.depth == MAX_DEPTH {
            return Err(self.error(ScanErrorKind::Depth));
        }
        self.depth += 1;
        self.objects = self.objects << 1 | u128::from(object);
        if self.depth == 2 {
            self.in_stream_options = object && self.field == Field::StreamOptions;
        }
        self.field = Field::Other;
        self.state = if object { State::FirstKey } else { State::FirstItem };
        Ok(())
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.objects >>= 1;
        self.state = if self.depth == 0 { State::End } else { State::AfterValue };
    }

    fn begin_string(&mut self, keep: usize) {
        self.string_start = self.offset;
        self.string.begin(keep);
    }

    fn string_bytes(&mut self, rest: &[u8]) -> Result<usize, ScanError> {
        let key = matches!(self.state, State::InKey);
        // The length is looked at before a fault behind it, so that the error does not depend on the chunks.
        let advance = self.string.advance(rest);
        if !key && self.field == Field::Model && self.string.len() > MODEL_BYTES as u64 {
            return Err(ScanError { offset: self.string_start, kind: ScanErrorKind::ModelTooLong });
        }
        let advance = advance.map_err(|(at, kind)| ScanError { offset: self.offset + at, kind })?;
        if advance.closed && key {
            self.end_key()?;
        } else if advance.closed {
            self.end_string(self.offset + advance.used);
        }
        Ok(advance.used)
    }

    fn end_key(&mut self) -> Result<(), ScanError> {
        let whole = self.string.len() <= KEY_BYTES as u64;
        let key = if whole { self.string.head() } else { &[] };
        self.field = match (self.depth, key) {
            (1, b"model") => Field::Model,
            (1, b"stream") => Field::Stream,
            (1, b"stream_options") => Field::StreamOptions,
            (1, b"max_tokens") => Field::MaxTokens(0),
            (1, b"max_completion_tokens") => Field::MaxTokens(1),
            (1, b"max_output_tokens") => Field::MaxTokens(2),
            (2, b"include_usage") if self.in_stream_options => Field::IncludeUsage,
            (_, key) if is_binary_key(key) => Field::Binary,
            _ => Field::Other,
        };
        match self.field {
            Field::Model if self.found.model.is_some() => {
                return Err(ScanError { offset: self.string_start, kind: ScanErrorKind::DuplicateModel });
            }
            Field::StreamOptions => self.found.include_usage = false,
            Field::MaxTokens(which) => self.max_tokens[which] = None,
            _ => {}
        }
        self.state = State::Colon;
        Ok(())
    }

    fn end_string(&mut self, end: usize) {
        let head = self.string.head();
        let file = self.field == Field::Binary && self.string.len() > BINARY_BYTES;
        if !file && !is_data_url(head) {
            self.found.text.add(self.string.text());
        }
        if self.field == Field::Model {
            let value = String::from_utf8(head.to_vec()).expect("the scan of a string refuses all but UTF-8");
            self.found.model = Some(ModelField { value, literal: self.string_start..end });
        }
        self.state = State::AfterValue;
    }

    fn number_byte(&mut self, byte: u8) -> Result<usize, ScanError> {
        match self.number.step(byte) {
            NumberStep::Taken => return Ok(1),
            NumberStep::Wrong => return Err(self.expected("a number as JSON writes it")),
            NumberStep::Complete => {}
        }
        if self.number.out_of_range() {
            return Err(self.expected("a number in the range of a double before this"));
        }
        if let Field::MaxTokens(which) = self.field {
            self.max_tokens[which] = self.number.whole();
        }
        self.state = State::AfterValue;
        Ok(0)
    }

    fn word_byte(&mut self, left: &'static [u8], byte: u8) -> Result<(), ScanError> {
        match left.split_first() {
            Some((&due, left)) if due == byte => {
                self.state = if left.is_empty() { State::AfterValue } else { State::InWord(left) };
                Ok(())
            }
            _ => Err(self.expected("true, false or null")),
        }
    }
}
