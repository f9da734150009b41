//! What the edge itself writes to clients: answers made of normalized run events, and errors, in the shapes that the
//! official clients parse. Tunnel runs never come here: their bytes pass unchanged.

mod answer;
mod base64;
mod body;
pub mod error;
mod stream;
#[cfg(test)]
mod tests;
mod usage;

pub use answer::{Answer, AnswerError, EncodingFormat};
pub use stream::AnswerStream;
