//! The client API over real sockets: an edge and a node as processes, a scripted engine behind them, and clients that do
//! what clients do, bad ones included. One door for every behaviour that CONTRACT-openai.md promises.

#[path = "gateway/broken.rs"]
mod broken;
#[path = "gateway/forms.rs"]
mod forms;
#[path = "gateway/headers.rs"]
mod headers;
#[path = "gateway/hostile.rs"]
mod hostile;
#[path = "gateway/http2.rs"]
mod http2;
#[path = "gateway/keep_alive.rs"]
mod keep_alive;
#[path = "gateway/lab.rs"]
mod lab;
#[path = "gateway/large.rs"]
mod large;
#[path = "gateway/paths.rs"]
mod paths;
#[path = "gateway/stall.rs"]
mod stall;
#[path = "gateway/tls.rs"]
mod tls;
#[path = "gateway/usage.rs"]
mod usage;
#[path = "gateway/wire.rs"]
mod wire;
