//! Messages of the control stream and heads of runs, each by itself.

use super::wire::round_trip;
use iop_transport::session::{HelloError, printable, read_hello};
use iop_transport::wire::{EdgeMessage, Hello, NodeMessage, PROTOCOL, RunHead, RunReply, TEXT_BYTES};

/// Whose message it is, and the message: a node's first frame, then what edge and node write.
pub fn control_messages(data: &[u8]) {
    let [kind, message @ ..] = data else { return };
    match kind % 3 {
        0 => hello(message),
        1 => drop(round_trip::<EdgeMessage>(message)),
        _ => drop(round_trip::<NodeMessage>(message)),
    }
}

fn hello(frame: &[u8]) {
    let version = frame.first_chunk::<2>().map(|version| u16::from_be_bytes(*version));
    match (read_hello(frame), version) {
        (Ok(hello), Some(PROTOCOL)) => {
            let sent = round_trip::<Hello>(&frame[2..]).expect("what was taken can be read");
            assert_eq!(hello, Hello { software: printable(&sent.software), ..sent });
            assert!(hello.software.len() <= TEXT_BYTES && !hello.software.contains(char::is_control));
        }
        (Err(HelloError::Version { found }), Some(version)) => assert_eq!(found, version),
        (Err(HelloError::Frame(_)), None | Some(PROTOCOL)) => {}
        (other, version) => panic!("{other:?} of version {version:?}"),
    }
}

/// Whose head it is, and the head: the edge's request, or the node's reply.
pub fn run_heads(data: &[u8]) {
    match data {
        [kind, head @ ..] if kind % 2 == 0 => drop(round_trip::<RunHead>(head)),
        [_, head @ ..] => drop(round_trip::<RunReply>(head)),
        [] => {}
    }
}
