//! The overview as a browser asks for it, over a socket: the page, every file it needs before it shows
//! anything, and then what it asks of the API. What the browser itself does with them is not in it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use jiff::Timestamp;

use super::client::Client;
use super::filled::Filled;
use crate::figure::{Figure, percentile};

/// How often the page is loaded, and how long after each other, so that nothing is remembered.
const TIMES: usize = 5;
const REST: Duration = Duration::from_millis(2_100);
/// What the page asks for again and again.
const OVERVIEW: &str = "/api/v1/overview";
/// Its charts.
const CHARTS: [&str; 6] = ["throughput", "wait", "run", "queue_age", "concurrency", "dead"];
/// How long the charts reach back, in seconds.
const RANGE: i64 = 600;

pub(super) async fn measure(filled: &Filled) -> Result<Figure> {
    let address = filled.server.address().context("the server listens nowhere")?;
    let mut client = Client::connect(address).await?;
    let files = files(&mut client).await?;
    let mut whole = Vec::new();
    let mut of_api = Vec::new();
    for _ in 0..TIMES {
        tokio::time::sleep(REST).await;
        let began = Instant::now();
        for file in &files {
            client.body(file).await?;
        }
        let begun_api = Instant::now();
        for path in asked() {
            client.body(&path).await?;
        }
        of_api.push(begun_api.elapsed().as_secs_f64() * 1e3);
        whole.push(began.elapsed().as_secs_f64() * 1e3);
    }
    whole.sort_by(f64::total_cmp);
    of_api.sort_by(f64::total_cmp);
    Ok(Figure {
        name: format!("{}: overview, everything a browser asks for", filled.name),
        value: percentile(&whole, 50),
        unit: "ms",
        asked: "under 300",
        how: format!(
            "{} files and {} answers of the API, one after the other, of which the API {:.1} ms; the longest of {TIMES} {:.1} ms",
            files.len(),
            asked().len(),
            percentile(&of_api, 50),
            percentile(&whole, 100)
        ),
    })
}

/// What the page asks of the API when it is opened.
pub(super) fn asked() -> Vec<String> {
    let first = ["/api/v1/session", OVERVIEW].map(str::to_owned);
    first.into_iter().chain(charts(RANGE)).collect()
}

/// What it asks from then on: of the charts only what came since.
pub(super) fn asked_again(every: Duration) -> Vec<String> {
    let seconds = i64::try_from(every.as_secs()).unwrap_or(RANGE) + 1;
    std::iter::once(OVERVIEW.to_owned()).chain(charts(seconds)).collect()
}

fn charts(seconds: i64) -> impl Iterator<Item = String> {
    let now = Timestamp::now().as_second();
    let instant =
        |second: i64| Timestamp::from_second(second).map(|at| at.to_string()).unwrap_or_default();
    let (from, to) = (instant(now - seconds), instant(now));
    CHARTS.iter().map(move |name| format!("/api/v1/series?name={name}&step=1s&from={from}&to={to}"))
}

/// The page and all files that it, and they, name.
async fn files(client: &mut Client) -> Result<Vec<String>> {
    let (mut found, mut waiting) = (BTreeSet::new(), vec!["/".to_owned()]);
    while let Some(path) = waiting.pop() {
        if !found.insert(path.clone()) {
            continue;
        }
        anyhow::ensure!(found.len() < 500, "the page names more files than it can have");
        let body = client.body(&path).await?;
        let text = String::from_utf8_lossy(&body);
        waiting.extend(named(&text).map(|name| resolved(&path, name)));
    }
    Ok(found.into_iter().collect())
}

/// The files that a page, or a module by its imports, names.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let after = |sign: &'static str, end: char| {
        text.split(sign).skip(1).filter_map(move |rest| rest.split(end).next())
    };
    let imports = after("from '", '\'').chain(after("href=\"", '"')).chain(after("src=\"", '"'));
    // What a module links to in the API is no file.
    let files = imports.filter(|name| !name.contains("/api/"));
    files.filter(|name| name.starts_with("./") || name.starts_with("../"))
}

/// A path beside another.
fn resolved(from: &str, name: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in name.split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_are_found_and_lead_to_files() {
        let text = "import { a } from './lib/a.js';\nexport * from '../b.js'; x from 'preact' \
                    <a href=\"./api/v1/session/oidc\">";
        let found: Vec<String> = named(text).map(|name| resolved("/pages/c.js", name)).collect();
        assert_eq!(found, ["/pages/lib/a.js", "/b.js"]);
        assert_eq!(resolved("/", "./app.js"), "/app.js");
    }
}
