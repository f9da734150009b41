//! The codec: bincode behind a length prefix. The only file that names bincode, so that it can be replaced here.

use super::limits::RUN_HEAD_BYTES;
use bincode::config::Configuration;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use serde::{Serialize, de::DeserializeOwned};

/// A message that could not be read or written. Whose fault: for [`encode`] ours, else the peer's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The message is larger than the limit of its kind.
    #[error("a message of {found} bytes is over the limit of {limit}")]
    TooLarge {
        /// Size, in bytes.
        found: usize,
        /// Limit, in bytes.
        limit: usize,
    },
    /// The bytes are not such a message.
    #[error("not a valid message: {0}")]
    Malformed(String),
    /// Bytes are left after the message.
    #[error("{0} bytes follow the message")]
    Trailing(usize),
}

/// A frame that could not be read from a stream.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FrameError {
    /// The stream ended, was reset or lost before the frame was whole.
    #[error(transparent)]
    Read(#[from] quinn::ReadError),
    /// The stream finished inside a frame or where one was due.
    #[error("the stream ended where a message was due")]
    Ended,
    /// The frame is not what was due.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// No length inside a frame of up to [`RUN_HEAD_BYTES`] is believed beyond this. bincode counts 8 bytes for an integer
/// that may take 1 in the frame, so a smaller limit would refuse good heads.
const HEAD_DECODE_BYTES: usize = 8 * RUN_HEAD_BYTES;

/// The same for larger frames. A message of more than a hundred thousand tiny parts reaches it before it reaches the
/// limit of its kind.
const DECODE_BYTES: usize = 2 << 20;

const CONFIG: Configuration = bincode::config::standard();

/// Writes `message` as a frame: `prefix` and the encoded message behind their common length.
///
/// Errors: [`CodecError::TooLarge`] over `limit` bytes; [`CodecError::Malformed`] if the message cannot be encoded.
pub fn encode<M: Serialize>(prefix: &[u8], message: &M, limit: usize) -> Result<Bytes, CodecError> {
    let body = bincode::serde::encode_to_vec(message, CONFIG)
        .map_err(|error| CodecError::Malformed(error.to_string()))?;
    let length = prefix.len() + body.len();
    if length > limit {
        return Err(CodecError::TooLarge { found: length, limit });
    }
    let mut frame = BytesMut::with_capacity(4 + length);
    frame.put_u32(u32::try_from(length).map_err(|_| CodecError::TooLarge { found: length, limit })?);
    frame.put_slice(prefix);
    frame.put_slice(&body);
    Ok(frame.freeze())
}

/// Reads a message from exactly `bytes` (a frame without its length).
pub fn decode<M: DeserializeOwned>(bytes: &[u8]) -> Result<M, CodecError> {
    let decoded = if bytes.len() <= RUN_HEAD_BYTES {
        bincode::serde::decode_from_slice(bytes, CONFIG.with_limit::<HEAD_DECODE_BYTES>())
    } else {
        bincode::serde::decode_from_slice(bytes, CONFIG.with_limit::<DECODE_BYTES>())
    };
    let (message, used) = decoded.map_err(|error| CodecError::Malformed(error.to_string()))?;
    match bytes.len() - used {
        0 => Ok(message),
        left => Err(CodecError::Trailing(left)),
    }
}

/// Frames out of bytes that come in pieces of any size. Holds at most one frame and the piece that completed it.
#[derive(Debug, Default)]
pub struct FrameBuffer {
    bytes: BytesMut,
}

impl FrameBuffer {
    /// Adds bytes from the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole frame without its length, if it is here. `Err` if it is announced as longer than `limit`; the
    /// stream is of no use after that.
    pub fn next_frame(&mut self, limit: usize) -> Result<Option<Bytes>, CodecError> {
        let Some(prefix) = self.bytes.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*prefix) as usize;
        if length > limit {
            return Err(CodecError::TooLarge { found: length, limit });
        }
        if self.bytes.len() < 4 + length {
            return Ok(None);
        }
        self.bytes.advance(4);
        Ok(Some(self.bytes.split_to(length).freeze()))
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Everything held that is not part of a frame already taken.
    pub fn take(&mut self) -> Bytes {
        self.bytes.split().freeze()
    }
}

/// Reads one frame from the stream, its length checked against `limit` before anything is allocated.
///
/// `None`: the stream finished at a frame boundary. Not cancel-safe: a call dropped midway leaves half a frame read.
pub async fn read_frame(recv: &mut quinn::RecvStream, limit: usize) -> Result<Option<Vec<u8>>, FrameError> {
    let mut prefix = [0; 4];
    match read_full(recv, &mut prefix).await? {
        0 => return Ok(None),
        4 => {}
        _ => return Err(FrameError::Ended),
    }
    let length = u32::from_be_bytes(prefix) as usize;
    if length > limit {
        return Err(CodecError::TooLarge { found: length, limit }.into());
    }
    let mut frame = vec![0; length];
    if read_full(recv, &mut frame).await? < length {
        return Err(FrameError::Ended);
    }
    Ok(Some(frame))
}

/// Fills `buffer` as far as the stream goes; the number of bytes read is smaller only at the stream's end.
async fn read_full(recv: &mut quinn::RecvStream, buffer: &mut [u8]) -> Result<usize, quinn::ReadError> {
    let mut filled = 0;
    while filled < buffer.len() {
        match recv.read(&mut buffer[filled..]).await? {
            Some(read) => filled += read,
            None => break,
        }
    }
    Ok(filled)
}
