//! The keys of the edge's file. Each range has its reason beside it where it is not plain.

use super::Absent::{Leaves, Means, Refused};
use super::Applies::{Live, Restart};
use super::Takes::{Flag, Integer, List, Mapping, Text};
use super::{Key, Shape, Takes};
use crate::endpoint::Endpoint;
use crate::names::{EnvName, KeyName, ModelId, NodeId, Owner, ProviderId};
use crate::secret::Secret;

const LISTEN: Takes = Text("an IP address and port, like 127.0.0.1:8080 or \"[::]:7443\"");
const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// Beyond any context window in sight, and small enough that no product of two settings overflows.
const MAX_TOKENS: i64 = 1_000_000_000;
const TOKENS: Takes = Integer(1, MAX_TOKENS);

pub(crate) static EDGE_SHAPES: &[&Shape] = &[
    &EDGE,
    &QUIC,
    &HTTP,
    &HTTP_TLS,
    &ADMIN,
    &EDGE_CERTS,
    &AUTH,
    &AUTH_KEY,
    &PROVIDER_POOL,
    &NODE_ITEM,
    &PROVIDER,
    &MODEL,
    &CANDIDATE,
];

pub(crate) static EDGE: Shape = Shape {
    path: "",
    keys: &[
        Key::section("quic", Leaves("its keys' defaults")),
        Key::section("http", Leaves("its keys' defaults")),
        Key::section("admin", Leaves("its keys' defaults")),
        Key::section("certs", Refused),
        Key::section("auth", Leaves("open to every client")),
        Key::section("provider_pool", Leaves("its keys' defaults")),
        Key::new("nodes", List("nodes"), Leaves("no nodes"), Live),
        Key::new("models", List("models"), Leaves("no models"), Live),
    ],
};

pub(crate) static QUIC: Shape = Shape {
    path: "quic",
    keys: &[
        Key::new("listen", LISTEN, Means("[::]:7443"), Restart),
        Key::new("idle_timeout_ms", Integer(5_000, 60_000), Means("10000"), Restart),
        Key::new("segmentation_offload", Flag, Means("true"), Restart),
    ],
};

pub(crate) static HTTP: Shape = Shape {
    path: "http",
    keys: &[
        Key::new("listen", LISTEN, Means("127.0.0.1:8080"), Restart),
        Key::new("max_connections", Integer(1, 1_000_000), Means("4096"), Restart),
        Key::new("max_body_bytes", Integer(1, 16 << 30), Means("67108864"), Live),
        Key::new("max_buffered_bytes", Integer(1, 1 << 40), Means("536870912"), Live),
        Key::new("write_stall_timeout_ms", Integer(1, DAY_MS), Means("60000"), Live),
        // From 10 s: it fixes the answer's status, so quick refusals must come before it.
        Key::new("sse_keep_alive_ms", Integer(10_000, DAY_MS), Leaves("none are sent"), Live),
        Key::new("cors_origins", List("web origins, or of `*` alone"), Means("[\"*\"]"), Live),
        Key::section("tls", Leaves("plain HTTP")),
    ],
};

pub(crate) static HTTP_TLS: Shape = Shape {
    path: "http.tls",
    keys: &[
        Key::new("cert", Text("the path of a file"), Refused, Restart),
        Key::new("key", Text("the path of a file"), Refused, Restart),
    ],
};

pub(crate) static ADMIN: Shape = Shape {
    path: "admin",
    keys: &[
        Key::new("listen", LISTEN, Means("127.0.0.1:9090"), Restart),
        Key::new("key_env", Text(EnvName::EXPECTED), Leaves("no key is asked for"), Live).secret(),
    ],
};

pub(crate) static EDGE_CERTS: Shape =
    Shape { path: "certs", keys: &[Key::new("dir", Text("the path of a folder"), Refused, Restart)] };

pub(crate) static AUTH: Shape = Shape {
    path: "auth",
    keys: &[Key::new("keys", List("client keys"), Leaves("open to every client"), Live)],
};

pub(crate) static AUTH_KEY: Shape = Shape {
    path: "auth.keys[]",
    keys: &[
        Key::new("name", Text(KeyName::EXPECTED), Refused, Live),
        Key::new("key_env", Text(EnvName::EXPECTED), Leaves("`key` is required"), Live).secret(),
        Key::new("key", Text(Secret::EXPECTED), Leaves("`key_env` is required"), Live).secret(),
        Key::new("max_in_flight", Integer(1, 1_000_000), Leaves("no limit of its own"), Live),
        Key::new("max_queued", Integer(0, 1_000_000), Leaves("no limit of its own"), Live),
    ],
};

pub(crate) static PROVIDER_POOL: Shape = Shape {
    path: "provider_pool",
    keys: &[
        Key::new("max_queue", Integer(0, 1_000_000), Means("256"), Live),
        Key::new("queue_timeout_ms", Integer(1, DAY_MS), Means("30000"), Live),
        Key::new("max_attempts", Integer(1, 10), Means("2"), Live),
    ],
};

pub(crate) static NODE_ITEM: Shape = Shape {
    path: "nodes[]",
    keys: &[
        Key::new("id", Text(NodeId::EXPECTED), Refused, Live),
        Key::new("providers", List("providers"), Leaves("no providers"), Live),
    ],
};

pub(crate) static PROVIDER: Shape = Shape {
    path: "nodes[].providers[]",
    keys: &[
        Key::new("id", Text(ProviderId::EXPECTED), Refused, Live),
        Key::new("adapter", Text("one of openai, ollama, echo"), Refused, Live),
        Key::new("endpoint", Text(Endpoint::EXPECTED), Leaves("required for openai and ollama"), Live),
        Key::new("capacity", Integer(1, 4096), Refused, Live),
        Key::new("long_context_capacity", Integer(0, 4096), Means("0"), Live),
        Key::new("context_window_tokens", TOKENS, Leaves("any length fits"), Live),
        Key::new("total_context_tokens", TOKENS, Leaves("not checked"), Live),
        Key::new("priority", Integer(i32::MIN as i64, i32::MAX as i64), Means("0"), Live),
        Key::new("enabled", Flag, Means("true"), Live),
        Key::new("api_key_env", Text(EnvName::EXPECTED), Leaves("no key is sent"), Live).secret(),
        Key::new("headers", Mapping("header names to values"), Leaves("none"), Live).secret(),
        Key::new("connect_timeout_ms", Integer(1, 600_000), Means("5000"), Live),
        Key::new("first_byte_timeout_ms", Integer(1, DAY_MS), Means("600000"), Live),
        Key::new("idle_timeout_ms", Integer(1, DAY_MS), Means("120000"), Live),
        Key::new("word_interval_ms", Integer(0, 60_000), Means("20"), Live),
        Key::new("words", Integer(1, 1_000_000), Means("32"), Live),
    ],
};

pub(crate) static MODEL: Shape = Shape {
    path: "models[]",
    keys: &[
        Key::new("id", Text(ModelId::EXPECTED), Refused, Live),
        Key::new("long_context_threshold_tokens", TOKENS, Leaves("no request is long"), Live),
        Key::new("candidates", List("candidates, at least one"), Refused, Live),
        Key::new("context_length", TOKENS, Leaves("not shown"), Live),
        Key::new("owned_by", Text(Owner::EXPECTED), Leaves("not shown"), Live),
    ],
};

pub(crate) static CANDIDATE: Shape = Shape {
    path: "models[].candidates[]",
    keys: &[
        Key::new("node", Text(NodeId::EXPECTED), Refused, Live),
        Key::new("provider", Text(ProviderId::EXPECTED), Refused, Live),
        Key::new("upstream_model", Text(ModelId::EXPECTED), Leaves("the model's `id`"), Live),
    ],
};
