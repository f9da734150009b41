//! Whether and how much a model is to think before it answers.

use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Given {
    think: Option<Think>,
    reasoning: Option<Reasoning>,
    reasoning_effort: Option<String>,
}

#[derive(Deserialize)]
struct Reasoning {
    effort: Option<String>,
}

/// Ollama's `think`. Which levels there are depends on the model.
#[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged, expecting = "think: expected true, false or the name of a level")]
pub(super) enum Think {
    Whether(bool),
    Level(String),
}

impl Think {
    /// What a request's JSON asks for. Ollama's own word wins over OpenAI's two; with none, the model's default counts.
    pub(super) fn read(body: &[u8]) -> serde_json::Result<Option<Self>> {
        let given: Given = serde_json::from_slice(body)?;
        let effort = given.reasoning.and_then(|reasoning| reasoning.effort).or(given.reasoning_effort);
        Ok(given.think.or_else(|| effort.as_deref().and_then(Self::of_effort)))
    }

    /// OpenAI has two more levels than Ollama; each becomes its neighbour.
    fn of_effort(effort: &str) -> Option<Self> {
        match effort {
            "" => None,
            "none" => Some(Self::Whether(false)),
            "minimal" => Some(Self::Level("low".into())),
            "xhigh" => Some(Self::Level("high".into())),
            level => Some(Self::Level(level.into())),
        }
    }
}
