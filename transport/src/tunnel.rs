//! A run's own stream: the edge's half and the node's half. Which run, where and when is decided elsewhere.

mod edge;
mod node;
mod silence;

pub use edge::{EdgeRun, OpenError, RunLost};
pub use node::{HeadError, NodeReply, NodeRun, ReplyError, RunBody};
pub use silence::Patience;
