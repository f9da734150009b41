//! The few fields of OpenAI's requests that the echo looks at. Everything else in them is ignored.

use serde::Deserialize;
use std::borrow::Cow;

/// A request that cannot be answered. Always the client's fault.
#[derive(Debug, thiserror::Error)]
#[error("the request is not what the echo adapter understands: {0}")]
pub(crate) struct BadBody(#[from] serde_json::Error);

/// A request for words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Generate {
    /// The text whose words are said.
    pub(crate) say: String,
    /// Words in the whole prompt.
    pub(crate) prompt_words: u32,
    /// Largest number of words to say.
    pub(crate) max_words: Option<u32>,
}

/// A request for vectors.
#[derive(Debug, Deserialize)]
pub(crate) struct Embed {
    input: Input,
}

#[derive(Deserialize)]
struct Chat {
    messages: Vec<Message>,
    max_tokens: Option<u32>,
    max_completion_tokens: Option<u32>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: Option<Content>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

/// A part of a message; only text parts have a text.
#[derive(Deserialize)]
struct Part {
    text: Option<String>,
}

#[derive(Deserialize)]
struct Completion {
    prompt: Input,
    max_tokens: Option<u32>,
}

/// One text or several, as text or as tokens.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Input {
    Text(String),
    Texts(Vec<String>),
    Tokens(Vec<u32>),
    TokenLists(Vec<Vec<u32>>),
}

impl Generate {
    /// Reads the body of a chat request.
    pub(crate) fn chat(body: &[u8]) -> Result<Self, BadBody> {
        let chat: Chat = serde_json::from_slice(body)?;
        let texts = chat.messages.iter().map(Message::text);
        let prompt_words = texts.map(|text| words(&text)).fold(0, u32::saturating_add);
        let last = chat.messages.iter().rfind(|message| message.role == "user");
        let say = last.map(|message| message.text().into_owned()).unwrap_or_default();
        Ok(Self { say, prompt_words, max_words: chat.max_completion_tokens.or(chat.max_tokens) })
    }

    /// Reads the body of a completion request.
    pub(crate) fn completion(body: &[u8]) -> Result<Self, BadBody> {
        let completion: Completion = serde_json::from_slice(body)?;
        let say = completion.prompt.texts().collect::<Vec<_>>().join(" ");
        Ok(Self { prompt_words: words(&say), say, max_words: completion.max_tokens })
    }
}

impl Embed {
    /// Reads the body of an embeddings request.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, BadBody> {
        Ok(serde_json::from_slice(body)?)
    }

    /// The texts to make vectors of, in order.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = Cow<'_, str>> + Send {
        self.input.texts()
    }

    /// Words in all of them.
    pub(crate) fn words(&self) -> u32 {
        self.inputs().map(|text| words(&text)).fold(0, u32::saturating_add)
    }
}

impl Message {
    fn text(&self) -> Cow<'_, str> {
        match &self.content {
            None => Cow::Borrowed(""),
            Some(Content::Text(text)) => Cow::Borrowed(text),
            Some(Content::Parts(parts)) => {
                let texts: Vec<&str> = parts.iter().filter_map(|part| part.text.as_deref()).collect();
                Cow::Owned(texts.join(" "))
            }
        }
    }
}

impl Input {
    /// Tokens count as words: their numbers.
    fn texts(&self) -> Box<dyn Iterator<Item = Cow<'_, str>> + Send + '_> {
        match self {
            Self::Text(text) => Box::new(std::iter::once(Cow::Borrowed(text.as_str()))),
            Self::Texts(texts) => Box::new(texts.iter().map(|text| Cow::Borrowed(text.as_str()))),
            Self::Tokens(tokens) => Box::new(std::iter::once(Cow::Owned(numbers(tokens)))),
            Self::TokenLists(lists) => Box::new(lists.iter().map(|tokens| Cow::Owned(numbers(tokens)))),
        }
    }
}

fn numbers(tokens: &[u32]) -> String {
    tokens.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

fn words(text: &str) -> u32 {
    u32::try_from(text.split_whitespace().count()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Embed, Generate};

    #[test]
    fn the_last_user_message_is_said_and_the_whole_prompt_counted() {
        let body = br#"{"model":"m","stream":true,"max_tokens":null,"messages":[
            {"role":"system","content":"be brief"},
            {"role":"user","content":"first"},
            {"role":"assistant","content":null,"tool_calls":[]},
            {"role":"user","content":[{"type":"text","text":"a b"},
                {"type":"image_url","image_url":{"url":"data:"}},{"type":"text","text":"c"}]},
            {"role":"assistant","content":"mine"}]}"#;
        let request = Generate::chat(body).expect("a chat request");
        assert_eq!(request, Generate { say: "a b c".into(), prompt_words: 7, max_words: None });
    }

    #[test]
    fn the_newer_name_of_the_limit_wins() {
        let body = br#"{"messages":[],"max_tokens":1,"max_completion_tokens":2}"#;
        assert_eq!(Generate::chat(body).expect("a chat request").max_words, Some(2));
    }

    #[test]
    fn prompts_and_inputs_may_be_texts_or_tokens() {
        for (prompt, say) in
            [(r#""a b""#, "a b"), (r#"["a","b"]"#, "a b"), ("[1,2]", "1 2"), ("[[1,2],[3]]", "1 2 3")]
        {
            let body = format!(r#"{{"prompt":{prompt},"max_tokens":9}}"#);
            let request = Generate::completion(body.as_bytes()).expect("a completion request");
            assert_eq!((request.say.as_str(), request.max_words), (say, Some(9)), "{prompt}");
        }
        for (input, vectors, words) in
            [(r#""a b""#, 1, 2), (r#"["a","b c"]"#, 2, 3), ("[1,2]", 1, 2), ("[[1,2],[3]]", 2, 3)]
        {
            let body = format!(r#"{{"input":{input}}}"#);
            let request = Embed::parse(body.as_bytes()).expect("an embeddings request");
            assert_eq!((request.inputs().count(), request.words()), (vectors, words), "{input}");
        }
    }

    #[test]
    fn what_is_not_such_a_request_is_an_error_that_says_where() {
        for body in [&b"{"[..], b"[]", b"{}", br#"{"messages":7}"#, b"\xff"] {
            let error = Generate::chat(body).expect_err("no chat request");
            assert!(error.to_string().contains("line 1"), "{error}");
        }
        assert!(Embed::parse(br#"{"input":[1,"a"]}"#).is_err());
    }
}
