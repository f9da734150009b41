//! iop between real clients and inference servers, real ones included. What a scripted engine and a bare HTTP client show
//! is shown elsewhere.
//! Built only with the feature `real`, since it needs what tests/run installs; a missing piece is a failure.

#[path = "real/anthropic.rs"]
mod anthropic;
#[path = "real/capacity.rs"]
mod capacity;
#[path = "real/clients.rs"]
mod clients;
#[path = "real/curl.rs"]
mod curl;
#[path = "real/demo.rs"]
mod demo;
#[path = "real/lab.rs"]
mod lab;
#[path = "real/large.rs"]
mod large;
#[path = "real/llama.rs"]
mod llama;
#[path = "real/llm.rs"]
mod llm;
#[path = "real/ollama.rs"]
mod ollama;
#[path = "real/openai.rs"]
mod openai;
#[path = "real/refusal.rs"]
mod refusal;
#[path = "real/shapes.rs"]
mod shapes;
