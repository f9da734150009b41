//! Errors as clients read them: the body of an error response, and the event that ends a stream which broke. Which error
//! has which status and code is decided by the caller.

use bytes::Bytes;
use serde::Serialize;

/// Whose shape the body of an error response has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// `{"error":{…}}`.
    OpenAi,
    /// `{"type":"error",…}`, for `/v1/messages` and what is below it.
    Anthropic,
}

/// Which API's stream an error event goes into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamDialect {
    /// `/v1/chat/completions`, `/v1/completions`, and every other path without a dialect of its own.
    Chat,
    /// `/v1/responses`. Events are numbered.
    Responses {
        /// One more than the number of the last event sent.
        sequence_number: u64,
    },
    /// `/v1/messages`.
    Messages,
}

/// The JSON body of an error response. OpenAI's shape has no place for `request_id`; it goes into a header there.
pub fn body(dialect: Dialect, status: u16, code: &str, message: &str, request_id: &str) -> Bytes {
    match dialect {
        Dialect::OpenAi => json(&OpenAiError {
            error: OpenAiDetail { message, r#type: openai_type(status), param: (), code },
        }),
        Dialect::Anthropic => json(&AnthropicError {
            r#type: "error",
            error: AnthropicDetail { r#type: anthropic_type(status), message },
            request_id: Some(request_id),
        }),
    }
    .into()
}

/// The event that ends a broken stream; nothing may follow it, `[DONE]` neither. It is an event of its own only if what
/// was sent before it ended with a blank line.
pub fn stream_event(dialect: StreamDialect, code: &str, message: &str) -> Bytes {
    let (name, data) = match dialect {
        StreamDialect::Chat => {
            let error = OpenAiDetail { message, r#type: "server_error", param: (), code };
            ("", json(&OpenAiError { error }))
        }
        StreamDialect::Responses { sequence_number } => {
            let error = ResponsesError { r#type: "error", code, message, param: (), sequence_number };
            ("event: error\n", json(&error))
        }
        StreamDialect::Messages => {
            let error = AnthropicDetail { r#type: "api_error", message };
            ("event: error\n", json(&AnthropicError { r#type: "error", error, request_id: None }))
        }
    };
    [name.as_bytes(), b"data: ", &data, b"\n\n"].concat().into()
}

#[derive(Serialize)]
struct OpenAiError<'a> {
    error: OpenAiDetail<'a>,
}

#[derive(Serialize)]
struct OpenAiDetail<'a> {
    message: &'a str,
    r#type: &'static str,
    param: (),
    code: &'a str,
}

#[derive(Serialize)]
struct AnthropicError<'a> {
    r#type: &'static str,
    error: AnthropicDetail<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
}

#[derive(Serialize)]
struct AnthropicDetail<'a> {
    r#type: &'static str,
    message: &'a str,
}

#[derive(Serialize)]
struct ResponsesError<'a> {
    r#type: &'static str,
    code: &'a str,
    message: &'a str,
    param: (),
    sequence_number: u64,
}

fn openai_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    }
}

fn anthropic_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 | 529 => "overloaded_error",
        504 => "timeout_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}

fn json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("a struct of texts and numbers is always JSON")
}
