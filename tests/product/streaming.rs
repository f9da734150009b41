//! Streams reach the client as they are made: no chunk waits for the next one anywhere in iop.

use crate::lab::{DEADLINE, deploy, plan, wait_for_no_lease};
use iop_tests::engine::{Engine, Script, chunk_text};
use iop_tests::http::{Call, EventParser, Streaming, open};
use std::time::Duration;

const CHUNKS: usize = 10;

/// Pause of the engine between two chunks.
const INTERVAL: Duration = Duration::from_millis(50);

/// The next event's text. The stream has at least one more.
async fn next_text(stream: &mut Streaming, parser: &mut EventParser) -> String {
    loop {
        let piece = stream.next().await.expect("the stream goes on").expect("not its end");
        let events = parser.push(&piece.bytes);
        assert!(events.len() < 2, "one event was let go: {events:?}");
        if let Some(event) = events.first() {
            return event.text();
        }
    }
}

#[tokio::test]
async fn each_chunk_can_be_read_while_the_provider_still_holds_the_next() {
    let engine = Engine::start();
    let iop = deploy(plan(&engine, 1)).await;
    for path in ["/v1/chat/completions", "/v1/completions"] {
        engine.set_script(Script::stream(CHUNKS, Duration::ZERO).stepped());
        let call = Call { path: path.to_owned(), ..Call::chat("ornith:35b", true) };
        let mut stream = open(iop.http, call).await.expect("the headers come before the first chunk");
        let mut parser = EventParser::default();
        for number in 0..CHUNKS {
            // The engine waits with the chunk behind this one, and goes on only when it is told to.
            engine.wait_held(1, DEADLINE).await;
            assert_eq!(next_text(&mut stream, &mut parser).await, chunk_text(number, 1), "{path}");
            assert_eq!(engine.held(), 1, "chunk {} is still held", number + 1);
            engine.release_one();
        }
        // The chunk with the reason of the end, then [DONE].
        assert_eq!(next_text(&mut stream, &mut parser).await, "");
        engine.wait_held(1, DEADLINE).await;
        engine.release_one();
        let (events, end) = stream.events().await;
        end.expect("a clean end");
        assert_eq!(events.last().expect("an event").0.data, "[DONE]");
    }
    wait_for_no_lease(&iop).await;
    iop.shut_down().await;
}

#[tokio::test]
async fn chunks_arrive_at_the_pace_at_which_they_are_made() {
    let engine = Engine::start();
    let script = Script::stream(CHUNKS, INTERVAL);
    engine.set_script(script.clone());
    let iop = deploy(plan(&engine, 1)).await;
    let mut stream = open(iop.http, Call::chat("ornith:35b", true)).await.expect("the stream begins");
    let (events, end) = stream.events().await;
    end.expect("a clean end");
    assert_eq!(events.iter().map(|(event, _)| event.text()).collect::<String>(), script.text());

    let times: Vec<_> = events.iter().take(CHUNKS).map(|(_, at)| *at).collect();
    let mut gaps: Vec<Duration> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort();
    let (shortest, median, longest) = (gaps[0], gaps[gaps.len() / 2], gaps[gaps.len() - 1]);
    println!(
        "{CHUNKS} chunks {INTERVAL:?} apart arrived {shortest:?} to {longest:?} apart, median {median:?}"
    );
    // A relay that collects delivers all at once; half of the real spread is beyond any busy machine's jitter.
    assert!(times[CHUNKS - 1] - times[0] > INTERVAL * (CHUNKS as u32 - 1) / 2, "{gaps:?}");
    assert!(median > INTERVAL / 2, "{gaps:?}");
    iop.shut_down().await;
}

/// [lease-lifecycle]
#[tokio::test]
async fn a_client_that_leaves_in_mid_stream_aborts_the_providers_request_and_frees_the_slot() {
    let engine = Engine::start();
    let iop = deploy(plan(&engine, 1)).await;
    engine.set_script(Script::stream(CHUNKS, Duration::ZERO).stepped());
    let mut stream = open(iop.http, Call::chat("ornith:35b", true)).await.expect("the stream begins");
    assert_eq!(next_text(&mut stream, &mut EventParser::default()).await, chunk_text(0, 1));
    assert_eq!(iop.snapshot().await["leases"]["active"], 1);
    drop(stream);
    assert!(engine.wait_closed(0, DEADLINE).await.broken_off());
    wait_for_no_lease(&iop).await;
    iop.shut_down().await;
}
