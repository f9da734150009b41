//! An edge configuration as flat parts whose settings are texts, so that two of them can be compared row by row. The
//! texts may hold secrets: they stay inside this crate.

use std::fmt::Display;
use std::time::Duration;

use crate::difference::Subject;
use crate::edge::{Adapter, AuthKey, CorsOrigins, EdgeConfig, Model, Node, Provider};
use crate::schema::{
    ADMIN, AUTH_KEY, EDGE_CERTS, HTTP, HTTP_TLS, Key, MODEL, NODE_ITEM, PROVIDER, PROVIDER_POOL, QUIC, Shape,
};

/// One thing that can change by itself.
pub(crate) struct Part {
    pub(crate) subject: Subject,
    /// In the same order for each part of one shape.
    pub(crate) fields: Vec<(&'static Key, String)>,
}

/// The parts in file order.
pub(crate) fn parts(config: &EdgeConfig) -> Vec<Part> {
    let mut parts = sections(config);
    parts.extend(config.auth.keys.iter().map(auth_key));
    for node in &config.nodes {
        parts.push(part(Subject::Node(node.id.clone()), &NODE_ITEM, Vec::new()));
        parts.extend(node.providers.iter().map(|provider| self::provider(node, provider)));
    }
    parts.extend(config.models.iter().map(model));
    parts
}

fn part(subject: Subject, shape: &'static Shape, fields: Vec<(&'static str, String)>) -> Part {
    let key = |name| shape.key(name).expect("parts have only fields of their shape");
    Part { subject, fields: fields.into_iter().map(|(name, text)| (key(name), text)).collect() }
}

fn sections(config: &EdgeConfig) -> Vec<Part> {
    let EdgeConfig { quic, http, admin, certs, provider_pool, .. } = config;
    let section = |shape: &'static Shape, fields| part(Subject::Section(shape.path), shape, fields);
    vec![
        section(
            &QUIC,
            vec![
                ("listen", quic.listen.to_string()),
                ("idle_timeout_ms", millis(quic.idle_timeout)),
                ("segmentation_offload", quic.segmentation_offload.to_string()),
            ],
        ),
        section(
            &HTTP,
            vec![
                ("listen", http.listen.to_string()),
                ("max_connections", http.max_connections.to_string()),
                ("max_body_bytes", http.max_body_bytes.to_string()),
                ("max_buffered_bytes", http.max_buffered_bytes.to_string()),
                ("write_stall_timeout_ms", millis(http.write_stall_timeout)),
                ("sse_keep_alive_ms", optional(http.sse_keep_alive.map(millis))),
                ("cors_origins", cors_origins(&http.cors_origins)),
            ],
        ),
        section(
            &HTTP_TLS,
            vec![
                ("cert", optional(http.tls.as_ref().map(|tls| tls.cert.display()))),
                ("key", optional(http.tls.as_ref().map(|tls| tls.key.display()))),
            ],
        ),
        section(
            &ADMIN,
            vec![
                ("listen", admin.listen.to_string()),
                // No key is empty, so that none differs from every key.
                ("key_env", admin.key.as_ref().map_or("", crate::Secret::expose).to_owned()),
            ],
        ),
        section(&EDGE_CERTS, vec![("dir", certs.dir.display().to_string())]),
        section(
            &PROVIDER_POOL,
            vec![
                ("max_queue", provider_pool.max_queue.to_string()),
                ("queue_timeout_ms", millis(provider_pool.queue_timeout)),
                ("max_attempts", provider_pool.max_attempts.to_string()),
            ],
        ),
    ]
}

fn auth_key(key: &AuthKey) -> Part {
    let fields = vec![
        ("key", key.key.expose().to_owned()),
        ("max_in_flight", optional(key.max_in_flight)),
        ("max_queued", optional(key.max_queued)),
    ];
    part(Subject::AuthKey(key.name.clone()), &AUTH_KEY, fields)
}

fn provider(node: &Node, provider: &Provider) -> Part {
    let upstream = provider.adapter.upstream();
    let header = |(name, value): (&String, &crate::Secret)| format!("{name}: {}\n", value.expose());
    let (word_interval, words) = match &provider.adapter {
        Adapter::Echo { word_interval, words } => (Some(*word_interval), Some(*words)),
        Adapter::OpenAi(_) | Adapter::Ollama(_) => (None, None),
    };
    let fields = vec![
        ("adapter", provider.adapter.to_string()),
        ("endpoint", optional(upstream.map(|upstream| &upstream.endpoint))),
        ("capacity", provider.capacity.to_string()),
        ("long_context_capacity", provider.long_context_capacity.to_string()),
        ("context_window_tokens", optional(provider.context_window_tokens)),
        ("total_context_tokens", optional(provider.total_context_tokens)),
        ("priority", provider.priority.to_string()),
        ("enabled", provider.enabled.to_string()),
        ("api_key_env", optional(upstream.and_then(|upstream| upstream.api_key_env.as_ref()))),
        (
            "headers",
            upstream.map(|upstream| upstream.headers.iter().map(header).collect()).unwrap_or_default(),
        ),
        ("connect_timeout_ms", optional(upstream.map(|upstream| millis(upstream.connect_timeout)))),
        ("first_byte_timeout_ms", optional(upstream.map(|upstream| millis(upstream.first_byte_timeout)))),
        ("idle_timeout_ms", optional(upstream.map(|upstream| millis(upstream.idle_timeout)))),
        ("word_interval_ms", optional(word_interval.map(millis))),
        ("words", optional(words)),
    ];
    part(Subject::Provider(node.id.clone(), provider.id.clone()), &PROVIDER, fields)
}

fn model(model: &Model) -> Part {
    let candidates = model.candidates.iter().map(|candidate| match &candidate.upstream_model {
        None => format!("{}/{}", candidate.node, candidate.provider),
        Some(upstream) => format!("{}/{} as {upstream}", candidate.node, candidate.provider),
    });
    let candidates: Vec<_> = candidates.collect();
    let fields = vec![
        ("long_context_threshold_tokens", optional(model.long_context_threshold_tokens)),
        ("candidates", format!("[{}]", candidates.join(", "))),
        ("context_length", optional(model.context_length)),
        ("owned_by", optional(model.owned_by.as_ref())),
    ];
    part(Subject::Model(model.id.clone()), &MODEL, fields)
}

fn cors_origins(origins: &CorsOrigins) -> String {
    match origins {
        CorsOrigins::Any => "[*]".to_owned(),
        CorsOrigins::Only(origins) => {
            let origins: Vec<_> = origins.iter().map(crate::Origin::as_str).collect();
            format!("[{}]", origins.join(", "))
        }
    }
}

fn optional(value: Option<impl Display>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}

fn millis(duration: Duration) -> String {
    duration.as_millis().to_string()
}
