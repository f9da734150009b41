//! A tunnel run: the provider's own HTTP API, byte for byte. Statuses are not judged here; an error that the inference
//! server answered is an answer like any other.

use super::End;
use super::inbound::Inbound;
use crate::upstream::{self, Answer, Call, Upstream};
use http::Method;
use iop_transport::tunnel::{NodeReply, ReplyError};
use iop_transport::wire::{RefusalReason, RunReply, TunnelRequest};

/// Runs the request against the inference server.
pub(crate) async fn run(
    upstream: &Upstream,
    request: TunnelRequest,
    mut inbound: Inbound,
    reply: &mut NodeReply,
) -> End {
    let Ok(method) = Method::from_bytes(request.method.as_bytes()) else {
        return End::bad_request("the request's method is not a valid HTTP method");
    };
    let path = match upstream.target().join(&request.path) {
        Ok(path) => path,
        Err(error) => return End::bad_request(error.to_string()),
    };
    let headers = match upstream::request_headers(&request.headers) {
        Ok(headers) => headers,
        Err(error) => return End::bad_request(error.to_string()),
    };
    let payload = match inbound.payload().await {
        Ok(payload) => payload,
        Err(code) => return End::Failed(code),
    };
    let call = Call { method, path, headers, payload };
    inbound.or_cancelled(exchange(upstream, call, reply)).await.unwrap_or_else(End::Failed)
}

async fn exchange(upstream: &Upstream, call: Call, reply: &mut NodeReply) -> End {
    match upstream.call(call).await {
        Ok(answer) => forward(answer, reply).await,
        Err(error) => End::Refused(error.reason(), error.to_string()),
    }
}

/// Passes the answer on, each piece as it comes and no faster than the edge takes it.
async fn forward(mut answer: Answer, reply: &mut NodeReply) -> End {
    let head = RunReply::Response {
        status: answer.status().as_u16(),
        headers: upstream::response_headers(answer.take_headers()),
    };
    let mut next = answer.at_once().await;
    let sent = match &mut next {
        Some(Ok(Some(bytes))) => {
            let sent = reply.head_and_bytes(&head, bytes.clone()).await;
            next = None;
            sent
        }
        _ => reply.head(&head).await,
    };
    match sent {
        Ok(()) => {}
        Err(ReplyError::Codec(error)) => {
            return End::Refused(
                RefusalReason::BadAnswer,
                format!("the head of the answer cannot be passed on: {error}"),
            );
        }
        Err(error) => return End::unsent(&error),
    }
    loop {
        let chunk = match next.take() {
            Some(chunk) => chunk,
            None => answer.chunk().await,
        };
        match chunk {
            Ok(Some(bytes)) => {
                if let Err(error) = reply.bytes(bytes).await {
                    return End::unsent(&error);
                }
            }
            Ok(None) => return End::Complete,
            Err(error) => {
                tracing::debug!(%error, "the inference server did not complete its answer");
                return End::Failed(error.code());
            }
        }
    }
}
