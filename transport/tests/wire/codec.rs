//! Frames: their limits, what is refused, and that no bytes whatever do harm. What a message's bytes are is shown by the
//! golden tests.

use super::links::{Link, link, within};
use bytes::Bytes;
use iop_transport::wire::{
    Applied, Apply, CONTROL_FRAME_BYTES, CodecError, EVENT_FRAME_BYTES, EdgeMessage, FrameBuffer, FrameError,
    Hello, NodeMessage, RUN_HEAD_BYTES, Refusal, RefusalReason, RefusedProvider, RunEvent, RunHead, RunReply,
    RunRequest, TunnelRequest, Welcome, decode, encode, read_frame,
};
use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};
use proptest::sample::Index;

/// Bytes in which a length is written before the limit of decoding can be asked for.
const PREFIX_BYTES: usize = 4;

fn text(length: usize) -> RunEvent {
    RunEvent::Text("x".repeat(length))
}

/// Decodes a message of one type.
type Reads = fn(&[u8]) -> Result<(), CodecError>;

/// One good frame body of every type of message, and a decoder of that type.
fn samples() -> Vec<(Bytes, Reads)> {
    fn reads<M: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<(), CodecError> {
        decode::<M>(bytes).map(|_message| ())
    }
    fn body<M: serde::Serialize>(message: &M) -> Bytes {
        encode(&[], message, CONTROL_FRAME_BYTES).expect("a small message").slice(PREFIX_BYTES..)
    }
    let header = ("content-type".to_string(), Bytes::from_static(b"application/json"));
    let head = RunHead {
        lease: 300,
        generation: 2,
        provider: "llama".into(),
        request: RunRequest::Tunnel(TunnelRequest {
            method: "POST".into(),
            path: "/v1/embeddings".into(),
            headers: vec![header.clone()],
        }),
        body_len: 70_000,
    };
    let applied = Applied {
        revision: 7,
        refused: vec![RefusedProvider { id: "llama".into(), reason: "not allowed".into() }],
    };
    let welcome = Welcome {
        generation: 9,
        edge_time_ms: 1 << 41,
        idle_timeout_ms: 0,
        apply: Apply { revision: 1, providers: Vec::new() },
    };
    vec![
        (body(&Hello { instance: [1; 16], dial: 1, software: "iop".into() }), reads::<Hello>),
        (body(&EdgeMessage::Welcome(welcome)), reads::<EdgeMessage>),
        (body(&NodeMessage::Applied(applied)), reads::<NodeMessage>),
        (body(&head), reads::<RunHead>),
        (body(&RunReply::Response { status: 200, headers: vec![header] }), reads::<RunReply>),
        (body(&RunEvent::Embedding(vec![1.5; 20])), reads::<RunEvent>),
        (body(&text(40)), reads::<RunEvent>),
    ]
}

/// Every frame that the buffer gives out when these pieces are pushed.
fn frames<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    limit: usize,
) -> (Vec<Vec<u8>>, Option<CodecError>, FrameBuffer) {
    let mut buffer = FrameBuffer::default();
    let mut found = Vec::new();
    for piece in pieces {
        buffer.push(piece);
        loop {
            match buffer.next_frame(limit) {
                Ok(Some(frame)) => found.push(frame.to_vec()),
                Ok(None) => break,
                Err(error) => return (found, Some(error), buffer),
            }
        }
    }
    (found, None, buffer)
}

fn framed(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("a small body");
    [&length.to_be_bytes()[..], body].concat()
}

/// Sends these bytes on a new stream and reads one frame of it.
async fn read_back(
    link: &Link,
    bytes: &[u8],
    finish: bool,
    limit: usize,
) -> Result<Option<Vec<u8>>, FrameError> {
    let (mut send, _recv) = within(link.at_edge.open_bi()).await.expect("a stream");
    within(send.write_all(bytes)).await.expect("a live stream");
    if finish {
        send.finish().expect("an open stream");
    }
    let (_send, mut recv) = within(link.at_node.accept_bi()).await.expect("the stream");
    within(read_frame(&mut recv, limit)).await
}

#[tokio::test]
async fn a_length_over_the_limit_is_refused_before_anything_behind_it_came() {
    let link = link().await;
    let mut looked_at = 0;
    for limit in [0, 1, RUN_HEAD_BYTES, CONTROL_FRAME_BYTES] {
        for found in [limit + 1, u32::MAX as usize] {
            let prefix = u32::try_from(found).expect("a length").to_be_bytes();
            let expected = CodecError::TooLarge { found, limit };
            let (_, error, _) = frames([&prefix[..]], limit);
            assert_eq!(error, Some(expected.clone()));
            assert_eq!(read_back(&link, &prefix, false, limit).await, Err(expected.into()));
            looked_at += 1;
        }
    }
    assert_eq!(looked_at, 8);
}

#[tokio::test]
async fn a_stream_that_ends_inside_a_frame_is_no_frame_and_at_its_edge_is_the_end() {
    let link = link().await;
    let frame = framed(b"abcdef");
    for cut in 1..frame.len() {
        let read = read_back(&link, &frame[..cut], true, 10).await;
        assert_eq!(read, Err(FrameError::Ended), "cut after {cut} bytes");
    }
    assert_eq!(read_back(&link, b"", true, 10).await, Ok(None));
    assert_eq!(read_back(&link, &frame, true, 10).await, Ok(Some(b"abcdef".to_vec())));
    assert_eq!(read_back(&link, &framed(b""), true, 10).await, Ok(Some(Vec::new())));
}

#[test]
fn a_message_is_encoded_up_to_its_limit_and_not_one_byte_beyond() {
    for (length, body_len) in [(0, 2), (1, 3), (250, 252), (251, 255), (65_535, 65_539), (65_536, 65_542)] {
        let frame = encode(&[], &text(length), body_len).expect("it just fits");
        assert_eq!(frame.len(), PREFIX_BYTES + body_len);
        assert_eq!(
            encode(&[], &text(length), body_len - 1),
            Err(CodecError::TooLarge { found: body_len, limit: body_len - 1 })
        );
        assert_eq!(
            encode(&[0, 1], &text(length), body_len),
            Err(CodecError::TooLarge { found: body_len + 2, limit: body_len }),
            "what stands before the message counts too"
        );
    }
}

#[test]
fn a_message_of_every_length_comes_back_whole() {
    let near = |middle: usize| middle - 3..middle + 3;
    let lengths = (0..600).chain(near(1 << 16)).chain(near(RUN_HEAD_BYTES)).chain([EVENT_FRAME_BYTES - 6]);
    for length in lengths {
        let frame = encode(&[], &text(length), EVENT_FRAME_BYTES).expect("within the limit");
        let (found, error, buffer) = frames(frame.chunks(10_000), EVENT_FRAME_BYTES);
        assert_eq!((found.len(), error), (1, None));
        assert!(buffer.is_empty());
        assert!(decode::<RunEvent>(&found[0]).expect("a good message") == text(length), "{length} bytes");
    }
}

#[test]
fn bytes_behind_a_message_are_refused() {
    for (number, (body, reads)) in samples().into_iter().enumerate() {
        assert_eq!(reads(&body), Ok(()));
        for extra in [1, 2, 1000] {
            let longer = [&body[..], &vec![0; extra]].concat();
            assert_eq!(reads(&longer), Err(CodecError::Trailing(extra)), "sample {number}");
        }
    }
}

#[test]
fn a_message_cut_anywhere_is_refused() {
    let mut looked_at = 0;
    for (number, (body, reads)) in samples().into_iter().enumerate() {
        for cut in 0..body.len() {
            let result = reads(&body[..cut]);
            assert!(
                matches!(result, Err(CodecError::Malformed(_))),
                "sample {number}, {cut} bytes: {result:?}"
            );
            looked_at += 1;
        }
    }
    assert!(looked_at > 200, "only {looked_at} cuts");
}

#[test]
fn a_length_inside_a_message_is_not_believed_beyond_the_limit() {
    // Text, then a length of 8 bytes, then nothing of what it promises.
    let lying = |length: u64, padding: usize| {
        [&[0, 0xfd][..], &length.to_le_bytes()[..], &vec![b'x'; padding][..]].concat()
    };
    let small = 8 * RUN_HEAD_BYTES as u64;
    let large = 2 << 20;
    let mut looked_at = 0;
    for (padding, limit) in [(0, small), (RUN_HEAD_BYTES - 10, small), (RUN_HEAD_BYTES, large)] {
        for length in [limit + 1, 1 << 32, u64::MAX >> 1, u64::MAX] {
            let error = decode::<RunEvent>(&lying(length, padding)).expect_err("it lies");
            assert_eq!(error, CodecError::Malformed("LimitExceeded".into()), "{length} in {padding} bytes");
            looked_at += 1;
        }
    }
    assert_eq!(looked_at, 12);
}

#[test]
fn a_head_of_the_largest_size_is_read_whatever_it_is_made_of() {
    let head = |count: usize, value: Bytes| RunReply::Response {
        status: 65_535,
        headers: vec![(String::new(), value); count],
    };
    let tiny = head((RUN_HEAD_BYTES - 7) / 2, Bytes::new());
    let huge = head(1, Bytes::from(vec![7; RUN_HEAD_BYTES - 9]));
    for reply in [tiny, huge] {
        let frame = encode(&[], &reply, RUN_HEAD_BYTES).expect("within the limit");
        assert!(frame.len() > PREFIX_BYTES + RUN_HEAD_BYTES - 4, "it is as large as may be: {}", frame.len());
        assert!(decode::<RunReply>(&frame[PREFIX_BYTES..]).expect("a good head") == reply);
    }
}

#[test]
fn a_large_control_message_of_many_small_parts_is_read() {
    let refused = vec![RefusedProvider { id: "a".into(), reason: "b".into() }; 100_000];
    let message = NodeMessage::Applied(Applied { revision: 1, refused });
    let frame = encode(&[], &message, CONTROL_FRAME_BYTES).expect("within the limit");
    assert!(decode::<NodeMessage>(&frame[PREFIX_BYTES..]).expect("a good message") == message);
}

#[test]
fn frames_are_the_same_for_every_place_at_which_the_bytes_are_cut() {
    let expected = vec![b"ab".to_vec(), Vec::new(), b"cdefg".to_vec(), b"h".to_vec()];
    let bytes: Vec<u8> = expected.iter().flat_map(|body| framed(body)).collect();
    let mut looked_at = 0;
    for first in 0..=bytes.len() {
        for second in first..=bytes.len() {
            let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
            let (found, error, buffer) = frames(pieces, 5);
            assert_eq!((&found, error), (&expected, None), "cut at {first} and {second}");
            assert!(buffer.is_empty());
            looked_at += 1;
        }
    }
    assert_eq!(looked_at, 325);
}

#[test]
fn what_follows_the_last_frame_is_given_out_as_it_is() {
    let bytes = [framed(b"head"), b"\xff\xff\xff\xffraw".to_vec()].concat();
    let mut buffer = FrameBuffer::default();
    buffer.push(&bytes);
    assert_eq!(buffer.next_frame(4), Ok(Some(Bytes::from_static(b"head"))));
    assert!(!buffer.is_empty());
    assert_eq!(&buffer.take()[..], b"\xff\xff\xff\xffraw");
    assert!(buffer.is_empty());
}

fn strings() -> impl Strategy<Value = String> {
    vec(any::<char>(), 0..20).prop_map(String::from_iter)
}

fn replies() -> impl Strategy<Value = RunReply> {
    let bytes = vec(any::<u8>(), 0..40).prop_map(Bytes::from);
    prop_oneof![
        Just(RunReply::Started),
        (any::<u16>(), vec((strings(), bytes), 0..8))
            .prop_map(|(status, headers)| RunReply::Response { status, headers }),
        strings()
            .prop_map(|detail| { RunReply::Refused(Refusal { reason: RefusalReason::BadAnswer, detail }) }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_reply_comes_back_as_it_was(reply in replies()) {
        let frame = encode(&[], &reply, RUN_HEAD_BYTES).expect("a small message");
        assert_eq!(decode::<RunReply>(&frame[PREFIX_BYTES..]), Ok(reply));
    }

    #[test]
    fn random_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..400)) {
        for (_, reads) in samples() {
            let _result = reads(&bytes);
        }
        let (found, _, _) = frames([&bytes[..]], 64);
        assert!(found.iter().all(|frame| frame.len() <= 64));
    }

    #[test]
    fn damaged_messages_do_no_harm(damage in vec((any::<Index>(), any::<u8>()), 1..4)) {
        for (body, reads) in samples() {
            let mut bytes = body.to_vec();
            for (place, value) in &damage {
                let place = place.index(bytes.len());
                bytes[place] = *value;
            }
            let _result = reads(&bytes);
        }
    }

    #[test]
    fn frames_are_the_same_however_the_bytes_are_cut(
        bodies in vec(vec(any::<u8>(), 0..300), 0..12),
        sizes in vec(1..400_usize, 1..50),
        cut in any::<Index>(),
    ) {
        let whole: Vec<u8> = bodies.iter().flat_map(|body| framed(body)).collect();
        // The last frame may be cut off: then it is held, and given out by nobody.
        let bytes = &whole[..cut.index(whole.len() + 1)];
        let mut expected = Vec::new();
        let mut end = 0;
        for body in &bodies {
            if end + PREFIX_BYTES + body.len() > bytes.len() {
                break;
            }
            end += PREFIX_BYTES + body.len();
            expected.push(body.clone());
        }
        let mut rest = bytes;
        let pieces = sizes.iter().cycle().map_while(|size| {
            let (piece, left) = rest.split_at((*size).min(rest.len()));
            rest = left;
            (!piece.is_empty()).then_some(piece)
        });
        let (found, error, mut buffer) = frames(pieces, 300);
        assert_eq!((found, error), (expected, None));
        assert_eq!(&buffer.take()[..], &bytes[end..]);
    }
}
