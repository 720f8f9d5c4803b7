//! Server: checks that it is reachable, accepts the credentials and has no alerts, and compares its clock with this
//! machine's.

use std::path::Path;

use anyhow::Result;
use axum::http::header::DATE;
use punctual::clock::{Clock, SystemClock};
use serde_json::Value;

use super::Diagnosis;
use crate::client::Call;
use crate::command_context::ConnectionArgs;
use crate::render::{duration, one_line, word};

/// Largest accepted difference of the clocks: the server's `Date` header has whole seconds.
const SKEW_MS_MAX: u64 = 3_000;
/// Largest number of characters of an error.
const ERROR_LEN_MAX: usize = 300;

pub(super) async fn check(
    diagnosis: &mut Diagnosis,
    address: &str,
    ca_file: Option<&Path>,
) -> Result<()> {
    let ca_file = ca_file.map(ToOwned::to_owned);
    let connection =
        ConnectionArgs { server: Some(address.to_owned()), ca_file, ..ConnectionArgs::default() };
    let client = connection.client().await?;
    diagnosis.fact("server", client.base());
    if client.is_plain() {
        diagnosis.problem(
            "encryption",
            format!("passwords and tokens are sent unencrypted to {}", client.base()),
            "configure a certificate ([server.tls]) or a proxy that terminates TLS, and use https",
        );
    }
    let response = match client.send_raw(Call::get(&["health"])).await {
        Ok(response) => response,
        Err(error) => {
            diagnosis.problem(
                "server",
                error.to_string(),
                "start it with `punctual serve`, or check the address",
            );
            return Ok(());
        }
    };
    match response.status.as_u16() {
        200 => {
            diagnosis.fact("reachable", "yes");
            add_alerts(diagnosis, &serde_json::from_slice(&response.body)?);
        }
        401 | 403 => diagnosis.problem(
            "login",
            format!("the server returned {}: missing or invalid credentials", response.status),
            "log in with `punctual login`, or pass a token in PUNCTUAL_TOKEN",
        ),
        _ => diagnosis.problem(
            "server",
            format!("it returned {}", response.status),
            "read its log; check that this is a Punctual server of this version",
        ),
    }
    if response.headers.contains_key(DATE) {
        let skew_ms = client.now().as_millisecond().abs_diff(SystemClock.now().as_millisecond());
        if skew_ms > SKEW_MS_MAX {
            diagnosis.problem(
                "clock",
                format!("the clocks of the server and of this machine differ by {}", duration(skew_ms)),
                "synchronize the clocks of both machines, for example with chrony or systemd-timesyncd",
            );
        } else {
            diagnosis.fact("clock", "ok");
        }
    }
    Ok(())
}

/// Adds the alerts of the server: each failing job, and the others by kind.
fn add_alerts(diagnosis: &mut Diagnosis, health: &Value) {
    diagnosis.fact("condition", word(&health["condition"]));
    let list = |name: &str| health[name].as_array().map(Vec::as_slice).unwrap_or_default();
    for alert in list("alerts").iter().filter(|alert| alert["kind"] != "job_failing") {
        diagnosis.problem(subject(&alert["kind"]), word(&alert["text"]), word(&alert["fix"]));
    }
    for job in list("failing_jobs") {
        let (name, more) = (word(&job["name"]), job["more"].as_bool() == Some(true));
        let failures = job["failures"].as_u64().unwrap_or(1);
        let runs = match failures {
            1 => "the last run".to_owned(),
            _ => format!("the last {failures} runs{}", if more { " or more" } else { "" }),
        };
        let found = format!(
            "{name}: {runs} failed, since {}: {}",
            word(&job["since"]),
            one_line(&word(&job["error"]), ERROR_LEN_MAX)
        );
        diagnosis.problem("failing job", found, format!("punctual jobs history {name}"));
    }
    if let Some(found) = unlisted(health) {
        diagnosis.problem("failing jobs", found, "punctual jobs list");
    }
}

/// Returns how many jobs fail, when there are or may be more than the server lists.
fn unlisted(health: &Value) -> Option<String> {
    let listed = health["failing_jobs"].as_array().map_or(0, Vec::len) as u64;
    let count = health["failing_count"].as_u64().unwrap_or(listed);
    let or_more = if health["failing_more"].as_bool() == Some(true) { " or more" } else { "" };
    (count > listed || !or_more.is_empty())
        .then(|| format!("{count}{or_more} jobs fail; the first {listed} are listed"))
}

/// Returns the subject of an alert.
fn subject(kind: &Value) -> &'static str {
    match kind.as_str() {
        Some("configuration_refused") => "configuration",
        Some("queue_without_worker" | "queue_paused" | "queue_late") => "queue",
        Some("dead_letters") => "dead letters",
        Some("webhook_failing") => "webhook",
        _ => "server",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::unlisted;

    #[test]
    fn unlisted_jobs_are_counted() {
        let jobs = |count: usize| vec![json!({ "name": "a" }); count];
        let health = json!({ "failing_jobs": jobs(2), "failing_count": 2, "failing_more": false });
        assert_eq!(unlisted(&health), None);
        let health = json!({ "failing_jobs": jobs(100), "failing_count": 120 });
        assert_eq!(unlisted(&health).unwrap(), "120 jobs fail; the first 100 are listed");
        let health =
            json!({ "failing_jobs": jobs(100), "failing_count": 200, "failing_more": true });
        assert_eq!(unlisted(&health).unwrap(), "200 or more jobs fail; the first 100 are listed");
    }
}
