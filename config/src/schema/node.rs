//! The keys of a node's file. A node reads its file once, when it starts.

use super::Absent::{Leaves, Means, Refused};
use super::Applies::Restart;
use super::Takes::{Flag, Integer, List, Text};
use super::{Key, Shape};
use crate::names::ServerName;

/// Patterns for this machine alone, in every spelling an endpoint of it may have.
const LOOPBACK: &str = "[\"http://127.0.0.1:*\", \"https://127.0.0.1:*\", \"http://localhost:*\", \
                        \"https://localhost:*\", \"http://[::1]:*\", \"https://[::1]:*\"]";

pub(crate) static NODE_SHAPES: &[&Shape] = &[&NODE, &NODE_EDGE, &NODE_CERTS, &RECONNECT];

pub(crate) static NODE: Shape = Shape {
    path: "",
    keys: &[
        Key::section("edge", Refused),
        Key::section("certs", Refused),
        Key::section("reconnect", Leaves("its keys' defaults")),
        Key::new("keep_alive_ms", Integer(500, 20_000), Means("3000"), Restart),
        Key::new("allow_endpoints", List("endpoint patterns"), Means(LOOPBACK), Restart),
        Key::new("segmentation_offload", Flag, Means("true"), Restart),
    ],
};

pub(crate) static NODE_EDGE: Shape = Shape {
    path: "edge",
    keys: &[
        Key::new("addresses", List("addresses, at least one"), Refused, Restart),
        Key::new(
            "server_name",
            Text(ServerName::EXPECTED),
            Leaves("the name `iop certs` gives edges"),
            Restart,
        ),
    ],
};

pub(crate) static NODE_CERTS: Shape =
    Shape { path: "certs", keys: &[Key::new("bundle", Text("the path of a file"), Refused, Restart)] };

pub(crate) static RECONNECT: Shape = Shape {
    path: "reconnect",
    keys: &[
        // 0 is unlimited.
        Key::new("max_attempts", Integer(0, u32::MAX as i64), Means("10"), Restart),
        Key::new("interval_sec", Integer(0, 86_400), Means("10"), Restart),
    ],
};
