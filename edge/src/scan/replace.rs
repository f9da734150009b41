//! The body with another model's name. Everything but the literal stays as the client wrote it, and is not copied.

use std::ops::Range;

use bytes::Bytes;

/// The body in `chunks` with the bytes at `literal` replaced by `name`, which is written as the body needs it.
///
/// `literal` must come from the scan of the same body.
pub fn replace_model(chunks: Vec<Bytes>, literal: Range<usize>, name: Bytes) -> Vec<Bytes> {
    let mut name = Some(name);
    // The literal may lie across chunks: at most one of them is cut into two, and the name is one more.
    let mut replaced = Vec::with_capacity(chunks.len() + 2);
    let mut start = 0;
    for chunk in chunks {
        let end = start + chunk.len();
        let before = literal.start.clamp(start, end) - start;
        let after = literal.end.clamp(start, end) - start;
        if before > 0 {
            replaced.push(chunk.slice(..before));
        }
        if literal.start < end
            && let Some(name) = name.take()
        {
            replaced.push(name);
        }
        if after < chunk.len() {
            replaced.push(chunk.slice(after..));
        }
        start = end;
    }
    debug_assert!(name.is_none(), "the literal lies within the body");
    replaced
}
