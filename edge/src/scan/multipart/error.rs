//! Why a multipart body is refused. The client's fault in each case: sending it again as it is does not help.

use super::{HEAD_BYTES, MODEL_BYTES};

/// A body that is refused, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("request body, byte {offset}: {kind}")]
pub struct MultipartError {
    /// Offset in the body, in bytes: of the first wrong byte, or of the head or content that is wrong as a whole.
    pub offset: usize,
    /// What is wrong.
    pub kind: MultipartErrorKind,
}

/// What is wrong with a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MultipartErrorKind {
    /// Nothing in it is a part.
    #[error("the boundary that the content-type header names is not in the body")]
    NoBoundary,
    /// Something follows the boundary on its line.
    #[error("a boundary must be followed by a line end (CR LF), or by `--` at the end of the body")]
    BoundaryLine,
    /// A line of a head that ends with LF alone.
    #[error("the lines of a part's head must end with CR LF")]
    BareLineFeed,
    /// The head of a part is too long.
    #[error("the head of a part is longer than {HEAD_BYTES} bytes")]
    HeadTooLong,
    /// The head of a part is not made of headers.
    #[error("the head of a part has a line that is no header")]
    Head,
    /// A part that does not say what it is.
    #[error("a part has no `content-disposition: form-data` with a name")]
    NoName,
    /// Two `model` fields: which one counts would differ from reader to reader.
    #[error("the field `model` is given twice")]
    DuplicateModel,
    /// `model` has a file name.
    #[error("`model` must be a field, not a file")]
    ModelIsAFile,
    /// `model` is not written as it is.
    #[error("the field `model` must not have a content-transfer-encoding")]
    ModelEncoded,
    /// `model` is longer than any model's name.
    #[error("the field `model` is longer than {MODEL_BYTES} bytes")]
    ModelTooLong,
    /// `model` is not UTF-8.
    #[error("the field `model` is not valid UTF-8")]
    ModelNotText,
    /// `stream` is neither true nor false.
    #[error("the field `stream` must be true or false")]
    StreamNotABool,
    /// The body ends before its last boundary.
    #[error("the body ends before its closing boundary")]
    Truncated,
}
