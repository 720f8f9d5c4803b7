//! A server: whether it answers, whether it knows who asks, what it says a person should look at, and whether
//! its clock agrees with this one.

use std::path::Path;

use anyhow::Result;
use axum::http::header::DATE;
use punctual::clock::{Clock, SystemClock};
use serde_json::Value;

use super::Checkup;
use crate::client::Call;
use crate::desk::Reach;
use crate::render::{length, one_line, word};

/// Clocks may be this far apart: the server tells its time in whole seconds.
const SKEW_MS_MAX: u64 = 3_000;
/// The most characters of an error.
const ERROR_LEN_MAX: usize = 300;

pub(super) async fn examine(
    checkup: &mut Checkup,
    address: &str,
    ca_file: Option<&Path>,
) -> Result<()> {
    let ca_file = ca_file.map(ToOwned::to_owned);
    let reach = Reach { server: Some(address.to_owned()), ca_file, ..Reach::default() };
    let client = reach.client().await?;
    checkup.fact("server", client.base());
    if client.is_plain() {
        checkup.wrong(
            "encryption",
            format!("passwords and tokens travel unencrypted to {}", client.base()),
            "give the server a certificate ([server.tls]), or a proxy that ends TLS, and use https",
        );
    }
    let answer = match client.answer(Call::get(&["health"])).await {
        Ok(answer) => answer,
        Err(error) => {
            checkup.wrong(
                "server",
                error.to_string(),
                "start it with `punctual serve`, or check the address",
            );
            return Ok(());
        }
    };
    match answer.status.as_u16() {
        200 => {
            checkup.fact("answers", "yes");
            alerts(checkup, &serde_json::from_slice(&answer.body)?);
        }
        401 | 403 => checkup.wrong(
            "login",
            format!("the server answers {} and does not know you", answer.status),
            "log in with `punctual login`, or give a token in PUNCTUAL_TOKEN",
        ),
        _ => checkup.wrong(
            "server",
            format!("it answers {}", answer.status),
            "look into its log; check that this is a Punctual server of this version",
        ),
    }
    if answer.headers.contains_key(DATE) {
        let apart = client.now().as_millisecond().abs_diff(SystemClock.now().as_millisecond());
        if apart > SKEW_MS_MAX {
            checkup.wrong(
                "clock",
                format!("the clocks of the server and of this machine are {} apart", length(apart)),
                "let both machines keep time, for example by chrony or systemd-timesyncd",
            );
        } else {
            checkup.fact("clock", "agrees with this machine");
        }
    }
    Ok(())
}

/// Everything that the server says a person should look at: failing jobs one by one, the rest by kind.
fn alerts(checkup: &mut Checkup, health: &Value) {
    checkup.fact("condition", word(&health["condition"]));
    let list = |name: &str| health[name].as_array().map(Vec::as_slice).unwrap_or_default();
    for alert in list("alerts").iter().filter(|alert| alert["kind"] != "job_failing") {
        checkup.wrong(what(&alert["kind"]), word(&alert["text"]), word(&alert["fix"]));
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
        checkup.wrong("failing job", found, format!("punctual jobs history {name}"));
    }
    if let Some(found) = unlisted(health) {
        checkup.wrong("failing jobs", found, "punctual jobs list");
    }
}

/// Says how many jobs fail, where they are more than the server lists or may be more than it looked at.
fn unlisted(health: &Value) -> Option<String> {
    let listed = health["failing_jobs"].as_array().map_or(0, Vec::len) as u64;
    let count = health["failing_count"].as_u64().unwrap_or(listed);
    let or_more = if health["failing_more"].as_bool() == Some(true) { " or more" } else { "" };
    (count > listed || !or_more.is_empty())
        .then(|| format!("{count}{or_more} jobs fail; the first {listed} are listed"))
}

/// The kind of an alert in words.
fn what(kind: &Value) -> &'static str {
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
    fn jobs_that_are_not_listed_are_counted() {
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
