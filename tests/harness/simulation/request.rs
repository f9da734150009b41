//! Requests and what engines do with them, both drawn from the seed, so that clients and engines know each other's bytes
//! without talking.

use super::random::Random;
use super::settings::{Settings, model_name, probe_name};
use std::fmt::Write as _;
use std::sync::OnceLock;

/// One request of one client.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) id: usize,
    /// When it is sent, in milliseconds from the start.
    pub(super) start_ms: u64,
    pub(super) model: String,
    pub(super) path: &'static str,
    pub(super) stream: bool,
    pub(super) long: bool,
    /// Bytes of text in its prompt.
    pub(super) prompt: usize,
    pub(super) patience: Patience,
    /// Held by its engine until all probes are there.
    pub(super) probe: bool,
    /// The words of its prompt, once they are needed.
    text: OnceLock<String>,
}

/// How its client behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// Sends, reads to the end.
    Good,
    /// Is gone after so many milliseconds, wherever the request is.
    GoneAfter(u64),
    /// Is gone after it has read so many bytes of the body.
    GoneAfterBytes(usize),
    /// Reads nothing for so many milliseconds once the head has come.
    Pauses(u64),
    /// Sends half of the body, and the rest so many milliseconds later.
    SlowUpload(u64),
    /// Sends half of the body and is gone so many milliseconds later.
    HalfUpload(u64),
}

/// What an engine does with one request.
#[derive(Debug, Clone)]
pub(super) struct Script {
    pub(super) status: u16,
    pub(super) think_ms: u64,
    /// Sizes of the answer's texts.
    pub(super) pieces: Vec<usize>,
    pub(super) interval_ms: u64,
    pub(super) chunked: bool,
    pub(super) ending: Ending,
}

/// How it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Whole,
    /// 429 or 503 before anything else.
    Busy(u16),
    /// Says nothing at all.
    Silent,
    /// Closes without an answer.
    Closes,
    /// Answers what is not HTTP.
    Garbage,
    /// Falls silent after so many pieces.
    SilentAfter(usize),
    /// Closes after so many pieces.
    ClosesAfter(usize),
}

const PATHS: [&str; 4] = ["/v1/chat/completions", "/v1/chat/completions", "/v1/completions", "/v1/responses"];

impl Request {
    /// The requests of a run, spread over `span_ms`.
    pub(super) fn draw_all(random: &mut Random, settings: &Settings, span_ms: u64, good: bool) -> Vec<Self> {
        let count = usize::try_from(random.range(5..=40)).expect("few");
        let mut start_ms = 0;
        let bursts = random.range(1..=8);
        // Where nothing else goes wrong, clients may leave all the same.
        let patient = good && random.chance(500);
        (0..count)
            .map(|id| {
                if random.below(bursts) == 0 {
                    start_ms = random.range(0..=span_ms);
                }
                Self::draw(random, settings, id, start_ms, patient)
            })
            .collect()
    }

    fn draw(random: &mut Random, settings: &Settings, id: usize, start_ms: u64, patient: bool) -> Self {
        let model = random.index(settings.models.len());
        let path = PATHS[random.index(PATHS.len())];
        let prompt = match random.below(100) {
            0 => 1_200_000,
            1..=3 => 150_000,
            _ => random.index(300),
        };
        let patience = match random.below(if patient { 1 } else { 20 }) {
            0..=12 => Patience::Good,
            13 | 14 => Patience::GoneAfter(random.range(0..=6_000)),
            15 => Patience::GoneAfter(random.range(0..=100)),
            16 => Patience::GoneAfterBytes(random.index(3_000)),
            17 => Patience::Pauses(random.range(0..=8_000)),
            18 => Patience::SlowUpload(random.range(0..=5_000)),
            _ => Patience::HalfUpload(random.range(0..=5_000)),
        };
        Self {
            id,
            start_ms,
            model: model_name(model),
            path,
            stream: random.chance(600),
            long: random.chance(250),
            prompt,
            patience,
            probe: false,
            text: OnceLock::new(),
        }
    }

    /// A request that shows that one slot of a provider is free.
    pub(super) fn probe(id: usize, provider: usize, long: bool) -> Self {
        Self {
            id,
            start_ms: 0,
            model: probe_name(provider),
            path: "/v1/chat/completions",
            stream: true,
            long,
            prompt: 10,
            patience: Patience::Good,
            probe: true,
            text: OnceLock::new(),
        }
    }

    /// The words of its prompt.
    pub(super) fn prompt_text(&self) -> &str {
        self.text.get_or_init(|| {
            let (id, mut text) = (self.id, format!("say r{}", self.id));
            let mut word = 0;
            while text.len() < self.prompt {
                // Writing into a string cannot fail.
                let _infallible = write!(text, " w{word}x{id}");
                word += 1;
            }
            text
        })
    }

    /// The body for a model of this name: the client's own, or what the engine is to get.
    pub(super) fn body(&self, model: &str) -> String {
        let text = self.prompt_text();
        let (stream, id) = (self.stream, self.id);
        let prompt = match self.path {
            "/v1/chat/completions" => format!(r#""messages":[{{"role":"user","content":"{text}"}}]"#),
            "/v1/completions" => format!(r#""prompt":"{text}""#),
            _ => format!(r#""input":"{text}""#),
        };
        format!(r#"{{"user":"r{id}", "model": "{model}", "stream":{stream}, {prompt}}}"#)
    }
}

impl Script {
    /// What the engine does at this attempt. `good`: nothing out of the way.
    pub(super) fn of(seed: u64, request: &Request, attempt: u32, good: bool) -> Self {
        let mut random = Random::new(seed, &format!("script {} {attempt}", request.id));
        let pieces = if request.stream { random.range(1..=12) } else { 1 };
        let large = random.chance(30);
        let pieces: Vec<usize> =
            (0..pieces).map(|_| random.index(if large { 60_000 } else { 200 })).collect();
        let ending = match random.below(if good { 1 } else { 100 }) {
            0..=69 => Ending::Whole,
            70..=76 => Ending::Busy(if random.chance(500) { 429 } else { 503 }),
            77..=79 => Ending::Silent,
            80..=84 => Ending::Closes,
            85..=87 => Ending::Garbage,
            88..=92 => Ending::SilentAfter(random.index(pieces.len())),
            _ => Ending::ClosesAfter(random.index(pieces.len())),
        };
        Self {
            status: if !good && random.chance(50) { 500 } else { 200 },
            think_ms: if random.chance(500) { 0 } else { random.range(1..=1_500) },
            pieces,
            interval_ms: if random.chance(400) { 0 } else { random.range(1..=300) },
            chunked: request.stream || random.chance(300),
            ending,
        }
    }

    /// One piece of the answer as the engine writes it.
    pub(super) fn piece(&self, request: &Request, attempt: u32, number: usize) -> String {
        let text = pattern(request.id, attempt, number, self.pieces[number]);
        if !request.stream {
            return format!(r#"{{"id":"r{}","text":"{text}"}}"#, request.id);
        }
        let end = if number + 1 == self.pieces.len() { "data: [DONE]\n\n" } else { "" };
        format!("data: {{\"id\":\"r{}\",\"n\":{number},\"text\":\"{text}\"}}\n\n{end}", request.id)
    }

    /// The whole answer.
    pub(super) fn answer(&self, request: &Request, attempt: u32) -> String {
        (0..self.pieces.len()).map(|number| self.piece(request, attempt, number)).collect()
    }
}

/// Letters that no other piece of no other answer has in the same places.
fn pattern(id: usize, attempt: u32, number: usize, length: usize) -> String {
    let salt = id * 31 + attempt as usize * 7 + number * 13;
    (0..length)
        .map(|at| char::from(b'a' + u8::try_from((at * at + at * salt + salt) % 26).expect("below 26")))
        .collect()
}
