//! A web application that publishes, shows its health, and stops together with the process.

use std::sync::Arc;

use axum::Router;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::post;
use punctual::{Error, Publisher, Punctual, Result};
use punctual_axum::{Client, ProblemResponse, router, serve_until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};

type Response = std::result::Result<StatusCode, ProblemResponse>;

async fn order(Path(id): Path<u64>, Client(publisher): Client<Publisher>) -> Response {
    publisher.publish("order", &id).await?;
    Ok(StatusCode::ACCEPTED)
}

/// Sends a request and returns the status line of the response.
async fn send_request(listener: &str, request: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(listener).await?;
    let request = format!("{request} HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    Ok(response.lines().next().unwrap_or_default().to_owned())
}

fn broken(error: std::io::Error) -> Error {
    Error::unavailable("the network is away").caused_by(error)
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<()> {
    let (sender, mut receiver) = mpsc::channel(1);
    let handler = move |id: u64| {
        let sender = sender.clone();
        async move { sender.send(format!("order {id} is handled")).await }
    };
    let punctual = Arc::new(Punctual::builder().handler("order", handler).build()?);
    let app = Router::new()
        .route("/orders/{id}", post(order))
        .with_state(punctual.clone())
        .nest("/punctual", router(&punctual)?);
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(broken)?;
    let address = listener.local_addr().map_err(broken)?.to_string();
    let (stop, stopped) = oneshot::channel::<()>();
    let client = async {
        println!("{}", send_request(&address, "POST /orders/7").await.map_err(broken)?);
        println!("{}", receiver.recv().await.unwrap_or_default());
        println!("{}", send_request(&address, "GET /punctual/health/live").await.map_err(broken)?);
        let _ = stop.send(());
        Ok(())
    };
    let signal = async { stopped.await.unwrap_or(()) };
    let (served, ()) = tokio::try_join!(serve_until(listener, app, &punctual, signal), client)?;
    println!("{served}");
    Ok(())
}

// Output:
// HTTP/1.1 202 Accepted
// order 7 is handled
// HTTP/1.1 200 OK
// stopped; everything that ran has finished
