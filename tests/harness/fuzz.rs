//! The doors of the fuzz targets: any bytes in; a promise of the product that they break is a panic. `tests/fuzz` feeds them,
//! and a test plays what it has collected. They need no socket, no clock, no file but those of an authority that is made once,
//! and every answer is worked out a second time.

mod authority;
mod chain;
mod config;
mod control;
mod csr;
mod events;
mod form_scan;
mod json_scan;
mod ollama;
mod revoked;
mod wire;

pub use chain::chain;
pub use config::config;
pub use control::{control_messages, run_heads};
pub use csr::csr;
pub use events::normalized_events;
pub use form_scan::{form_scan, naive_form};
pub use json_scan::{check_against_serde_json, json_scan};
pub use ollama::{ollama_lines, ollama_requests, ollama_vectors};
pub use revoked::revoked;
pub use wire::wire_codec;

/// One door.
pub type Door = fn(&[u8]);

/// Every door by the name of its fuzz target and of its folder in the corpus.
pub const DOORS: [(&str, Door); 14] = [
    ("admission", admission),
    ("chain", chain),
    ("config", config),
    ("control_messages", control_messages),
    ("csr", csr),
    ("form_scan", form_scan),
    ("json_scan", json_scan),
    ("normalized_events", normalized_events),
    ("ollama_lines", ollama_lines),
    ("ollama_requests", ollama_requests),
    ("ollama_vectors", ollama_vectors),
    ("revoked", revoked),
    ("run_heads", run_heads),
    ("wire_codec", wire_codec),
];

/// The bytes as commands to admission, which must do what its naive twin does.
pub fn admission(data: &[u8]) {
    if let Err(difference) = crate::admission_model::run_commands(data) {
        panic!("{difference}");
    }
}

/// `bytes` in the pieces that `how` says: 0 whole, up to 127 of that size, else of sizes that look random.
fn pieces(how: u8, bytes: &[u8]) -> Vec<&[u8]> {
    let mut state = u32::from(how);
    let mut size = || match how {
        0 => usize::MAX,
        1..=127 => usize::from(how),
        128.. => {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 27) as usize + 1
        }
    };
    let (mut pieces, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(size().min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}
