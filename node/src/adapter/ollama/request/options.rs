//! How a model is sampled: the same numbers under Ollama's names. What the client leaves out, the model's own settings say.

use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Given {
    max_tokens: Option<u32>,
    max_completion_tokens: Option<u32>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    top_k: Option<i64>,
    min_p: Option<f64>,
    seed: Option<i64>,
    stop: Option<Stop>,
    frequency_penalty: Option<f64>,
    presence_penalty: Option<f64>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "stop: expected a text or a list of texts")]
enum Stop {
    One(String),
    Any(Vec<String>),
}

/// Ollama's `options`.
#[derive(Default, PartialEq, Serialize)]
pub(super) struct Options {
    #[serde(skip_serializing_if = "Option::is_none")]
    num_predict: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stop: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    presence_penalty: Option<f64>,
}

impl Options {
    /// The options that a request's JSON asks for.
    pub(super) fn read(body: &[u8]) -> serde_json::Result<Self> {
        let given: Given = serde_json::from_slice(body)?;
        Ok(Self {
            num_predict: given.max_completion_tokens.or(given.max_tokens),
            temperature: given.temperature,
            top_p: given.top_p,
            top_k: given.top_k,
            min_p: given.min_p,
            seed: given.seed,
            stop: match given.stop {
                None => Vec::new(),
                Some(Stop::One(text)) => vec![text],
                Some(Stop::Any(texts)) => texts,
            },
            frequency_penalty: given.frequency_penalty,
            presence_penalty: given.presence_penalty,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
