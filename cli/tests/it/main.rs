//! Tests of the program: they start it with arguments and check its output and exit code.

#![expect(clippy::unwrap_used, reason = "these are all tests")]

mod cron;
mod crontab;
mod login;
mod on_storage;
#[cfg(unix)]
mod over_http;
#[cfg(unix)]
mod serve;
#[cfg(unix)]
mod server_process;
mod test_server;
#[cfg(unix)]
mod tls;
mod transcripts;
mod transport;
