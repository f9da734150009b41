//! The scan of a request's body, JSON or a form ([`multipart`]): one pass over its chunks as they arrive, which validates it
//! and notes the few facts that admission and dispatch need. It holds no copy of the body and decides nothing.

mod error;
mod machine;
pub mod multipart;
mod number;
mod replace;
mod string;
mod text;

use std::ops::Range;

pub use error::{ScanError, ScanErrorKind};
pub use machine::BodyScan;
pub use replace::replace_model;
pub use text::{TextCount, estimate_tokens};

/// Longest `model` value, unescaped, in bytes. Model ids are names or paths; 512 is beyond any in use.
pub const MODEL_BYTES: usize = 512;

/// Nesting that is accepted: the limit of serde_json, which refuses the 128th level.
pub const MAX_DEPTH: u32 = 127;

/// What the scan found in a valid body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scanned {
    /// The top-level `model`, if there is one.
    pub model: Option<ModelField>,
    /// The top-level `stream`; `null` and absence are false. Of several, the last counts, as for every field but `model`.
    pub stream: bool,
    /// `stream_options.include_usage` is `true`.
    pub include_usage: bool,
    /// The largest of `max_tokens`, `max_completion_tokens` and `max_output_tokens`, where they are whole numbers.
    pub max_tokens: Option<u64>,
    /// The body's text, for an estimate of its tokens.
    pub text: TextCount,
}

/// The `model` member of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelField {
    /// Its value, unescaped. May be empty.
    pub value: String,
    /// Where its literal is in the body, in bytes, quotes included.
    pub literal: Range<usize>,
}
