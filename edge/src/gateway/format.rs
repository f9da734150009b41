//! What a request's body is written in, decided by its path and its content type before a byte of it is read.

use super::GatewayError;
use super::route::RunRoute;
use crate::scan::multipart::parameter;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};

/// Longest boundary that RFC 2046 allows, in bytes.
pub(super) const BOUNDARY_BYTES: usize = 70;

/// The format of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Multipart { boundary: Vec<u8> },
}

/// How the model's name stands in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelText {
    /// As a JSON string.
    Quoted,
    /// As it is.
    Plain,
}

impl ModelText {
    /// A name, written so.
    pub(crate) fn write(self, model: &str) -> Bytes {
        match self {
            Self::Quoted => serde_json::to_vec(model).expect("a string is always JSON").into(),
            Self::Plain => Bytes::copy_from_slice(model.as_bytes()),
        }
    }
}

impl Format {
    /// The format of a request's body, and whether its content type says so as providers expect it: some clients label
    /// JSON as something else.
    pub(super) fn of(route: &RunRoute, headers: &HeaderMap) -> Result<(Self, Labelled), GatewayError> {
        if let Some(encoding) = headers.get(header::CONTENT_ENCODING).filter(|value| *value != "identity") {
            return Err(invalid(format!(
                "content-encoding {encoding:?} is not taken; send the body as it is"
            )));
        }
        let value = headers.get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
        let media_type = value.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
        let media_type = media_type.to_ascii_lowercase();
        match media_type.as_slice() {
            b"application/json" => Ok((Self::Json, Labelled::Rightly)),
            media_type if media_type.ends_with(b"+json") => Ok((Self::Json, Labelled::Rightly)),
            b"multipart/form-data" if route.form => {
                let boundary = parameter(value, b"boundary").filter(|boundary| {
                    (1..=BOUNDARY_BYTES).contains(&boundary.len()) && !boundary.contains(&b'\r')
                });
                let boundary = boundary.ok_or_else(|| {
                    invalid(format!("the content-type must name a boundary of 1 to {BOUNDARY_BYTES} bytes"))
                })?;
                Ok((Self::Multipart { boundary }, Labelled::Rightly))
            }
            // What curl and scripts in web pages say when nobody tells them, and what says nothing.
            b"" | b"application/x-www-form-urlencoded" | b"text/plain" if !route.form => {
                Ok((Self::Json, Labelled::Wrongly))
            }
            _ => {
                let due = if route.form { "multipart/form-data" } else { "application/json" };
                let found = String::from_utf8_lossy(&media_type);
                Err(invalid(format!("this path takes {due}, not content-type \"{found}\"")))
            }
        }
    }

    pub(super) fn model_text(&self) -> ModelText {
        match self {
            Self::Json => ModelText::Quoted,
            Self::Multipart { .. } => ModelText::Plain,
        }
    }
}

/// Whether the content type names the body's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Labelled {
    Rightly,
    Wrongly,
}

fn invalid(problem: String) -> GatewayError {
    GatewayError::InvalidRequest(problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::route::{Route, route};
    use http::Method;

    fn format(path: &str, content_type: &str) -> Result<(Format, Labelled), String> {
        let Route::Run(route) = route(&Method::POST, path) else { panic!("{path} is a path of runs") };
        let value = HeaderValue::from_str(content_type).expect("a header's value");
        Format::of(&route, &HeaderMap::from_iter([(header::CONTENT_TYPE, value)]))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn json_is_taken_under_the_names_that_clients_give_it() {
        for (content_type, labelled) in [
            ("application/json", Labelled::Rightly),
            ("Application/JSON; charset=utf-8", Labelled::Rightly),
            ("application/vnd.api+json", Labelled::Rightly),
            ("application/x-www-form-urlencoded", Labelled::Wrongly),
            ("text/plain;charset=UTF-8", Labelled::Wrongly),
            ("", Labelled::Wrongly),
        ] {
            assert_eq!(
                format("/v1/chat/completions", content_type),
                Ok((Format::Json, labelled)),
                "{content_type}"
            );
        }
    }

    #[test]
    fn another_content_type_is_refused_with_the_one_that_is_due() {
        let chat = format("/v1/chat/completions", "multipart/form-data; boundary=x").expect_err("no form");
        assert_eq!(chat, "this path takes application/json, not content-type \"multipart/form-data\"");
        let audio = format("/v1/audio/transcriptions", "audio/wav").expect_err("no form");
        assert_eq!(audio, "this path takes multipart/form-data, not content-type \"audio/wav\"");
        for content_type in ["multipart/form-data", "multipart/form-data; boundary=\"\""] {
            let error = format("/v1/audio/transcriptions", content_type).expect_err("no boundary");
            assert_eq!(error, "the content-type must name a boundary of 1 to 70 bytes");
        }
        let boundary = b"a b".to_vec();
        assert_eq!(
            format("/v1/audio/transcriptions", "multipart/form-data; boundary=\"a b\""),
            Ok((Format::Multipart { boundary }, Labelled::Rightly))
        );
    }
}
