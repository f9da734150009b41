//! The inside of a JSON string, from behind its opening quote to its closing one: escapes, surrogate pairs and UTF-8 over
//! any cut into chunks. It keeps only the string's beginning; stretches of plain ASCII are passed over in blocks.

use super::{error::ScanErrorKind, text::TextCount};

/// A string being read.
#[derive(Debug, Default)]
pub(super) struct StringScan {
    phase: Phase,
    head: Vec<u8>,
    keep: usize,
    len: u64,
    text: TextCount,
}

#[derive(Debug, Default, Clone, Copy)]
enum Phase {
    /// Between characters.
    #[default]
    Plain,
    /// Inside a character of several bytes: `left` more, the next one between `low` and `high`.
    Utf8 { left: u8, code: u32, low: u8, high: u8 },
    /// Behind a backslash.
    Escape,
    /// Inside the four digits of `\u`; `lead` is the first half of a surrogate pair that they must complete.
    Hex { left: u8, unit: u32, lead: Option<u32> },
    /// Behind the first half of a surrogate pair: a backslash is due.
    Backslash { lead: u32 },
    /// Behind that backslash: a `u` is due.
    LowerU { lead: u32 },
}

/// What is wrong in a string: offset from the start of the slice, and the kind.
pub(super) type Fault = (usize, ScanErrorKind);

/// How far [`StringScan::advance`] came.
pub(super) struct Advance {
    /// Number of bytes taken.
    pub(super) used: usize,
    /// Whether the last of them was the closing quote.
    pub(super) closed: bool,
}

impl StringScan {
    /// Begins a new string, of which the first `keep` bytes are kept.
    pub(super) fn begin(&mut self, keep: usize) {
        self.phase = Phase::Plain;
        self.head.clear();
        self.keep = keep;
        self.len = 0;
        self.text = TextCount::default();
    }

    /// The beginning of the string so far, unescaped. Ends inside a character where `keep` does.
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    /// Length of the string so far, unescaped, in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The text in the string so far.
    pub(super) fn text(&self) -> TextCount {
        self.text
    }

    /// Takes bytes up to the closing quote, or all of them.
    pub(super) fn advance(&mut self, bytes: &[u8]) -> Result<Advance, Fault> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match self.phase {
                Phase::Plain => match byte {
                    b'"' => return Ok(Advance { used: at + 1, closed: true }),
                    b'\\' => self.phase = Phase::Escape,
                    0..0x20 => return Err((at, ScanErrorKind::Syntax("no control character in a string"))),
                    0x20..0x80 => {
                        let run = plain_len(&bytes[at..]);
                        self.take_plain(&bytes[at..at + run]);
                        at += run;
                        continue;
                    }
                    0x80.. => self.phase = lead_byte(byte).ok_or((at, ScanErrorKind::Utf8))?,
                },
                Phase::Utf8 { left, code, low, high } => {
                    if byte < low || byte > high {
                        return Err((at, ScanErrorKind::Utf8));
                    }
                    self.continuation(left, code << 6 | u32::from(byte & 0x3F));
                }
                _ => self.escape_byte(byte).map_err(|expected| (at, ScanErrorKind::Syntax(expected)))?,
            }
            at += 1;
        }
        Ok(Advance { used: at, closed: false })
    }

    fn continuation(&mut self, left: u8, code: u32) {
        if left > 1 {
            self.phase = Phase::Utf8 { left: left - 1, code, low: 0x80, high: 0xBF };
        } else {
            self.take_code(code);
        }
    }

    /// Takes a byte of an escape; the error is what was expected instead.
    fn escape_byte(&mut self, byte: u8) -> Result<(), &'static str> {
        match self.phase {
            Phase::Escape if byte == b'u' => self.phase = Phase::Hex { left: 4, unit: 0, lead: None },
            Phase::Escape => {
                let code = match byte {
                    b'"' | b'\\' | b'/' => byte,
                    b'b' => 0x08,
                    b'f' => 0x0C,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    _ => return Err("an escape that JSON knows"),
                };
                self.take_code(u32::from(code));
            }
            Phase::Backslash { lead } if byte == b'\\' => self.phase = Phase::LowerU { lead },
            Phase::LowerU { lead } if byte == b'u' => {
                self.phase = Phase::Hex { left: 4, unit: 0, lead: Some(lead) };
            }
            Phase::Hex { left, unit, lead } => {
                let digit = char::from(byte).to_digit(16).ok_or("four hexadecimal digits after \\u")?;
                self.hex_digit(left - 1, unit << 4 | digit, lead)?;
            }
            _ => return Err("the second half of a surrogate pair"),
        }
        Ok(())
    }

    fn hex_digit(&mut self, left: u8, unit: u32, lead: Option<u32>) -> Result<(), &'static str> {
        match (lead, unit) {
            _ if left > 0 => self.phase = Phase::Hex { left, unit, lead },
            (Some(lead), 0xDC00..=0xDFFF) => {
                self.take_code(0x10000 + ((lead - 0xD800) << 10 | (unit - 0xDC00)));
            }
            (Some(_), _) => return Err("the second half of a surrogate pair"),
            (None, 0xDC00..=0xDFFF) => return Err("the first half of a surrogate pair before its second"),
            (None, 0xD800..=0xDBFF) => self.phase = Phase::Backslash { lead: unit },
            (None, _) => self.take_code(unit),
        }
        Ok(())
    }

    fn take_plain(&mut self, bytes: &[u8]) {
        self.len += bytes.len() as u64;
        self.text.bytes += bytes.len() as u64;
        self.keep(bytes);
    }

    fn take_code(&mut self, code: u32) {
        let char = char::from_u32(code).expect("surrogates and codes out of range were refused");
        self.phase = Phase::Plain;
        self.len += char.len_utf8() as u64;
        self.text.add_char(char);
        self.keep(char.encode_utf8(&mut [0; 4]).as_bytes());
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = self.keep.saturating_sub(self.head.len());
        self.head.extend_from_slice(&bytes[..room.min(bytes.len())]);
    }
}

/// What follows the first byte of a character of several bytes; `None` if no character begins so.
fn lead_byte(byte: u8) -> Option<Phase> {
    let (left, bits, low, high) = match byte {
        0xC2..=0xDF => (1, 0x1F, 0x80, 0xBF),
        // The narrower bounds exclude overlong forms, surrogates and codes above U+10FFFF.
        0xE0 => (2, 0x0F, 0xA0, 0xBF),
        0xED => (2, 0x0F, 0x80, 0x9F),
        0xE1..=0xEF => (2, 0x0F, 0x80, 0xBF),
        0xF0 => (3, 0x07, 0x90, 0xBF),
        0xF1..=0xF3 => (3, 0x07, 0x80, 0xBF),
        0xF4 => (3, 0x07, 0x80, 0x8F),
        _ => return None,
    };
    Some(Phase::Utf8 { left, code: u32::from(byte & bits), low, high })
}

/// How many of the first bytes are ASCII that stands for itself.
fn plain_len(bytes: &[u8]) -> usize {
    /// Large enough that the compiler tests a block with a few vector instructions.
    const BLOCK: usize = 32;
    let blocks = bytes.chunks_exact(BLOCK).take_while(|block| {
        // Without a branch, or it would be tested byte by byte.
        !block.iter().fold(false, |special, &byte| special | is_special(byte))
    });
    let plain = blocks.count() * BLOCK;
    let rest = &bytes[plain..];
    plain + rest.iter().position(|&byte| is_special(byte)).unwrap_or(rest.len())
}

fn is_special(byte: u8) -> bool {
    !(0x20..0x80).contains(&byte) | (byte == b'"') | (byte == b'\\')
}
