//! The node's execution of runs, from the edge's half of a real QUIC stream to a real socket of a scripted engine. The
//! edge's decisions and the node's connection to it are tested elsewhere.

mod lab;
mod link;

mod apply;
mod cancel;
mod echo;
mod failure;
mod gate;
mod ollama;
mod order;
mod tls;
mod tunnel;
