//! Figures that outlive the process and are seen by other nodes: one document per step, span of time and
//! process, written once a minute, gone after a while. What other processes wrote is added up.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use punctual::clock::add;
use punctual::documents::{KeyRange, NewDocument};
use punctual::{Error, Result};
use serde::{Deserialize, Serialize};

use super::figure::Figure;
use crate::app::App;

/// The kind of the documents.
const KIND: &str = "figures";
/// The most pages of documents that are read for one question.
const PAGES_MAX: usize = 4;
/// Within how long after the end of a span it is written for the last time.
const LATE: i64 = 120;

/// A step that is kept.
struct Kept {
    step: i64,
    /// How many seconds one document is about.
    block: i64,
    /// For how long after its end.
    length: Duration,
}

const KEPT: [Kept; 3] = [
    Kept { step: 10, block: 600, length: Duration::from_secs(6 * 3_600) },
    Kept { step: 60, block: 7_200, length: Duration::from_secs(7 * 86_400) },
    Kept { step: 3_600, block: 604_800, length: Duration::from_secs(400 * 86_400) },
];

/// What a document says.
#[derive(Debug, Serialize, Deserialize)]
struct Page {
    process: String,
    figures: Vec<Vec<i64>>,
}

/// Writes the spans down that are open or ended just now.
pub(super) async fn write(app: &App) -> Result<()> {
    let (now, process) = (app.clock.now(), app.punctual.process_id().to_string());
    let mut drafts = Vec::new();
    for kept in &KEPT {
        let open = now.as_second().div_euclid(kept.block) * kept.block;
        let before = (now.as_second() - open < LATE).then_some(open - kept.block);
        for start in before.into_iter().chain([open]) {
            drafts.extend(draft(app, kept, start, &process)?);
        }
    }
    app.documents.put_all(drafts, now).await
}

fn draft(app: &App, kept: &Kept, start: i64, process: &str) -> Result<Option<NewDocument>> {
    let figures = app.node().live.within(kept.step, start, start + kept.block);
    if figures.is_empty() {
        return Ok(None);
    }
    let figures = figures.iter().map(Figure::pack).collect();
    let page = Page { process: process.to_owned(), figures };
    let body = serde_json::to_value(page)
        .map_err(|error| Error::internal("figures cannot be written").caused_by(error))?;
    let end = Timestamp::from_second(start + kept.block).unwrap_or(Timestamp::MAX);
    let draft = NewDocument::new(KIND, key(kept.step, start, process), body);
    Ok(Some(draft.expires_at(add(end, kept.length))))
}

fn key(step: i64, start: i64, process: &str) -> String {
    format!("{step:04}/{start:012}/{process}")
}

/// What was written down of a step within a span, by instant, added to what is there; of this process only
/// what it no longer has in memory.
pub(crate) async fn add_written(
    app: &App,
    step: i64,
    (from, to): (i64, i64),
    figures: &mut BTreeMap<i64, Figure>,
) -> Result<()> {
    let Some(kept) = KEPT.iter().find(|kept| kept.step == step) else { return Ok(()) };
    let (now, ours) = (app.clock.now(), app.punctual.process_id().to_string());
    let ours_from = app.node().live.within(step, i64::MIN, i64::MAX).first().map(|first| first.at);
    let ours_from = ours_from.unwrap_or(i64::MAX);
    let first = from.div_euclid(kept.block) * kept.block;
    let mut after = Some(key(step, first.max(0), ""));
    for _ in 0..PAGES_MAX {
        let range = KeyRange { after, ..KeyRange::prefix(format!("{step:04}/")) };
        let most = range.bounded();
        let documents = app.documents.list(KIND, range, now).await?;
        after = documents.last().map(|last| last.key.clone());
        let is_last = documents.len() < most;
        for document in documents {
            let Ok(page) = serde_json::from_value::<Page>(document.body) else { continue };
            let until = if page.process == ours { ours_from } else { i64::MAX };
            let packed = page.figures.iter().filter_map(|numbers| Figure::unpack(numbers));
            for figure in packed.filter(|figure| figure.at >= from && figure.at < to.min(until)) {
                match figures.get_mut(&figure.at) {
                    Some(sum) => sum.merge(&figure, true),
                    None => {
                        figures.insert(figure.at, figure);
                    }
                }
            }
        }
        if is_last {
            break;
        }
    }
    Ok(())
}
