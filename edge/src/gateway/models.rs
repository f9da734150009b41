//! The list of models. It shows the configuration: models of nodes that are not connected are listed too.

use super::{Body, GatewayError};
use http::{HeaderValue, Response, header};
use http_body_util::{BodyExt, Full};
use iop_config::{EdgeConfig, Model};
use serde::Serialize;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_length: Option<u64>,
}

/// `GET /v1/models`.
pub(super) fn list(config: &EdgeConfig, started: SystemTime) -> Response<Body> {
    json(&List {
        object: "list",
        data: config.models.iter().map(|model| entry(config, model, started)).collect(),
    })
}

/// `GET /v1/models/{id}`.
pub(super) fn one(
    config: &EdgeConfig,
    id: &str,
    started: SystemTime,
) -> Result<Response<Body>, GatewayError> {
    let model = config.models.iter().find(|model| model.id.as_str() == id);
    let model = model.ok_or_else(|| GatewayError::ModelNotFound(id.to_owned()))?;
    Ok(json(&entry(config, model, started)))
}

fn entry<'a>(config: &EdgeConfig, model: &'a Model, started: SystemTime) -> Entry<'a> {
    let created = started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    Entry {
        id: model.id.as_str(),
        object: "model",
        created,
        owned_by: model.owned_by.as_ref().map_or("iop", |owner| owner.as_str()),
        context_length: model
            .context_length
            .map(|length| length.get())
            .or_else(|| largest_window(config, model)),
    }
}

/// The longest request that one of the model's providers can take, where all windows are known.
fn largest_window(config: &EdgeConfig, model: &Model) -> Option<u64> {
    let window = |candidate: &iop_config::Candidate| {
        let node = config.nodes.iter().find(|node| node.id == candidate.node)?;
        let provider = node.providers.iter().find(|provider| provider.id == candidate.provider)?;
        provider.context_window_tokens.map(|tokens| tokens.get())
    };
    model.candidates.iter().map(window).collect::<Option<Vec<u64>>>()?.into_iter().max()
}

fn json(body: &impl Serialize) -> Response<Body> {
    let bytes = serde_json::to_vec(body).expect("a struct of texts and numbers is always JSON");
    let mut response = Response::new(Full::from(bytes).map_err(|never| match never {}).boxed_unsync());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
