//! One test binary: the routes by requests in memory, the server by a connection.
#![allow(clippy::unwrap_used)] // tests, whose helpers clippy does not know as such

mod clients;
mod events;
mod fixture;
mod routes;
mod shutdown;
