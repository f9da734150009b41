//! The codec: frames out of a stream in any pieces, and what may be said of any message that was read.

use super::pieces;
use bytes::Bytes;
use iop_transport::wire::{
    CONTROL_FRAME_BYTES, CodecError, EVENT_FRAME_BYTES, EdgeMessage, FrameBuffer, Hello, NodeMessage,
    RUN_HEAD_BYTES, RunEvent, RunHead, RunReply, TEXT_BYTES, decode, encode,
};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

/// How the stream is cut, which limit its frames have, and the stream. Each frame is read as every kind of message.
pub fn wire_codec(data: &[u8]) {
    let [how, kind, stream @ ..] = data else { return };
    let limits = [TEXT_BYTES * 2, RUN_HEAD_BYTES, CONTROL_FRAME_BYTES, EVENT_FRAME_BYTES];
    let limit = limits[usize::from(*kind) % limits.len()];
    let (expected, expected_rest) = naive(stream, limit);
    let mut buffer = FrameBuffer::default();
    let (frames, rest) = match read(&mut buffer, &pieces(*how, stream), limit) {
        Ok(frames) => (frames, Ok(buffer.take())),
        Err((frames, error)) => (frames, Err(error)),
    };
    assert_eq!(frames, expected, "frames");
    assert_eq!(rest, expected_rest.map(Bytes::copy_from_slice), "what follows them");
    assert!(rest.is_err() || buffer.is_empty());
    for frame in &frames {
        round_trip::<Hello>(frame);
        round_trip::<EdgeMessage>(frame);
        round_trip::<NodeMessage>(frame);
        round_trip::<RunHead>(frame);
        round_trip::<RunReply>(frame);
        round_trip::<RunEvent>(frame);
    }
}

fn read(
    buffer: &mut FrameBuffer,
    pieces: &[&[u8]],
    limit: usize,
) -> Result<Vec<Bytes>, (Vec<Bytes>, CodecError)> {
    let mut frames = Vec::new();
    for piece in pieces {
        buffer.push(piece);
        loop {
            match buffer.next_frame(limit) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return Err((frames, error)),
            }
        }
    }
    Ok(frames)
}

/// The frames of a stream that is all there, and what follows them.
fn naive(stream: &[u8], limit: usize) -> (Vec<&[u8]>, Result<&[u8], CodecError>) {
    let (mut frames, mut rest) = (Vec::new(), stream);
    while let Some((prefix, after)) = rest.split_first_chunk::<4>() {
        let found = u32::from_be_bytes(*prefix) as usize;
        if found > limit {
            return (frames, Err(CodecError::TooLarge { found, limit }));
        }
        let Some((frame, after)) = after.split_at_checked(found) else { break };
        frames.push(frame);
        rest = after;
    }
    (frames, Ok(rest))
}

/// Reads a message and holds what it says against what it says when it is written and read again.
pub(super) fn round_trip<M: Serialize + DeserializeOwned + Debug>(bytes: &[u8]) -> Option<M> {
    // Larger ones have another limit of decoding, and show nothing more.
    let message: M = decode(bytes).ok().filter(|_| bytes.len() <= RUN_HEAD_BYTES)?;
    let frame = encode(&[], &message, bytes.len()).expect("what was read is written in no more bytes");
    let (prefix, body) = frame.split_first_chunk::<4>().expect("a frame begins with its length");
    assert_eq!(u32::from_be_bytes(*prefix) as usize, body.len());
    let again: M = decode(body).expect("what was written is read");
    // Compared as bytes: not every number in a vector equals itself.
    assert_eq!(encode(&[], &again, bytes.len()).as_ref(), Ok(&frame), "{message:?} became {again:?}");
    let longer = [bytes, &[0]].concat();
    assert_eq!(decode::<M>(&longer).err(), Some(CodecError::Trailing(1)), "{message:?}");
    if let Some((_, shorter)) = bytes.split_last() {
        assert!(
            matches!(decode::<M>(shorter), Err(CodecError::Malformed(_))),
            "a part of {message:?} is a message"
        );
    }
    Some(message)
}
