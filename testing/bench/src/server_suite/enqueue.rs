//! Enqueueing over HTTP: 32 persistent connections send the same JSON to the server in memory and to a bare axum
//! handler that parses it and returns as many bytes. The two alternate.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::net::TcpListener;

use super::client::{self, Client};
use super::{start_server, write_config};
use crate::figure::Figure;
use crate::rates::{Rates, float, ratio};

/// Number of concurrent connections.
const CONNECTIONS: usize = 32;
/// Number of requests in one run, and in the warm-up run before the first.
const REQUESTS: usize = 32_000;
const WARM_UP: usize = 6_400;
/// Number of runs of each side.
const RUNS: usize = 5;
/// Path that messages are posted to.
const PATH: &str = "/api/v1/messages";

/// Request body, as far as the bare handler parses it.
#[derive(Deserialize)]
struct RequestBody {
    topic: String,
    json: Value,
}

/// Response body of the same size as the server's.
#[derive(Serialize)]
struct ResponseBody {
    id: String,
    duplicate_of: Option<String>,
}

async fn bare(Json(request): Json<RequestBody>) -> (StatusCode, Json<ResponseBody>) {
    std::hint::black_box((&request.topic, &request.json));
    let id = "01890a5d-ac96-774b-bcce-b302099a8057".to_owned();
    (StatusCode::CREATED, Json(ResponseBody { id, duplicate_of: None }))
}

pub(super) async fn measure() -> Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    let server = start_server(&write_config(folder.path(), "memory:", "[\"api\"]", 0)?).await?;
    let ours_at = server.address().context("the server has no address")?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let bare_at = listener.local_addr()?;
    let app = Router::new().route(PATH, post(bare));
    let serving = tokio::spawn(async move { axum::serve(listener, app).await });
    let json = "{\"topic\":\"mail\",\"json\":{\"to\":\"ada@example.com\",\"order\":4711,\"lines\":[{\"sku\":\"a-1\",\"count\":2},{\"sku\":\"b-7\",\"count\":1}]}}";
    let request: Arc<[u8]> = client::post(PATH, json).into();
    let (mut raw, mut ours) = (Rates::default(), Rates::default());
    load(bare_at, &request, WARM_UP).await?;
    load(ours_at, &request, WARM_UP).await?;
    for _ in 0..RUNS {
        raw.push(load(bare_at, &request, REQUESTS).await?);
        ours.push(load(ours_at, &request, REQUESTS).await?);
    }
    serving.abort();
    server.shutdown().await;
    let how = format!("{REQUESTS} requests of {} bytes, {CONNECTIONS} connections", json.len());
    Ok(vec![
        raw.figure("enqueue: bare axum handler", &how),
        ours.figure("enqueue: server in memory", &how),
        ratio("enqueue: server of bare handler", &ours, &raw, "at least 60"),
    ])
}

/// Sends requests over every connection from a thread of its own; returns the number per second.
async fn load(address: SocketAddr, request: &Arc<[u8]>, requests: usize) -> Result<f64> {
    let request = request.clone();
    let sending = tokio::task::spawn_blocking(move || -> Result<f64> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let connecting = (0..CONNECTIONS).map(|_| Client::connect(address));
            let clients = try_join_all(connecting).await?;
            let started = Instant::now();
            let sending = clients.into_iter().map(|mut client| {
                let request = request.clone();
                tokio::spawn(async move {
                    for _ in 0..requests / CONNECTIONS {
                        let (status, body) = client.send(&request).await?;
                        let text = || String::from_utf8_lossy(body).into_owned();
                        anyhow::ensure!(
                            status == 201,
                            "the server returned {status} for a message: {}",
                            text()
                        );
                    }
                    Ok(())
                })
            });
            for sent in try_join_all(sending).await? {
                sent?;
            }
            Ok(float(requests) / started.elapsed().as_secs_f64())
        })
    });
    sending.await?
}
