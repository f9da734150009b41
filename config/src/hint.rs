//! What to say about a key that its section does not know: where it belongs, or which one was meant.

use crate::kind::Kind;
use crate::schema::{PROVIDER_POOL, Shape, shapes};

/// Longer words are not compared: no key is that long, and the comparison takes time in the square of it.
const MAX_COMPARED_BYTES: usize = 64;

/// Places of a key named at most; with more, naming them helps nobody.
const MAX_PLACES: usize = 2;

/// What is expected in place of the unknown `name` in a section of a file of this kind.
pub(crate) fn for_unknown_key(kind: Kind, shape: &Shape, name: &str) -> String {
    if let Some(meant) = nearest(shape, name, 2).or_else(|| variable(shape, name)) {
        return did_you_mean(meant);
    }
    if name.contains("queue") && shape.path != PROVIDER_POOL.path {
        return queue_place(kind);
    }
    if let Some(places) = places(kind, name) {
        return format!("it {places}");
    }
    if let Some(places) = places(kind.other(), name) {
        return format!("it in {}, {places}", kind.other());
    }
    if let Some(meant) = nearest(shape, name, usize::MAX) {
        return did_you_mean(meant);
    }
    let keys: Vec<_> = shape.keys.iter().map(|key| format!("`{}`", key.name)).collect();
    format!("one of {}", keys.join(", "))
}

fn did_you_mean(key: &str) -> String {
    format!("a known key (did you mean `{key}`?)")
}

/// The queue is one for all nodes, providers and models, so its settings have one place. [queue-ownership]
fn queue_place(kind: Kind) -> String {
    let place = match kind {
        Kind::Edge => "it".to_owned(),
        Kind::Node => format!("it in {}", Kind::Edge),
    };
    format!("{place} under `provider_pool`: `provider_pool.max_queue` or `provider_pool.queue_timeout_ms`")
}

/// The key of this section that is nearest to `name`, no more than `limit` typing errors away and in most letters it.
fn nearest(shape: &Shape, name: &str, limit: usize) -> Option<&'static str> {
    if name.len() > MAX_COMPARED_BYTES {
        return None;
    }
    let limit = limit.min(name.len() / 3);
    let distance = |key: &'static str| (strsim::osa_distance(key, name), key);
    let (errors, key) = shape.keys.iter().map(|key| distance(key.name)).min()?;
    (errors <= limit).then_some(key)
}

/// The key of this section that names the variable with what `name` would have held.
fn variable(shape: &Shape, name: &str) -> Option<&'static str> {
    let mut keys = shape.keys.iter().map(|key| key.name);
    keys.find(|key| key.strip_suffix("_env") == Some(name))
}

/// The sections that know a key of this name, if they are few.
fn places(kind: Kind, name: &str) -> Option<String> {
    let knows = |shape: &&&Shape| shape.key(name).is_some();
    let place = |shape: &&Shape| match shape.path {
        "" => "at the top level".to_owned(),
        path => format!("under `{path}`"),
    };
    let places: Vec<_> = shapes(kind).iter().filter(knows).map(place).collect();
    (1..=MAX_PLACES).contains(&places.len()).then(|| places.join(" or "))
}
