//! What a status other than 200 of Ollama means for the run. In each case nothing of an answer has begun.

use super::events::words;
use http::StatusCode;
use iop_transport::wire::RefusalReason;
use serde::Deserialize;

#[derive(Deserialize)]
struct Said {
    error: serde_json::Value,
}

/// The reason for the edge, and what there is to say about the server: its name goes before.
pub(super) fn read(status: StatusCode, body: &[u8], model: &str) -> (RefusalReason, String) {
    let said = match serde_json::from_slice::<Said>(body) {
        Ok(said) => words(&said.error),
        Err(_other) => String::from_utf8_lossy(body).trim().to_owned(),
    };
    let number = status.as_u16();
    match number {
        400 | 413 | 422 => (RefusalReason::BadRequest, format!("answered {number}: {said}")),
        // The client named a model that the edge knows: it is the provider that does not keep its promise.
        404 => {
            (RefusalReason::BadAnswer, format!("does not have the model {model:?}: it answered 404: {said}"))
        }
        429 | 503 => (RefusalReason::Busy, format!("is busy: it answered {number}: {said}")),
        _ => (RefusalReason::BadAnswer, format!("answered {number}: {said}")),
    }
}

#[cfg(test)]
mod tests {
    use super::read;
    use http::StatusCode;
    use iop_transport::wire::RefusalReason as Reason;

    #[test]
    fn each_status_has_its_reason_and_the_servers_own_words() {
        let busy = r#"{"error":"server busy, please try again.  maximum pending requests exceeded"}"#;
        let cases = [
            (
                400,
                r#"{"error":"\"m\" does not support thinking"}"#,
                Reason::BadRequest,
                "answered 400: \"m\" does not support thinking",
            ),
            (413, "", Reason::BadRequest, "answered 413: "),
            (
                404,
                r#"{"error":"model 'm' not found"}"#,
                Reason::BadAnswer,
                "does not have the model \"m\": it answered 404: model 'm' not found",
            ),
            (
                404,
                "404 page not found\n",
                Reason::BadAnswer,
                "does not have the model \"m\": it answered 404: 404 page not found",
            ),
            (
                503,
                busy,
                Reason::Busy,
                "is busy: it answered 503: server busy, please try again.  maximum pending requests exceeded",
            ),
            (429, "{\"error\":{\"a\":1}}", Reason::Busy, "is busy: it answered 429: {\"a\":1}"),
            (
                500,
                r#"{"error":"model requires more system memory"}"#,
                Reason::BadAnswer,
                "answered 500: model requires more system memory",
            ),
            (401, r#"{"error":"unauthorized"}"#, Reason::BadAnswer, "answered 401: unauthorized"),
            (302, "\u{fffd}", Reason::BadAnswer, "answered 302: \u{fffd}"),
        ];
        for (status, body, reason, detail) in cases {
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(read(status, body.as_bytes(), "m"), (reason, detail.to_owned()));
        }
    }
}
