//! Tests of the server in process: every endpoint on the memory storage with a manual clock. One binary for all.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a set-up that fails is a test that fails

mod abuse;
mod alerts;
mod assembly;
mod audit_entries;
mod auth;
mod bounds;
mod check_and_serve;
mod connections;
mod dead;
mod description;
mod events;
mod health;
mod http_layers;
mod http_workers;
mod idempotency;
mod identity;
mod interleaved;
#[cfg(unix)]
mod interrupted;
mod job_metrics;
mod jobs;
mod jobs_acting;
mod jobs_defining;
mod jobs_editing;
mod jobs_occurrences;
mod jobs_planned;
mod logins;
mod matrix;
mod messages;
mod messages_bulk;
mod messages_sending;
mod metrics;
mod mount;
#[cfg(feature = "oidc")]
mod oidc;
mod outgoing;
mod overview;
mod packaging;
mod pages;
#[cfg(feature = "oidc")]
mod provider;
mod queues;
mod redacting;
mod refusals;
mod repeats;
mod repeats_all;
mod repeats_classes;
mod repeats_removed;
mod request_limit;
mod running_server;
mod schedules;
mod site;
mod site_clock;
#[cfg(unix)]
mod stopping;
mod storage_away;
mod system_topics;
mod targets;
#[cfg(feature = "otlp")]
mod telemetry;
mod tls;
mod tokens;
mod topics;
mod views;
mod webhooks;
mod work;
mod work_scopes;
mod wrong_types;
