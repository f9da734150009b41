//! The application codes of QUIC resets and closes. They are wire format: never renumbered, never reused.
//! 0 is not in use, because QUIC libraries send it implicitly.

use quinn::VarInt;

/// An enum of codes, its numbers and its explanations from one list, so that none of the three can be forgotten.
macro_rules! codes {
    (
        $(#[$about:meta])*
        $name:ident {
            $($(#[$meaning:meta])* $code:ident = $number:literal, $explanation:literal;)+
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u32)]
        pub enum $name {
            $($(#[$meaning])* $code = $number,)+
        }

        impl $name {
            /// Every code, in the order of the list.
            pub const ALL: &[Self] = &[$(Self::$code),+];

            /// The number on the wire.
            pub fn wire(self) -> VarInt {
                VarInt::from_u32(self as u32)
            }

            /// The code with this number, if it is one of ours.
            pub fn from_wire(code: VarInt) -> Option<Self> {
                match code.into_inner() {
                    $($number => Some(Self::$code),)+
                    _ => None,
                }
            }

            /// What it means, for people.
            pub fn explain(self) -> &'static str {
                match self {
                    $(Self::$code => $explanation,)+
                }
            }
        }
    };
}

codes! {
    /// Code of a RESET of one run's stream.
    StreamCode {
        /// Edge: the client is gone.
        ClientGone = 0x10, "the client is gone";
        /// Edge: the client stopped reading for too long.
        ClientStalled = 0x11, "the client stopped reading";
        /// Edge: the lease or its generation is lost.
        Fenced = 0x12, "the lease was lost";
        /// Edge: shutting down.
        EdgeShutdown = 0x13, "the edge is shutting down";
        /// Edge: the node said nothing of the run for too long.
        NodeSilent = 0x14, "the node was silent for too long";
        /// Edge: the run has ended, nothing was cancelled.
        Done = 0x1e, "done";
        /// Node: cancelled as asked; the upstream request is closed and its slot free.
        Cancelled = 0x20, "cancelled";
        /// Node: the provider fell silent in the middle of its answer.
        UpstreamStalled = 0x22, "the inference server fell silent";
        /// Node: the provider broke off in the middle of its answer.
        UpstreamAborted = 0x23, "the inference server broke off";
        /// Node: shutting down, or its connection was replaced.
        NodeShutdown = 0x27, "the node is shutting down";
        /// Either: what the peer sent on this stream broke the protocol.
        Protocol = 0x28, "the protocol was broken";
        /// Node: the run's task ended without an outcome (a panic).
        NodeDropped = 0x2e, "the node's task failed";
    }
}

codes! {
    /// Code of an application close of the whole connection.
    CloseCode {
        /// Edge: shutting down; dial again.
        EdgeShutdown = 0x100, "the edge is shutting down";
        /// Edge: this identity has a live connection of another process.
        Duplicate = 0x101, "another process with this identity is connected";
        /// Edge: a newer connection of this identity has taken over.
        Superseded = 0x102, "a newer connection of this identity has taken over";
        /// Edge: the certificate of this connection has expired.
        CertificateExpired = 0x103, "the certificate has expired";
        /// Edge: the certificate is revoked.
        CertificateRevoked = 0x104, "the certificate has been revoked";
        /// Edge: the certificate carries no usable identity.
        BadIdentity = 0x105, "the certificate carries no usable identity";
        /// Edge: it does not speak this protocol version.
        ProtocolVersion = 0x106, "the protocol version is not spoken here";
        /// Either: the peer broke the protocol.
        ProtocolViolation = 0x107, "the protocol was broken";
        /// Edge: Hello did not come in time.
        HelloTimeout = 0x109, "Hello did not come in time";
        /// Edge: a cancelled run did not end in time.
        CancelTimeout = 0x10a, "a cancelled run did not end in time";
        /// Node: shutting down.
        NodeShutdown = 0x10b, "the node is shutting down";
        /// Edge: the identity is good but not in the configuration.
        UnknownNode = 0x10c, "the node is not in the edge's configuration";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stream_code_is_read_back_from_its_number_and_no_other_number_is_one() {
        let numbers: Vec<u64> = StreamCode::ALL.iter().map(|code| code.wire().into_inner()).collect();
        let known: Vec<u64> = (0..0x400)
            .filter(|&number| {
                StreamCode::from_wire(VarInt::from_u32(number)).is_some_and(|code| code as u32 == number)
            })
            .map(u64::from)
            .collect();
        assert_eq!(known, numbers, "the list is in the order of its numbers");
        assert_eq!(StreamCode::from_wire(VarInt::MAX), None);
    }

    #[test]
    fn every_close_code_is_read_back_from_its_number_and_no_other_number_is_one() {
        let numbers: Vec<u64> = CloseCode::ALL.iter().map(|code| code.wire().into_inner()).collect();
        let known: Vec<u64> = (0..0x400)
            .filter(|&number| {
                CloseCode::from_wire(VarInt::from_u32(number)).is_some_and(|code| code as u32 == number)
            })
            .map(u64::from)
            .collect();
        assert_eq!(known, numbers, "the list is in the order of its numbers");
        assert_eq!(CloseCode::from_wire(VarInt::MAX), None);
    }
}
