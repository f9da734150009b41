//! The control plane's listener: JSON under `/admin/v1`. It reads the same state that admits.

mod snapshot;

use crate::desk::Desk;
use crate::live::Live;
use crate::registry::Registry;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use serde::Serialize;

/// Everything that operators' requests need. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Admin {
    pub(crate) desk: Desk,
    pub(crate) registry: Registry,
    pub(crate) live: Live,
}

#[derive(Serialize)]
struct Problem<'a> {
    error: &'a str,
}

impl Admin {
    /// Answers one request.
    pub(crate) async fn handle(self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        match (request.method(), request.uri().path()) {
            (&Method::GET | &Method::HEAD, "/admin/v1/snapshot") => {
                json(StatusCode::OK, &snapshot::take(&self.desk, &self.registry, &self.live))
            }
            (_, "/admin/v1/snapshot") => json(StatusCode::METHOD_NOT_ALLOWED, &Problem { error: "use GET" }),
            _ => json(
                StatusCode::NOT_FOUND,
                &Problem { error: "there is nothing here; try GET /admin/v1/snapshot" },
            ),
        }
    }
}

fn json(status: StatusCode, body: &impl Serialize) -> Response<Full<Bytes>> {
    let bytes = serde_json::to_vec(body).expect("a struct of texts and numbers is always JSON");
    let mut response = Response::new(Full::from(bytes));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
