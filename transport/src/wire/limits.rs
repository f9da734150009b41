//! The numbers both ends agree on. Changing one of the first two is a new protocol version.

/// The application protocol offered and required in TLS.
pub const ALPN: &[u8] = b"iop/1";

/// The protocol version inside [`Hello`](super::Hello).
pub const PROTOCOL: u16 = 1;

/// Largest control message, in bytes. An edge with the greatest number of providers on one node stays far below it.
pub const CONTROL_FRAME_BYTES: usize = 1 << 20;

/// Largest head of a run or of its reply, in bytes. HTTP heads of 16 KiB are common; 64 KiB leaves room.
pub const RUN_HEAD_BYTES: usize = 64 << 10;

/// Largest normalized event, in bytes. An embedding of 16,384 dimensions takes 64 KiB.
pub const EVENT_FRAME_BYTES: usize = 1 << 20;

/// Longest free text (software name, refusal detail) that is read from a peer, in bytes.
pub const TEXT_BYTES: usize = 1024;

/// Largest request for a certificate, in bytes. One for a key of the kind in use takes some 250.
pub const CSR_BYTES: usize = 4096;

/// QUIC receive window of one stream, in bytes: what one slow reader can make the other end hold.
pub const STREAM_WINDOW_BYTES: u32 = 512 << 10;

/// Most streams that the edge may hold open on one connection. QUIC keeps an entry for each that may come: some MB for
/// this many, and more memory than there is for the largest capacity that an edge can name.
pub const MAX_STREAMS: u32 = 1 << 16;

/// How many streams the edge may hold open on a node's connection for this much capacity.
///
/// Twice the capacity, because credit for an ended stream returns only with a delayed acknowledgement, plus the control
/// stream and some air. Admission stays the only queue.
pub fn stream_limit(capacity: u32) -> u32 {
    capacity.saturating_mul(2).saturating_add(16).clamp(64, MAX_STREAMS)
}

/// Send window of a connection with this many streams, in bytes: no bulk transfer may starve the others.
pub fn send_window_bytes(streams: u32) -> u64 {
    u64::from(streams) * u64::from(STREAM_WINDOW_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_twice_as_many_streams_as_slots_within_bounds() {
        assert_eq!([0, 24, 25, 1000].map(stream_limit), [64, 64, 66, 2016]);
        assert_eq!([32_760, 32_761, u32::MAX].map(stream_limit), [MAX_STREAMS; 3]);
    }
}
