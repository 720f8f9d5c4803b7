//! Punctual inside an [axum](https://docs.rs/axum) application: routes for health, status and live events,
//! clients for the application's own handlers, and a common shutdown.
//!
//! ```no_run
//! use std::sync::Arc;
//! use axum::extract::Path;
//! use axum::http::StatusCode;
//! use axum::routing::post;
//! use axum::Router;
//! use punctual::{Publisher, Punctual};
//! use punctual_axum::{Client, ProblemResponse, router, serve_until};
//!
//! async fn order(Path(id): Path<u64>, Client(publisher): Client<Publisher>) -> Result<StatusCode, ProblemResponse> {
//!     publisher.publish("order", &id).await?;
//!     Ok(StatusCode::ACCEPTED)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let punctual = Punctual::builder().handler("order", async |id: u64| println!("order {id}")).build()?;
//! let punctual = Arc::new(punctual);
//! let app = Router::new()
//!     .route("/orders/{id}", post(order))
//!     .with_state(punctual.clone())
//!     .nest("/punctual", router(&punctual)?);
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
//! let stopped = serve_until(listener, app, &punctual, punctual::signalled()).await?;
//! println!("{stopped}");
//! # Ok(())
//! # }
//! ```
//!
//! | route | response |
//! |---|---|
//! | `/health` | [`Admin::health`](punctual::Admin::health) as JSON; 200 when healthy or degraded, 503 when unhealthy |
//! | `/health/live` | 200 while the process responds; checks nothing else |
//! | `/health/ready` | 200, or 503 while it is unhealthy or stopping |
//! | `/status` | [`Admin::status`](punctual::Admin::status) as JSON: every job |
//! | `/events` | every [`Event`](punctual::Event) from now on, as server-sent events |
//!
//! There are no routes unless [`router`] or [`Routes`] is called. Status and events are for operators: put them
//! behind the application's own authorisation, and expose only [`Routes::only_health`] to the public.

mod client;
mod events;
mod health;
mod problem;
mod routes;
mod serve;
mod status;

pub use client::{Client, ProcessClient};
pub use problem::ProblemResponse;
pub use routes::{LISTENERS_MAX_DEFAULT, Routes, router};
pub use serve::{REQUEST_GRACE, Serve, serve_until};
