//! The control stream: typed, framed, bounded. What the messages mean is decided by edge and node.

use crate::codes::StreamCode;
use crate::send::{ResetOnDrop, SendError};
use crate::wire::{
    self, CONTROL_FRAME_BYTES, CodecError, EdgeMessage, FrameBuffer, FrameError, Hello, NodeMessage,
    PROTOCOL, TEXT_BYTES,
};
use std::marker::PhantomData;
use std::time::Duration;

/// How long a peer may take to open the control stream and say Hello.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// Shortest time between two requests for a certificate on one connection. A node has no reason to ask again so soon.
pub const RENEWAL_INTERVAL: Duration = Duration::from_secs(60);

/// Sends the control stream's messages before the bodies of runs.
const CONTROL_PRIORITY: i32 = 1;

/// Bytes taken from the stream at once.
const CHUNK_BYTES: usize = 16 << 10;

/// A registration that did not come about.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum HelloError {
    /// The connection is lost.
    #[error(transparent)]
    Connection(#[from] quinn::ConnectionError),
    /// The first frame could not be read.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The peer speaks another version.
    #[error("the peer speaks protocol {found}, this end speaks {PROTOCOL}")]
    Version {
        /// The peer's version.
        found: u16,
    },
    /// The first frame could not be sent.
    #[error(transparent)]
    Send(#[from] ControlSendError),
}

/// A control message that could not be sent.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ControlSendError {
    /// The message is too large: ours to fix.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The stream is gone.
    #[error(transparent)]
    Stream(#[from] SendError),
}

/// The sending half for messages of type `M`.
#[derive(Debug)]
pub struct ControlSend<M> {
    stream: ResetOnDrop,
    message: PhantomData<fn(M)>,
}

/// The receiving half for messages of type `M`.
#[derive(Debug)]
pub struct ControlRecv<M> {
    stream: quinn::RecvStream,
    buffer: FrameBuffer,
    message: PhantomData<fn() -> M>,
}

impl<M: serde::Serialize> ControlSend<M> {
    fn new(stream: quinn::SendStream) -> Self {
        // Without it the messages are only later than they could be.
        let _closed = stream.set_priority(CONTROL_PRIORITY);
        Self { stream: ResetOnDrop::new(stream, StreamCode::Protocol), message: PhantomData }
    }

    /// Sends one message. Not cancel-safe: a call dropped midway breaks the stream.
    pub async fn send(&mut self, message: &M) -> Result<(), ControlSendError> {
        let frame = wire::encode(&[], message, CONTROL_FRAME_BYTES)?;
        Ok(self.stream.write(&mut [frame]).await?)
    }
}

impl<M: serde::de::DeserializeOwned> ControlRecv<M> {
    fn new(stream: quinn::RecvStream) -> Self {
        Self { stream, buffer: FrameBuffer::default(), message: PhantomData }
    }

    /// The next message; `None` when the peer ended the stream between two. Cancel-safe.
    pub async fn recv(&mut self) -> Result<Option<M>, FrameError> {
        loop {
            if let Some(frame) = self.buffer.next_frame(CONTROL_FRAME_BYTES)? {
                return Ok(Some(wire::decode(&frame)?));
            }
            match self.stream.read_chunk(CHUNK_BYTES, true).await? {
                Some(chunk) => self.buffer.push(&chunk.bytes),
                None if self.buffer.is_empty() => return Ok(None),
                None => return Err(FrameError::Ended),
            }
        }
    }
}

/// The edge's half of registration: waits for the control stream and its Hello. The caller bounds the wait with
/// [`HELLO_TIMEOUT`].
pub async fn accept_hello(
    connection: &quinn::Connection,
) -> Result<(Hello, ControlSend<EdgeMessage>, ControlRecv<NodeMessage>), HelloError> {
    let (send, mut recv) = connection.accept_bi().await?;
    let send = ControlSend::new(send);
    let frame = wire::read_frame(&mut recv, TEXT_BYTES * 2).await?.ok_or(FrameError::Ended)?;
    Ok((read_hello(&frame)?, send, ControlRecv::new(recv)))
}

/// The Hello in a node's first frame, its length left out. A stranger's version is known before anything is decoded.
pub fn read_hello(frame: &[u8]) -> Result<Hello, HelloError> {
    let Some((version, body)) = frame.split_first_chunk::<2>() else {
        return Err(FrameError::Codec(CodecError::Malformed("no protocol version".into())).into());
    };
    let found = u16::from_be_bytes(*version);
    if found != PROTOCOL {
        return Err(HelloError::Version { found });
    }
    let mut hello: Hello = wire::decode(body).map_err(FrameError::Codec)?;
    hello.software = printable(&hello.software);
    Ok(hello)
}

/// The node's half of registration: opens the control stream and says Hello.
pub async fn say_hello(
    connection: &quinn::Connection,
    hello: &Hello,
) -> Result<(ControlSend<NodeMessage>, ControlRecv<EdgeMessage>), HelloError> {
    let (send, recv) = connection.open_bi().await?;
    let mut send: ControlSend<NodeMessage> = ControlSend::new(send);
    let frame =
        wire::encode(&PROTOCOL.to_be_bytes(), hello, TEXT_BYTES * 2).map_err(ControlSendError::Codec)?;
    send.stream.write(&mut [frame]).await.map_err(ControlSendError::Stream)?;
    Ok((send, ControlRecv::new(recv)))
}

/// A peer's text as it may be logged and shown: without control characters, at most [`TEXT_BYTES`] long.
pub fn printable(text: &str) -> String {
    let mut printable = String::new();
    for character in text.chars().filter(|character| !character.is_control()) {
        if printable.len() + character.len_utf8() > TEXT_BYTES {
            break;
        }
        printable.push(character);
    }
    printable
}
