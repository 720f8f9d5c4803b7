//! Tests of behaviour specific to Kafka, on the cluster inside the client library.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a set-up that fails is a test that fails

mod cluster;
mod connecting;
mod envelopes;
mod fixture;
mod outages;
mod publishing;
mod settling;
mod topology;
