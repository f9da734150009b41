//! However a run ends, the slot is free when the edge sees the end.

use super::lab::{CHAT, DEADLINE, Event, Lab, Outcome, STREAM, chunk, openai, tunnel, within};
use iop_node::{Connecting, Connector, TcpConnector};
use iop_tests::engine::{Engine, Script, Then};
use iop_transport::codes::StreamCode;
use iop_transport::tunnel::RunLost;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// Has one run end in the given way; true if it was refused for a full gate.
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

/// Panics while it connects, as long as it is told to.
struct Panicking(Arc<AtomicBool>);

impl Connector for Panicking {
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> Connecting<'a> {
        assert!(!self.0.load(Ordering::Relaxed), "a panic in the middle of a run, as planned");
        TcpConnector.connect(host, port)
    }
}

#[tokio::test]
async fn a_panic_resets_the_run_and_frees_its_place() {
    let engine = Engine::start();
    let panicking = Arc::new(AtomicBool::new(true));
    let connector = Arc::new(Panicking(Arc::clone(&panicking)));
    let lab = Lab::start_with(connector, [openai("llama", &engine.endpoint(), 1)]).await;
    for _ in 0..20 {
        let dropped = RunLost::Reset { code: Some(StreamCode::NodeDropped) };
        assert_eq!(lab.chat("llama").await.lost(), dropped);
    }
    panicking.store(false, Ordering::Relaxed);
    assert_eq!(lab.chat("llama").await.answer().0, 200);
}
