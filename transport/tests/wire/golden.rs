//! The exact bytes of every message, so that no change of the wire goes unseen. A change here is a new protocol version.

use bytes::Bytes;
use iop_transport::wire::{
    Adapter, Applied, Apply, CONTROL_FRAME_BYTES, EVENT_FRAME_BYTES, EdgeMessage, Finish, Hello, NodeMessage,
    NormalizedRequest, Operation, PROTOCOL, ProviderSettings, RUN_HEAD_BYTES, Refusal, RefusalReason,
    RefusedProvider, RunEvent, RunHead, RunReply, RunRequest, TEXT_BYTES, TunnelRequest, Usage, Welcome,
    decode, encode,
};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::{Debug, Write};

/// Compares messages with their bytes and keeps what differs, so that one run shows all of it.
#[derive(Default)]
struct Golden {
    seen: usize,
    wrong: String,
}

impl Golden {
    /// `hex`: the frame, with spaces wherever they help to read it.
    fn frame<M>(&mut self, prefix: &[u8], limit: usize, message: &M, hex: &str)
    where
        M: Serialize + DeserializeOwned + PartialEq + Debug,
    {
        self.seen += 1;
        let frame = encode(prefix, message, limit).expect("a small message");
        let found = frame.iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").expect("a string takes everything");
            hex
        });
        if found != hex.replace(' ', "") {
            writeln!(self.wrong, "{message:?}\n  is now {found}").expect("a string takes everything");
        }
        assert_eq!(decode::<M>(&frame[4 + prefix.len()..]).as_ref(), Ok(message));
    }

    fn end(self, expected: usize) {
        assert_eq!(self.seen, expected);
        assert!(self.wrong.is_empty(), "the wire has changed:\n{}", self.wrong);
    }
}

fn provider(id: &str, adapter: Adapter) -> ProviderSettings {
    ProviderSettings {
        id: id.into(),
        adapter,
        capacity: 4,
        api_key_env: None,
        headers: Vec::new(),
        connect_timeout_ms: 5_000,
        first_byte_timeout_ms: 600_000,
        idle_timeout_ms: 120_000,
    }
}

#[test]
fn the_bytes_of_hello_begin_with_the_protocol_version() {
    let mut golden = Golden::default();
    let hello = Hello { instance: [0xab; 16], dial: 3, software: "iop 0.1.0".into() };
    let hex = "0000001d 0001abababababababababababababababab0309696f7020302e312e30";
    golden.frame(&PROTOCOL.to_be_bytes(), TEXT_BYTES * 2, &hello, hex);
    golden.end(1);
}

#[test]
fn the_bytes_of_the_edges_control_messages_stay() {
    let mut golden = Golden::default();
    let openai = ProviderSettings {
        api_key_env: Some("LLAMA_KEY".into()),
        headers: vec![("x-team".into(), "lab".into())],
        ..provider("llama", Adapter::OpenAi { endpoint: "http://127.0.0.1:8081".into() })
    };
    let ollama = provider("ol", Adapter::Ollama { endpoint: "http://[::1]:11434".into() });
    let echo = provider("echo", Adapter::Echo { words: 300, word_interval_ms: 20 });
    let apply = Apply { revision: 9, providers: vec![ollama, echo] };
    let welcome = Welcome {
        generation: 70_000,
        edge_time_ms: 1_800_000_000_000,
        idle_timeout_ms: 10_000,
        apply: Apply { revision: 1, providers: vec![openai] },
    };
    let messages = [
        (
            EdgeMessage::Welcome(welcome),
            "00000056 00fc70110100fd00505c18a3010000fb10270101056c6c616d610015687474703a2f2f3132372\
             e302e302e313a383038310401094c4c414d415f4b45590106782d7465616d036c6162fb8813fcc02\
             70900fcc0d40100",
        ),
        (
            EdgeMessage::Apply(apply),
            "00000044 010902026f6c0112687474703a2f2f5b3a3a315d3a3131343334040000fb8813fcc0270\
             900fcc0d40100046563686f02fb2c0114040000fb8813fcc0270900fcc0d40100",
        ),
        (EdgeMessage::Ping { nonce: 0x0102_0304_0506_0708 }, "0000000a 02fd0807060504030201"),
        (EdgeMessage::Drain, "00000001 03"),
        (
            EdgeMessage::Renewed { chain: vec![Bytes::from_static(b"leaf"), Bytes::from_static(b"ca")] },
            "0000000a 04 02 04 6c656166 02 6361",
        ),
        (EdgeMessage::RenewalRefused { reason: "no key".into() }, "00000008 05 06 6e6f206b6579"),
    ];
    for (message, hex) in &messages {
        golden.frame(&[], CONTROL_FRAME_BYTES, message, hex);
    }
    golden.end(6);
}

#[test]
fn the_bytes_of_the_nodes_control_messages_stay() {
    let mut golden = Golden::default();
    let refused = vec![RefusedProvider { id: "llama".into(), reason: "not allowed here".into() }];
    let messages = [
        (
            NodeMessage::Applied(Applied { revision: 9, refused }),
            "0000001a 000901056c6c616d61106e6f7420616c6c6f7765642068657265",
        ),
        (NodeMessage::Pong { nonce: 0x0102_0304_0506_0708 }, "0000000a 01fd0807060504030201"),
        (NodeMessage::Leaving, "00000001 02"),
        (NodeMessage::Renew { csr: Bytes::from_static(b"csr") }, "00000005 03 03 637372"),
    ];
    for (message, hex) in &messages {
        golden.frame(&[], CONTROL_FRAME_BYTES, message, hex);
    }
    golden.end(4);
}

#[test]
fn the_bytes_of_run_heads_stay() {
    let mut golden = Golden::default();
    let head = |request, body_len| RunHead {
        lease: 1,
        generation: 70_000,
        provider: "llama".into(),
        request,
        body_len,
    };
    let tunnel = RunRequest::Tunnel(TunnelRequest {
        method: "POST".into(),
        path: "/v1/chat/completions?x=1".into(),
        headers: vec![
            ("accept".into(), Bytes::from_static(b"*/*")),
            // A value need not be text.
            ("x-raw".into(), Bytes::from_static(&[0xff, 0x00])),
        ],
    });
    let normalized =
        |operation| RunRequest::Normalized(NormalizedRequest { operation, model: "ornith:35b".into() });
    let heads = [
        (
            head(tunnel, 5_000_000_000),
            "00000049 01fc70110100056c6c616d610004504f5354182f76312f636861742f636f6d706c65746\
             96f6e733f783d310206616363657074032a2f2a05782d72617702ff00fd00f2052a01000000",
        ),
        (
            head(normalized(Operation::Chat), 250),
            "0000001a 01fc70110100056c6c616d6101000a6f726e6974683a333562fa",
        ),
        (
            head(normalized(Operation::Completion), 251),
            "0000001c 01fc70110100056c6c616d6101010a6f726e6974683a333562fbfb00",
        ),
        (
            head(normalized(Operation::Embeddings), 0),
            "0000001a 01fc70110100056c6c616d6101020a6f726e6974683a33356200",
        ),
    ];
    for (head, hex) in &heads {
        golden.frame(&[], RUN_HEAD_BYTES, head, hex);
    }
    golden.end(4);
}

#[test]
fn the_bytes_of_replies_stay() {
    let mut golden = Golden::default();
    let headers = vec![("content-type".into(), Bytes::from_static(b"text/event-stream"))];
    golden.frame(
        &[],
        RUN_HEAD_BYTES,
        &RunReply::Response { status: 200, headers },
        "00000022 00c8010c636f6e74656e742d7479706511746578742f6576656e742d73747265616d",
    );
    golden.frame(&[], RUN_HEAD_BYTES, &RunReply::Started, "00000001 01");
    let refusals = [
        (RefusalReason::GateFull, "00000006 020003776879"),
        (RefusalReason::StaleGeneration, "00000006 020103776879"),
        (RefusalReason::UnknownProvider, "00000006 020203776879"),
        (RefusalReason::Unreachable, "00000006 020303776879"),
        (RefusalReason::TimedOut, "00000006 020403776879"),
        (RefusalReason::BadAnswer, "00000006 020503776879"),
        (RefusalReason::BadRequest, "00000006 020603776879"),
        (RefusalReason::Busy, "00000006 020703776879"),
    ];
    for (reason, hex) in refusals {
        let refused = RunReply::Refused(Refusal { reason, detail: "why".into() });
        golden.frame(&[], RUN_HEAD_BYTES, &refused, hex);
    }
    golden.end(10);
}

#[test]
fn the_bytes_of_events_stay() {
    let mut golden = Golden::default();
    let usage = Usage { prompt_tokens: 12, completion_tokens: 70_000 };
    let call = |id: Option<&str>, name: Option<&str>, arguments: &str| RunEvent::ToolCall {
        index: 1,
        id: id.map(Into::into),
        name: name.map(Into::into),
        arguments: arguments.into(),
    };
    let events = [
        (RunEvent::Text("héllo".into()), "00000008 000668c3a96c6c6f"),
        (RunEvent::Reasoning("hm".into()), "00000004 0102686d"),
        (
            call(Some("call_1"), Some("weather"), "{\"a\":"),
            "00000019 0201010663616c6c5f31010777656174686572057b2261223a",
        ),
        (call(None, None, "1}"), "00000007 0201000002317d"),
        (RunEvent::Embedding(vec![1.0, -0.5]), "0000000a 03020000803f000000bf"),
        (RunEvent::Finished { finish: Finish::Stop, usage }, "00000008 04000cfc70110100"),
        (RunEvent::Finished { finish: Finish::Length, usage: Usage::default() }, "00000004 04010000"),
        (RunEvent::Finished { finish: Finish::ToolCalls, usage: Usage::default() }, "00000004 04020000"),
        (RunEvent::Failed("out of memory".into()), "0000000f 050d6f7574206f66206d656d6f7279"),
    ];
    for (event, hex) in &events {
        golden.frame(&[], EVENT_FRAME_BYTES, event, hex);
    }
    golden.end(9);
}
