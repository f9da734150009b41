//! Ollama's answer to a request for vectors, as events. Unlike the other answers it is one JSON object.

use super::events::{count, words};
use iop_transport::wire::{Finish, RunEvent, Usage};
use serde::Deserialize;

/// Most numbers of one vector, so that each fits into an event.
pub const DIMENSIONS: usize = 200_000;

/// Why an answer has no usable vectors. Always the inference server's fault.
#[derive(Debug, thiserror::Error)]
pub enum BadVectors {
    /// It said so itself.
    #[error("{0}")]
    Reported(String),
    /// Not the JSON that Ollama's API promises.
    #[error("its answer is not usable: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// Not one vector for each input.
    #[error("it answered {found} vectors to {expected} inputs")]
    Number {
        /// Vectors of the answer.
        found: usize,
        /// Inputs of the request.
        expected: usize,
    },
    /// A vector that fits into no event, or that JSON has no words for.
    #[error("vector {0} of its answer has more than {DIMENSIONS} numbers or one that is not finite")]
    Vector(usize),
}

#[derive(Deserialize)]
struct Answer {
    embeddings: Option<Vec<Vec<f32>>>,
    prompt_eval_count: Option<u64>,
    error: Option<serde_json::Value>,
}

/// All events of the answer to a request with so many inputs.
pub fn read_vectors(body: &[u8], expected: usize) -> Result<Vec<RunEvent>, BadVectors> {
    let answer: Answer = serde_json::from_slice(body)?;
    if let Some(error) = &answer.error {
        return Err(BadVectors::Reported(words(error)));
    }
    let vectors = answer.embeddings.unwrap_or_default();
    if vectors.len() != expected {
        return Err(BadVectors::Number { found: vectors.len(), expected });
    }
    let bad =
        |vector: &Vec<f32>| vector.len() > DIMENSIONS || vector.iter().any(|number| !number.is_finite());
    if let Some(index) = vectors.iter().position(bad) {
        return Err(BadVectors::Vector(index));
    }
    let mut events: Vec<RunEvent> = vectors.into_iter().map(RunEvent::Embedding).collect();
    let usage = Usage { prompt_tokens: count(answer.prompt_eval_count), completion_tokens: 0 };
    events.push(RunEvent::Finished { finish: Finish::Stop, usage });
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::{DIMENSIONS, read_vectors};
    use iop_transport::wire::{EVENT_FRAME_BYTES, Finish, RunEvent, Usage, encode};

    #[test]
    fn each_vector_is_an_event_and_the_count_of_tokens_the_last_one() {
        let body = r#"{"model":"all-minilm","embeddings":[[0.010071029,-0.0017594862],[0.05007221,1]],"total_duration":14143917,"load_duration":1019500,"prompt_eval_count":8}"#;
        let events = read_vectors(body.as_bytes(), 2).expect("a good answer");
        let usage = Usage { prompt_tokens: 8, completion_tokens: 0 };
        let expected = [
            RunEvent::Embedding(vec![0.010_071_029, -0.001_759_486_2]),
            RunEvent::Embedding(vec![0.050_072_21, 1.0]),
            RunEvent::Finished { finish: Finish::Stop, usage },
        ];
        assert_eq!(events, expected);
        assert_eq!(read_vectors(br#"{"embeddings":[]}"#, 0).expect("a good answer").len(), 1);
    }

    #[test]
    fn the_longest_vector_fits_into_a_frame() {
        let body = format!(r#"{{"embeddings":[[{}1]]}}"#, "1,".repeat(DIMENSIONS - 1));
        let events = read_vectors(body.as_bytes(), 1).expect("a good answer");
        encode(&[], &events[0], EVENT_FRAME_BYTES).expect("it fits");
        let body = format!(r#"{{"embeddings":[[{}1]]}}"#, "1,".repeat(DIMENSIONS));
        assert!(read_vectors(body.as_bytes(), 1).is_err());
    }

    #[test]
    fn an_answer_with_too_few_or_unusable_vectors_is_an_error() {
        let cases = [
            (r#"{"embeddings":[[1]]}"#, "it answered 1 vectors to 2 inputs"),
            (r#"{}"#, "it answered 0 vectors to 2 inputs"),
            (r#"{"error":"m does not support embeddings"}"#, "m does not support embeddings"),
            (r#"{"embeddings":[[1],[1e300]]}"#, "vector 1 of its answer has more than"),
            (r#"{"embeddings":[[1],["x"]]}"#, "its answer is not usable: invalid type: string"),
            ("[", "its answer is not usable: EOF"),
        ];
        for (body, problem) in cases {
            let error = read_vectors(body.as_bytes(), 2).expect_err("no good answer").to_string();
            assert!(error.starts_with(problem), "{error}");
        }
    }
}
