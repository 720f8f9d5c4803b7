//! Overview page as a browser requests it over a socket: the page, every file it needs before it renders, and then
//! its API requests. The work of the browser itself is not included.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use jiff::Timestamp;

use super::client::Client;
use super::filled_storage::FilledStorage;
use crate::figure::{Figure, percentile};

/// Number of page loads, and the time between two of them, in which caches of the server expire.
const LOADS: usize = 5;
const CACHE_EXPIRY: Duration = Duration::from_millis(2_100);
/// Path that the page polls.
const OVERVIEW: &str = "/api/v1/overview";
/// Series of the charts on the page.
const CHARTS: [&str; 6] = ["throughput", "wait", "run", "queue_age", "concurrency", "dead"];
/// Time range of the charts, in seconds.
const RANGE: i64 = 600;

pub(super) async fn measure(filled: &FilledStorage) -> Result<Figure> {
    let address = filled.server.address().context("the server has no address")?;
    let mut client = Client::connect(address).await?;
    let page_files = page_files(&mut client).await?;
    let mut whole = Vec::new();
    let mut api = Vec::new();
    for _ in 0..LOADS {
        tokio::time::sleep(CACHE_EXPIRY).await;
        let began = Instant::now();
        for file in &page_files {
            client.body(file).await?;
        }
        let api_began = Instant::now();
        for path in page_requests() {
            client.body(&path).await?;
        }
        api.push(api_began.elapsed().as_secs_f64() * 1e3);
        whole.push(began.elapsed().as_secs_f64() * 1e3);
    }
    whole.sort_by(f64::total_cmp);
    api.sort_by(f64::total_cmp);
    Ok(Figure {
        name: format!("{}: overview, all requests of a browser", filled.name),
        value: percentile(&whole, 50),
        unit: "ms",
        target: "under 300",
        how: format!(
            "{} files and {} API responses, one after the other, of which the API {:.1} ms; maximum of {LOADS} {:.1} ms",
            page_files.len(),
            page_requests().len(),
            percentile(&api, 50),
            percentile(&whole, 100)
        ),
    })
}

/// Returns the API requests of the page when it is opened.
pub(super) fn page_requests() -> Vec<String> {
    let first = ["/api/v1/session", OVERVIEW].map(str::to_owned);
    first.into_iter().chain(charts(RANGE)).collect()
}

/// Returns the API requests of each later poll: charts only for the time since the last poll.
pub(super) fn poll_requests(every: Duration) -> Vec<String> {
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

/// Returns the page and all files that it links to, directly or through modules.
async fn page_files(client: &mut Client) -> Result<Vec<String>> {
    let (mut found, mut waiting) = (BTreeSet::new(), vec!["/".to_owned()]);
    while let Some(path) = waiting.pop() {
        if !found.insert(path.clone()) {
            continue;
        }
        anyhow::ensure!(found.len() < 500, "the page links to more files than it can have");
        let body = client.body(&path).await?;
        let text = String::from_utf8_lossy(&body);
        waiting.extend(linked_files(&text).map(|name| resolve(&path, name)));
    }
    Ok(found.into_iter().collect())
}

/// Returns the files that a page links to or a module imports.
fn linked_files(text: &str) -> impl Iterator<Item = &str> {
    let after = |sign: &'static str, end: char| {
        text.split(sign).skip(1).filter_map(move |rest| rest.split(end).next())
    };
    let imports = after("from '", '\'').chain(after("href=\"", '"')).chain(after("src=\"", '"'));
    // Links to the API are no files.
    let files = imports.filter(|name| !name.contains("/api/"));
    files.filter(|name| name.starts_with("./") || name.starts_with("../"))
}

/// Resolves a relative path against the path of the file that contains it.
fn resolve(from: &str, name: &str) -> String {
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
        let found: Vec<String> =
            linked_files(text).map(|name| resolve("/pages/c.js", name)).collect();
        assert_eq!(found, ["/pages/lib/a.js", "/b.js"]);
        assert_eq!(resolve("/", "./app.js"), "/app.js");
    }
}
