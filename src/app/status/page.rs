//! What a daemon answers over HTTP.

use std::sync::Arc;

use hyper::StatusCode;

use super::state::{About, State};
use crate::app::node_loop::Remote;
use crate::io::http::Reply;

/// `/state`: what it is and does, as JSON; `/healthz`: whether its engine answers. `None` for
/// anything else.
pub async fn answer(path: String, node: Remote, about: Arc<About>) -> Option<Reply> {
    let as_json = match path.as_str() {
        "/state" => true,
        "/healthz" => false,
        _ => return None,
    };
    Some(match node.status().await {
        Err(error) => Reply::text(StatusCode::SERVICE_UNAVAILABLE, format!("{error:#}\n")),
        Ok(_) if !as_json => Reply::text(StatusCode::OK, "ok\n"),
        Ok(seen) => match serde_json::to_string(&State::of(&about, &seen)) {
            Ok(json) => Reply::json(StatusCode::OK, json),
            Err(error) => Reply::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        },
    })
}
