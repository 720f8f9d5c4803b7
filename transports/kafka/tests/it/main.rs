//! What is special to Kafka, on the cluster inside the client library.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a set-up that fails is a test that fails

mod cluster;
mod connecting;
mod declaring;
mod envelopes;
mod losing;
mod node;
mod publishing;
mod settling;
