//! Compiles how a provider is spoken to. A setting that the chosen adapter has no use for is an issue: whoever wrote it
//! expects something of it.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::{Adapter, Upstream};
use crate::endpoint::Endpoint;
use crate::issue::{NoValue, shown};
use crate::scalar::Text;
use crate::secret::Secret;
use crate::section::{Section, all};
use crate::tree::{Entry, Value, key_path};

/// Headers of one provider.
const MAX_HEADERS: usize = 32;

/// Bytes of a header's name.
const MAX_HEADER_NAME_BYTES: usize = 128;

/// Headers that belong to the connection or to the request carried in it: setting them would break its framing.
const RESERVED_HEADERS: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

const UPSTREAM_KEYS: &[&str] =
    &["endpoint", "api_key_env", "headers", "connect_timeout_ms", "first_byte_timeout_ms", "idle_timeout_ms"];

const ECHO_KEYS: &[&str] = &["word_interval_ms", "words"];

#[derive(Clone, Copy)]
enum Name {
    OpenAi,
    Ollama,
    Echo,
}

impl FromStr for Name {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "openai" => Ok(Self::OpenAi),
            "ollama" => Ok(Self::Ollama),
            "echo" => Ok(Self::Echo),
            _ => Err(()),
        }
    }
}

impl Text for Name {}

pub(super) fn adapter(section: &Section<'_>) -> Result<Adapter, NoValue> {
    match section.read("adapter") {
        Ok(Name::OpenAi) => Ok(Adapter::OpenAi(server(section)?)),
        Ok(Name::Ollama) => Ok(Adapter::Ollama(server(section)?)),
        Ok(Name::Echo) => {
            let foreign = forbid(section, UPSTREAM_KEYS, "it with the adapters openai and ollama only");
            let echo = echo(section);
            foreign.and(echo)
        }
        Err(no) => {
            // Which keys it needs is open, but each one that is written has its own rule all the same.
            let endpoint = section.optional::<Endpoint>("endpoint").and(Err(no));
            upstream(section, endpoint).and(echo(section).map(|_| ())).and(Err(no))
        }
    }
}

fn echo(section: &Section<'_>) -> Result<Adapter, NoValue> {
    let word_interval = section.millis("word_interval_ms");
    let words = section.read("words");
    Ok(Adapter::Echo { word_interval: word_interval?, words: words? })
}

fn server(section: &Section<'_>) -> Result<Upstream, NoValue> {
    let foreign = forbid(section, ECHO_KEYS, "it with the adapter echo only");
    let endpoint = section.optional::<Endpoint>("endpoint");
    let endpoint = endpoint.and_then(|endpoint| {
        endpoint.ok_or_else(|| section.issue("endpoint", "nothing", Endpoint::EXPECTED))
    });
    let upstream = upstream(section, endpoint);
    foreign.and(upstream)
}

fn forbid(section: &Section<'_>, keys: &[&str], expected: &str) -> Result<(), NoValue> {
    all(keys.iter().map(|key| section.forbid(key, "a key that this adapter does not have", expected)))
        .map(|_| ())
}

fn upstream(section: &Section<'_>, endpoint: Result<Endpoint, NoValue>) -> Result<Upstream, NoValue> {
    let api_key_env = section.optional("api_key_env");
    let headers = headers(section);
    let connect_timeout = section.millis("connect_timeout_ms");
    let first_byte_timeout = section.millis("first_byte_timeout_ms");
    let idle_timeout = section.millis("idle_timeout_ms");
    Ok(Upstream {
        endpoint: endpoint?,
        api_key_env: api_key_env?,
        headers: headers?,
        connect_timeout: connect_timeout?,
        first_byte_timeout: first_byte_timeout?,
        idle_timeout: idle_timeout?,
    })
}

fn headers(section: &Section<'_>) -> Result<BTreeMap<String, Secret>, NoValue> {
    let entries = section.mapping("headers")?;
    if entries.len() > MAX_HEADERS {
        let found = format!("{} headers", entries.len());
        return Err(section.issue("headers", found, format!("at most {MAX_HEADERS} of them")));
    }
    let mut headers = BTreeMap::new();
    let read = all(entries.iter().map(|entry| {
        let path = key_path(&section.path_of("headers"), &entry.key);
        let name = header_name(section, entry, &path);
        let value = header_value(section, entry, &path)?;
        let name = name?;
        match headers.insert(name, value) {
            None => Ok(()),
            Some(_) => {
                Err(section.report(entry.position, &path, "the header a second time", "each header once"))
            }
        }
    }));
    read.map(|_| headers)
}

fn header_name(section: &Section<'_>, entry: &Entry<'_>, path: &str) -> Result<String, NoValue> {
    let name = entry.key.to_ascii_lowercase();
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    let (found, expected) =
        if name.len() > MAX_HEADER_NAME_BYTES || !name.bytes().all(token) || name.is_empty() {
            let found = format!("the header name `{}`", shown(&entry.key));
            (found, "1 to 128 letters, digits and -, as HTTP allows")
        } else if RESERVED_HEADERS.contains(&name.as_str()) {
            (format!("the header `{name}`"), "no header that belongs to the connection or the request itself")
        } else if name == "authorization" && section.is_written("api_key_env") {
            ("`authorization` beside `api_key_env`".to_owned(), "one of them")
        } else {
            return Ok(name);
        };
    Err(section.report(entry.position, path, found, expected))
}

/// Values may be secrets, so none is ever shown.
fn header_value(section: &Section<'_>, entry: &Entry<'_>, path: &str) -> Result<Secret, NoValue> {
    let found = match &entry.value.value {
        Value::Scalar(scalar) if scalar.is_null() => "nothing",
        Value::Scalar(scalar) => match Secret::header_value(&scalar.text) {
            Some(value) => return Ok(value),
            None => "a value that is not shown here",
        },
        Value::List(_) => "a list",
        Value::Mapping(_) => "a mapping",
        Value::Refused => return Err(NoValue),
    };
    let expected = "at most 4096 visible ASCII characters, spaces only between them";
    Err(section.report(entry.value_position(), path, found, expected))
}
