//! iop-transport: the wire between edge and node: messages, codec, QUIC settings, both halves of a run.
