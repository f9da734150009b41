//! Readers of `GET /admin/v1/events`: one that keeps up, and one that reads nothing until it is told to.

use crate::lab::{DEADLINE, Lab};
use iop_tests::http::{Call, EventParser, RawConnection, Streaming, open};
use serde_json::Value;
use std::collections::VecDeque;

/// A subscriber that reads every event.
pub(crate) struct Subscriber {
    stream: Streaming,
    parser: EventParser,
    events: VecDeque<Value>,
}

impl Subscriber {
    /// Subscribes; everything from now on comes.
    pub(crate) async fn open(lab: &Lab) -> Self {
        let stream = open(lab.admin, Call::get("/admin/v1/events")).await.expect("the stream begins");
        assert_eq!(stream.status, 200);
        assert_eq!(stream.headers["content-type"], "text/event-stream");
        Self { stream, parser: EventParser::default(), events: VecDeque::new() }
    }

    /// The next event's data. Its name stands in it, too.
    pub(crate) async fn next(&mut self) -> Value {
        tokio::time::timeout(DEADLINE, async {
            loop {
                if let Some(event) = self.events.pop_front() {
                    return event;
                }
                let piece = self.stream.next().await.expect("the stream goes on").expect("it does not end");
                for event in self.parser.push(&piece.bytes) {
                    let data = event.json();
                    assert_eq!(data["event"], event.name, "{event:?}");
                    self.events.push_back(data);
                }
            }
        })
        .await
        .expect("an event in time")
    }
}

/// A subscriber whose window is shut from its first packet on: HTTP/2, so that no buffer of the system takes anything in
/// its place.
pub(crate) struct Stalled {
    connection: RawConnection,
}

impl Stalled {
    /// Subscribes and reads nothing.
    pub(crate) async fn open(lab: &Lab) -> Self {
        let mut connection = RawConnection::open(lab.admin).await.expect("connected");
        let mut opening = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        // SETTINGS: INITIAL_WINDOW_SIZE (4) = 0.
        opening.extend(frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]));
        // HEADERS, END_STREAM and END_HEADERS: GET, http, then path and authority as literals that are not indexed.
        let mut headers = vec![0x82, 0x86];
        for (name, value) in [(0x04, "/admin/v1/events"), (0x01, "localhost")] {
            headers.extend([name, u8::try_from(value.len()).expect("short")]);
            headers.extend(value.as_bytes());
        }
        opening.extend(frame(1, 0x5, 1, &headers));
        connection.send(opening).await.expect("sent");
        // HEADERS, END_HEADERS: the head of the answer needs no window. From here on it is a subscriber.
        connection.read_through("\u{1}\u{4}\0\0\0\u{1}").await.expect("the head of the answer");
        Self { connection }
    }

    /// Opens the window wide and returns the first `missed` event.
    pub(crate) async fn missed(&mut self) -> Value {
        const WIDE: [u8; 4] = (1_u32 << 30).to_be_bytes();
        for stream in [0, 1] {
            self.connection.send(frame(8, 0, stream, &WIDE)).await.expect("sent");
        }
        let missed = async {
            self.connection.read_through("event: missed\ndata: ").await.expect("a missed event");
            self.connection.read_through("}").await.expect("its data")
        };
        let data = tokio::time::timeout(DEADLINE, missed).await.expect("a missed event in time");
        serde_json::from_str(&data).expect("JSON")
    }
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head, payload].concat()
}
