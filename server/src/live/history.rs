//! History of figures, shared by all nodes: one document per step, span of time and process, written once a
//! minute, with an expiry. Figures of other processes are added up.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use punctual::backend::documents::{KeyRange, NewDocument};
use punctual::clock::add;
use punctual::{Error, Result};
use serde::{Deserialize, Serialize};

use super::figure::Figure;
use crate::app::App;

/// The kind of the documents.
const KIND: &str = "figures";
/// Largest number of pages of documents read per query.
const PAGES_MAX: usize = 4;
/// Seconds after the end of a block in which it is written for the last time.
const LATE_SECONDS: i64 = 120;

/// A step of the stored history.
struct HistoryStep {
    /// Seconds per figure.
    step: i64,
    /// Seconds per document.
    block: i64,
    /// Retention after the end of the block.
    retention: Duration,
}

const HISTORY_STEPS: [HistoryStep; 3] = [
    HistoryStep { step: 10, block: 600, retention: Duration::from_secs(6 * 3_600) },
    HistoryStep { step: 60, block: 7_200, retention: Duration::from_secs(7 * 86_400) },
    HistoryStep { step: 3_600, block: 604_800, retention: Duration::from_secs(400 * 86_400) },
];

/// Body of a document.
#[derive(Debug, Serialize, Deserialize)]
struct Page {
    process: String,
    figures: Vec<Vec<i64>>,
}

/// Writes the open blocks and those that ended just now.
pub(super) async fn write(app: &App) -> Result<()> {
    let (now, process) = (app.clock.now(), app.punctual.process_id().to_string());
    let mut drafts = Vec::new();
    for history in &HISTORY_STEPS {
        let open = now.as_second().div_euclid(history.block) * history.block;
        let before = (now.as_second() - open < LATE_SECONDS).then_some(open - history.block);
        for start in before.into_iter().chain([open]) {
            drafts.extend(draft(app, history, start, &process)?);
        }
    }
    app.documents.put_all(drafts, now).await
}

fn draft(
    app: &App,
    history: &HistoryStep,
    start: i64,
    process: &str,
) -> Result<Option<NewDocument>> {
    let figures = app.node().live.within(history.step, start, start + history.block);
    if figures.is_empty() {
        return Ok(None);
    }
    let figures = figures.iter().map(Figure::pack).collect();
    let page = Page { process: process.to_owned(), figures };
    let body = serde_json::to_value(page)
        .map_err(|error| Error::internal("figures cannot be written").caused_by(error))?;
    let end = Timestamp::from_second(start + history.block).unwrap_or(Timestamp::MAX);
    let draft = NewDocument::new(KIND, key(history.step, start, process), body);
    Ok(Some(draft.expires_at(add(end, history.retention))))
}

fn key(step: i64, start: i64, process: &str) -> String {
    format!("{step:04}/{start:012}/{process}")
}

/// Adds the stored figures of a step within a span to `figures`, by instant; of this process only those no longer in
/// memory.
pub(crate) async fn add_written(
    app: &App,
    step: i64,
    (from, to): (i64, i64),
    figures: &mut BTreeMap<i64, Figure>,
) -> Result<()> {
    let Some(history) = HISTORY_STEPS.iter().find(|history| history.step == step) else {
        return Ok(());
    };
    let (now, ours) = (app.clock.now(), app.punctual.process_id().to_string());
    let ours_from = app.node().live.within(step, i64::MIN, i64::MAX).first().map(|first| first.at);
    let ours_from = ours_from.unwrap_or(i64::MAX);
    let first = from.div_euclid(history.block) * history.block;
    let mut after = Some(key(step, first.max(0), ""));
    for _ in 0..PAGES_MAX {
        let range = KeyRange { after, ..KeyRange::prefix(format!("{step:04}/")) };
        let page_len = range.bounded();
        let documents = app.documents.list(KIND, range, now).await?;
        after = documents.last().map(|last| last.key.clone());
        let is_last = documents.len() < page_len;
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
