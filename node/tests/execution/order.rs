//! However a run ends, the slot is free when the edge sees the end.

use super::lab::{CHAT, DEADLINE, Event, Lab, Outcome, STREAM, chunk, openai, tunnel, within};
use iop_node::{ByteStream, Connecting, Connector, TcpConnector};
use iop_tests::engine::{Engine, Script, Then};
use iop_transport::codes::StreamCode;
use iop_transport::tunnel::RunLost;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;

/// Ends of a run, for the edge to bring about or to see.
#[derive(Debug, Clone, Copy)]
enum End {
    Whole,
    WholeStream,
    LargeBody,
    Error,
    NoAnswer,
    Garbage,
    BrokenOff,
    CancelledAtOnce,
    CancelledBeforeTheHead,
    CancelledInTheMiddle,
}

const ENDS: [End; 10] = [
    End::Whole,
    End::WholeStream,
    End::LargeBody,
    End::Error,
    End::NoAnswer,
    End::Garbage,
    End::BrokenOff,
    End::CancelledAtOnce,
    End::CancelledBeforeTheHead,
    End::CancelledInTheMiddle,
];

/// A sequence that follows from its seed (xorshift64).
struct Random(u64);

impl Random {
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let index = self.0 % from.len() as u64;
        from[usize::try_from(index).expect("an index of a slice")]
    }
}

/// Has one run end in the given way. A run that the gate refused ends in no such way.
async fn bring_about(lab: &Lab, engine: &Engine, end: End) {
    let script = match end {
        End::Whole | End::WholeStream | End::LargeBody | End::CancelledAtOnce => Script::answer(),
        End::Error => Script::status(503),
        End::NoAnswer => Script::no_answer(),
        End::Garbage => Script::garbage(),
        End::BrokenOff => Script::answer().cut(1, Then::Close),
        End::CancelledBeforeTheHead => Script::silence(),
        End::CancelledInTheMiddle => Script::answer().cut(1, Then::Hang),
    };
    engine.set_script(script);
    let received = engine.look(|log| log.requests.len());
    let large = vec![b' '; 3 << 20];
    let body = match end {
        End::WholeStream | End::BrokenOff | End::CancelledInTheMiddle => STREAM,
        End::LargeBody => &large,
        _ => CHAT,
    };
    let (lease, mut run) = lab.open("llama", tunnel("POST", "/v1/chat/completions"), body).await;
    match end {
        End::CancelledAtOnce => {}
        End::CancelledBeforeTheHead => tokio::select! {
            reply = run.reply() => panic!("the engine is silent: {reply:?}"),
            () = engine.wait_received(received + 1, DEADLINE) => {}
        },
        End::CancelledInTheMiddle => {
            within(run.reply()).await.expect("a head");
            chunk(&mut run).await.expect("the first event");
        }
        End::Whole | End::WholeStream | End::LargeBody | End::Error => {
            Outcome::of(run).await.answer();
            return;
        }
        End::NoAnswer | End::Garbage => {
            let refusal = Outcome::of(run).await.refusal();
            assert_eq!(refusal.reason, iop_transport::wire::RefusalReason::BadAnswer, "{refusal:?}");
            return;
        }
        End::BrokenOff => {
            Outcome::of(run).await.lost();
            return;
        }
    }
    drop(run);
    lab.returned(lease).await;
}

/// [tunnel-guard] The edge hands the only slot out the moment it sees an end: the gate never stands in its way.
async fn every_end_frees_the_slot_before_the_edge_sees_it(seed: u64) {
    println!("seed {seed}");
    let engine = Engine::start();
    let lab = Lab::start([openai("llama", &engine.endpoint(), 1)]).await;
    let mut random = Random(seed);
    for _ in 0..300 {
        bring_about(&lab, &engine, random.pick(&ENDS)).await;
    }
    engine.set_script(Script::answer());
    assert_eq!(lab.chat("llama").await.answer().0, 200);
    engine.wait_idle(DEADLINE).await;
    let leases = lab.journal.events().iter().filter(|event| matches!(event, Event::Returned(_))).count();
    assert_eq!(leases, 301, "each lease came back once");
}

#[tokio::test]
async fn the_next_run_is_admitted_after_every_kind_of_end_on_one_thread() {
    every_end_frees_the_slot_before_the_edge_sees_it(0x5eed_0001).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_run_is_admitted_after_every_kind_of_end_on_two_threads() {
    every_end_frees_the_slot_before_the_edge_sees_it(0x5eed_0002).await;
}

/// Where a run panics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Panics {
    Never,
    WhileConnecting,
    WhileReading,
}

/// Panics as it is told to.
struct Panicking(watch::Receiver<Panics>);

struct PanickingStream(Box<dyn ByteStream>, watch::Receiver<Panics>);

impl Connector for Panicking {
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> Connecting<'a> {
        assert_ne!(*self.0.borrow(), Panics::WhileConnecting, "a panic in the middle of a run, as planned");
        Box::pin(async move {
            let stream = TcpConnector.connect(host, port).await?;
            Ok(Box::new(PanickingStream(stream, self.0.clone())) as Box<dyn ByteStream>)
        })
    }
}

impl AsyncRead for PanickingStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        assert_ne!(*self.1.borrow(), Panics::WhileReading, "a panic in the middle of a run, as planned");
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for PanickingStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[tokio::test]
async fn a_panic_closes_the_upstream_connection_frees_the_place_and_resets_the_run() {
    let engine = Engine::start();
    let (panics, seen) = watch::channel(Panics::Never);
    let lab = Lab::start_with(Arc::new(Panicking(seen)), [openai("llama", &engine.endpoint(), 1)]).await;
    let dropped = RunLost::Reset { code: Some(StreamCode::NodeDropped) };
    for at in [Panics::WhileConnecting, Panics::WhileReading, Panics::WhileReading, Panics::WhileConnecting] {
        panics.send_replace(at);
        assert_eq!(lab.chat("llama").await.lost(), dropped, "{at:?}");
    }
    let returned = Event::Returned;
    let read = |lease| [Event::Opened, Event::Closed, returned(lease)];
    assert_eq!(lab.journal.events(), [&[returned(1)][..], &read(2), &read(3), &[returned(4)]].concat());
    panics.send_replace(Panics::Never);
    assert_eq!(lab.chat("llama").await.answer().0, 200);
}
