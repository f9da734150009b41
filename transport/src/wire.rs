//! What travels between edge and node, version 1 (ALPN [`ALPN`]). Bytes only: no sockets, no decisions.
//!
//! 1. The node dials with mutual TLS. The edge reads the node's identity from its certificate, never from a message.
//! 2. The node opens the control stream (bidirectional, raised priority) and writes [`Hello`].
//! 3. The edge answers [`EdgeMessage::Welcome`] or closes the connection with a [`CloseCode`](crate::codes::CloseCode).
//!    The node takes no run before it has applied the providers of the Welcome.
//! 4. On the control stream: edge → Apply, Ping, Drain, Renewed, RenewalRefused; node → Applied, Pong, Leaving, Renew.
//! 5. A run: the edge opens a bidirectional stream and writes [`RunHead`], then exactly `body_len` bytes, and keeps its
//!    sending side open: it is the cancel channel.
//! 6. The node answers [`RunReply`], then raw bytes (tunnel) or [`RunEvent`] frames (normalized), then FIN for
//!    complete or RESET for not complete. A refusal is a [`RunReply::Refused`] followed by FIN.
//! 7. Cancel, when the client is gone or the node was silent for too long: the edge RESETs its sending side and keeps
//!    reading. The node aborts the upstream request, waits until its connection is closed, frees its gate, then RESETs its
//!    own side. Only then does the edge count the slot free.
//!
//! Every message is a frame: length (u32, big endian), then that many bytes of bincode. [`Hello`] is preceded by its
//! protocol version (u16, big endian) inside the frame, so that a stranger's version is known before it is decoded.

mod codec;
mod control;
mod limits;
mod run;

pub use codec::{CodecError, FrameBuffer, FrameError, decode, encode, read_frame};
pub use control::{
    Adapter, Applied, Apply, EdgeMessage, Hello, NodeMessage, ProviderSettings, RefusedProvider, Welcome,
};
pub use limits::{
    ALPN, CONTROL_FRAME_BYTES, CSR_BYTES, EVENT_FRAME_BYTES, MAX_STREAMS, PROTOCOL, RUN_HEAD_BYTES,
    STREAM_WINDOW_BYTES, TEXT_BYTES, send_window_bytes, stream_limit,
};
pub use run::{
    Finish, Header, NormalizedRequest, Operation, Refusal, RefusalReason, RunEvent, RunHead, RunReply,
    RunRequest, TunnelRequest, Usage,
};
