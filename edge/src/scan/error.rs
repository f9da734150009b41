//! Why a body is refused. The client's fault in each case: sending it again as it is does not help.

use super::MODEL_BYTES;

/// A body that is refused, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("request body, byte {offset}: {kind}")]
pub struct ScanError {
    /// Offset in the body, in bytes: of the first wrong byte, or of the literal that is wrong as a whole. The same
    /// however the body is cut into chunks.
    pub offset: usize,
    /// What is wrong.
    pub kind: ScanErrorKind,
}

/// What is wrong with a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScanErrorKind {
    /// Not JSON.
    #[error("not valid JSON: expected {0}")]
    Syntax(&'static str),
    /// Nested too deeply.
    #[error("JSON nested deeper than {} levels", super::MAX_DEPTH)]
    Depth,
    /// A string is not UTF-8.
    #[error("a JSON string is not valid UTF-8")]
    Utf8,
    /// JSON, but not an object.
    #[error("the body must be a JSON object")]
    NotAnObject,
    /// Two top-level `model` members: which one counts would differ from reader to reader.
    #[error("\"model\" is given twice")]
    DuplicateModel,
    /// `model` is not a string.
    #[error("\"model\" must be a string")]
    ModelNotAString,
    /// `stream` is neither a boolean nor null.
    #[error("\"stream\" must be true or false")]
    StreamNotABool,
    /// `model` is longer than any model's name.
    #[error("\"model\" is longer than {MODEL_BYTES} bytes")]
    ModelTooLong,
    /// The body ends before its object does.
    #[error("the body ends before its JSON object is complete")]
    Truncated,
}
