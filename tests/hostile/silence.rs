//! A node with a good certificate that takes runs and hangs, its connection standing all the while.

use crate::fake_node::{Node, Run};
use crate::site::{BAD, HOSTILE, Site, WORSE};
use bytes::Bytes;
use iop_tests::deadline::wait_until_async;
use iop_tests::http::{Answer, Call, EventParser, open, send};
use iop_transport::codes::StreamCode;
use iop_transport::wire::{self, EVENT_FRAME_BYTES, RUN_HEAD_BYTES, RunEvent, RunReply};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long the node may be silent: `quic.idle_timeout_ms` by default and 10 s for the node's own work.
const LIMIT: Duration = Duration::from_secs(20);

/// Until the edge must have given up.
const DEADLINE: Duration = Duration::from_secs(50);

/// Between two bytes of a node that is slow.
const PAUSE: Duration = Duration::from_secs(4);

/// One request and its run.
struct Asked {
    answer: JoinHandle<Result<Answer, String>>,
    run: Run,
}

impl Asked {
    async fn of(site: &Site, node: &Node, model: &str, stream: bool) -> Self {
        let (edge, call) = (site.deployment.http, Call::chat(model, stream));
        let answer = async move { send(edge, call).await.map_err(|error| format!("{error:#}")) };
        let answer = tokio::spawn(answer);
        Self { answer, run: Run::next(&node.connection).await }
    }

    /// The same after the node has said this much.
    async fn begun(site: &Site, node: &Node, model: &str, stream: bool, said: &[Bytes]) -> Self {
        let mut asked = Self::of(site, node, model, stream).await;
        asked.run.send.write_all(&said.concat()).await.expect("it is written");
        asked
    }

    async fn answer(self) -> Result<Answer, String> {
        timeout(DEADLINE, self.answer).await.expect("an answer in time").expect("the client ends")
    }

    /// What the client gets when the edge gives up; it tells the node so, and the node obeys.
    async fn given_up(mut self) -> Result<Answer, String> {
        // What the node is asked for stays unread.
        let code = timeout(DEADLINE, self.run.recv.received_reset()).await.expect("a cancel in time");
        assert_eq!(code, Ok(Some(StreamCode::NodeSilent.wire())));
        self.run.send.reset(StreamCode::Cancelled.wire()).expect("it is open");
        self.answer().await
    }
}

fn response(content_type: &str) -> Bytes {
    let headers = vec![("content-type".to_owned(), Bytes::copy_from_slice(content_type.as_bytes()))];
    wire::encode(&[], &RunReply::Response { status: 200, headers }, RUN_HEAD_BYTES).expect("a small head")
}

fn started() -> Bytes {
    wire::encode(&[], &RunReply::Started, RUN_HEAD_BYTES).expect("a small head")
}

fn text() -> Bytes {
    let text = RunEvent::Text("good so far".to_owned());
    wire::encode(&[], &text, EVENT_FRAME_BYTES).expect("an event within the limit")
}

fn assert_refused(what: &str, answer: Result<Answer, String>, status: u16, code: &str) {
    let answer = answer.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!((answer.status.as_u16(), &answer.json()["error"]["code"]), (status, &json!(code)), "{what}");
    assert!(answer.text().contains("the node sent nothing for "), "{what}: {answer:?}");
}

/// The stream ends with an error event, and with no `[DONE]`.
fn assert_broken(what: &str, answer: Result<Answer, String>) {
    let answer = answer.unwrap_or_else(|error| panic!("{what}: {error}"));
    let events = EventParser::default().push(&answer.body);
    let last = events.last().unwrap_or_else(|| panic!("{what}: no event"));
    assert_eq!(last.json()["error"]["code"], "provider_error", "{what}: {answer:?}");
    assert!(last.data.contains("the node sent nothing for "), "{what}: {answer:?}");
    assert!(answer.text().contains("good so far"), "{what}: {answer:?}");
}

/// Answers one byte at a time, for longer than the node may be silent.
async fn drip(mut run: Run, bytes: Bytes) {
    let begun = Instant::now();
    for byte in bytes {
        tokio::time::sleep(PAUSE).await;
        run.send.write_all(&[byte]).await.expect("the run is not cancelled");
    }
    run.send.finish().expect("it is open");
    assert!(begun.elapsed() > LIMIT, "{:?}", begun.elapsed());
}

/// A client that takes the head and then nothing, for longer than the node may be silent; then all of it.
async fn slow_client(site: &Site, node: &Node) {
    let length = 8 << 20;
    let call = open(site.deployment.http, Call::chat(BAD, false));
    let (answer, ()) = tokio::join!(call, async {
        let mut run = Run::next(&node.connection).await;
        run.send.write_all(&response("text/plain")).await.expect("it is written");
        tokio::spawn(async move {
            run.send.write_all(&vec![b'x'; length]).await.expect("the run is not cancelled");
            run.send.finish().expect("it is open");
            // Its end of the stream lives until the edge has read the other.
            let _done = run.recv.received_reset().await;
        });
    });
    let mut answer = answer.expect("the answer begins");
    tokio::time::sleep(LIMIT + PAUSE).await;
    let (pieces, end) = answer.rest().await;
    end.expect("a whole answer");
    assert_eq!(pieces.iter().map(|piece| piece.bytes.len()).sum::<usize>(), length);
}

// [lease-lifecycle]
#[tokio::test]
async fn runs_that_a_hanging_node_is_silent_in_are_given_up_and_slow_ones_are_not() {
    let mut site = Site::start().await;
    site.refresh(|edge| {
        let provider = &mut edge["nodes"][1]["providers"][0];
        for timeout in ["connect_timeout_ms", "first_byte_timeout_ms", "idle_timeout_ms"] {
            provider[timeout] = json!(1);
        }
        edge["nodes"][1]["providers"][1]["word_interval_ms"] = json!(1);
    })
    .await;
    let node = Node::of(&site).await;
    let begun = Instant::now();
    let dripping = Asked::begun(&site, &node, BAD, false, &[response("text/plain")]).await;
    let unanswered = Asked::of(&site, &node, BAD, false).await;
    let unstarted = Asked::of(&site, &node, WORSE, true).await;
    let event = Bytes::from_static(b"data: \"good so far\"\n\n");
    let stream = Asked::begun(&site, &node, BAD, true, &[response("text/event-stream"), event]).await;
    let events = Asked::begun(&site, &node, WORSE, true, &[started(), text()]).await;
    let collected = Asked::begun(&site, &node, WORSE, false, &[started(), text()]).await;
    let json = Bytes::from_static(b"{\"choices\":[");
    let cut = Asked::begun(&site, &node, BAD, false, &[response("application/json"), json]).await;
    let given_up = 6;
    let Asked { run, answer: dripped } = dripping;
    let silent = async {
        let answers = tokio::join!(
            unanswered.given_up(),
            unstarted.given_up(),
            stream.given_up(),
            events.given_up(),
            collected.given_up(),
            cut.given_up()
        );
        assert!(begun.elapsed() >= LIMIT, "{:?}", begun.elapsed());
        assert_refused("no reply", answers.0, 504, "provider_timeout");
        assert_refused("no first event", answers.1, 504, "provider_timeout");
        assert_broken("a stream", answers.2);
        assert_broken("a normalized stream", answers.3);
        assert_refused("a normalized answer", answers.4, 502, "provider_error");
        answers.5.expect_err("an answer that is not whole is cut");
    };
    let ((), (), ()) =
        tokio::join!(silent, slow_client(&site, &node), drip(run, Bytes::from_static(b"a byte")));
    let dripped = dripped.await.expect("the client ends").expect("a whole answer");
    assert_eq!(&dripped.body[..], b"a byte");
    assert!(node.connection.close_reason().is_none(), "who obeys a cancel keeps its connection");
    wait_until_async("the edge to say whose fault it was", DEADLINE, async || {
        let lines = site.deployment.edge.stderr();
        let said = lines.iter().filter(|line| line.contains("a node was silent for longer than it may"));
        if said.count() == given_up { Ok(()) } else { Err(lines) }
    })
    .await;
    assert_eq!(site.node(HOSTILE).await["providers"][0]["in_flight"], 0, "every slot came back");
    drop(node);
    site.assert_unharmed().await;
}
