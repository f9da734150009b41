//! Which request goes where. Pure: paths and methods in, a route out.

use crate::admission::Api;
use crate::settings::api;
use http::Method;
use iop_transport::wire::Operation;

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// The list of models.
    Models,
    /// One model; the id is decoded and may hold `/` and `:`.
    Model(String),
    /// A request with a model, to be run by a provider.
    Run(RunRoute),
    /// The path exists, the method does not.
    MethodNotAllowed {
        /// Value of the `allow` header.
        allow: &'static str,
    },
    /// No such path.
    NotFound,
}

/// Whose API a path belongs to, which decides how errors look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// OpenAI's, with its chunks in streams.
    Chat,
    /// OpenAI's, with the events of `/v1/responses` in streams.
    Responses,
    /// Anthropic's.
    Messages,
}

/// A path whose requests providers run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunRoute {
    /// What the provider must speak.
    pub(crate) api: Api,
    /// How errors look to this path's clients.
    pub(crate) dialect: Dialect,
    /// The normalized operation, for providers without this API.
    pub(crate) operation: Option<Operation>,
    /// Whether the body is a multipart/form-data with files; else it is JSON. Such paths take JSON too.
    pub(crate) form: bool,
    /// Whether the answer is a stream of events when the request says `stream`.
    pub(crate) streams: bool,
}

/// Every path whose requests providers run. The provider gets the path as it is here.
pub(crate) const RUNS: [(&str, RunRoute); 15] = [
    ("/v1/chat/completions", run(api::CHAT, Some(Operation::Chat)).streams(Dialect::Chat)),
    ("/v1/completions", run(api::COMPLETIONS, Some(Operation::Completion)).streams(Dialect::Chat)),
    ("/v1/embeddings", run(api::EMBEDDINGS, Some(Operation::Embeddings))),
    ("/v1/responses", tunnel().streams(Dialect::Responses)),
    ("/v1/messages", tunnel().streams(Dialect::Messages)),
    ("/v1/messages/count_tokens", RunRoute { dialect: Dialect::Messages, ..tunnel() }),
    ("/v1/moderations", tunnel()),
    ("/v1/rerank", tunnel()),
    ("/v2/rerank", tunnel()),
    ("/v1/images/generations", tunnel()),
    ("/v1/images/edits", form()),
    ("/v1/images/variations", form()),
    ("/v1/audio/speech", tunnel()),
    ("/v1/audio/transcriptions", form()),
    ("/v1/audio/translations", form()),
];

const fn run(api: Api, operation: Option<Operation>) -> RunRoute {
    RunRoute { api, dialect: Dialect::Chat, operation, form: false, streams: false }
}

const fn tunnel() -> RunRoute {
    run(api::OTHER, None)
}

const fn form() -> RunRoute {
    RunRoute { form: true, ..tunnel() }
}

impl RunRoute {
    const fn streams(self, dialect: Dialect) -> Self {
        Self { dialect, streams: true, ..self }
    }
}

/// The route of a method and a path (without query).
pub(crate) fn route(method: &Method, path: &str) -> Route {
    if let Some((_, run)) = RUNS.iter().find(|(known, _)| *known == path) {
        return if method == Method::POST {
            Route::Run(*run)
        } else {
            Route::MethodNotAllowed { allow: "POST" }
        };
    }
    let Some(rest) = path.strip_prefix("/v1/models") else { return Route::NotFound };
    let route = match rest.strip_prefix('/') {
        Some("") | None if matches!(rest, "" | "/") => Route::Models,
        Some(id) => Route::Model(percent_encoding::percent_decode_str(id).decode_utf8_lossy().into_owned()),
        None => return Route::NotFound,
    };
    if matches!(*method, Method::GET | Method::HEAD) {
        route
    } else {
        Route::MethodNotAllowed { allow: "GET, HEAD" }
    }
}

/// How errors look to the clients of a path, whatever else is wrong with their request.
pub(crate) fn dialect(path: &str) -> Dialect {
    RUNS.iter().find(|(known, _)| *known == path).map_or(Dialect::Chat, |(_, run)| run.dialect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_ids_may_hold_slashes_colons_and_escapes() {
        for (path, id) in [
            ("/v1/models/ornith:35b", "ornith:35b"),
            ("/v1/models/org/name", "org/name"),
            ("/v1/models/org%2Fname%3Aq4", "org/name:q4"),
        ] {
            assert_eq!(route(&Method::GET, path), Route::Model(id.into()), "{path}");
        }
    }

    #[test]
    fn paths_and_methods_are_told_apart() {
        assert_eq!(route(&Method::GET, "/v1/models"), Route::Models);
        assert_eq!(route(&Method::HEAD, "/v1/models/"), Route::Models);
        assert_eq!(route(&Method::POST, "/v1/models"), Route::MethodNotAllowed { allow: "GET, HEAD" });
        assert_eq!(route(&Method::GET, "/v1/modelsx"), Route::NotFound);
        assert_eq!(route(&Method::GET, "/v1/chat/completions"), Route::MethodNotAllowed { allow: "POST" });
        assert!(matches!(route(&Method::POST, "/v1/chat/completions"), Route::Run(_)));
        assert_eq!(route(&Method::POST, "/chat/completions"), Route::NotFound);
    }
}
