//! Message search: reads the storage page by page, with limits of rows and time.

use std::time::Duration;

use jiff::Timestamp;
use punctual::clock::{add, between, subtract};
use punctual::inspect::{PAGE_LIMIT_MAX, PageRequest};
use punctual::model::{MessageId, MessageRecord};
use uuid::Uuid;

use super::filter::MessageSelection;
use crate::app::App;

/// Largest number of rows that one request reads.
pub(crate) const SCANNED_MAX: usize = 10_000;
/// Largest number of pages read for one page of a list; a page of the storage may have no matching row.
const PAGES_MAX: usize = 50;
/// Largest number of pages read to count or change all matching messages.
const PAGES_OF_ALL_MAX: usize = 500;
/// Search time for one page of a list; the next page continues from there.
pub(crate) const PAGE_TIMEOUT: Duration = Duration::from_millis(10);
/// Largest difference between the time in an id and the creation time of its message.
pub(crate) const ID_TIME_TOLERANCE: Duration = Duration::from_secs(5);

impl MessageSelection {
    /// Returns the id behind which the search starts, so that messages created after `until` are not read. An id holds
    /// the creation time to a few seconds, unless the sender chose it.
    fn start(&self, after: Option<MessageId>) -> Option<MessageId> {
        let until = self.until.map(|until| first_id(add(until, ID_TIME_TOLERANCE)));
        match (after, until) {
            (Some(after), Some(until)) => Some(after.min(until)),
            (after, until) => after.or(until),
        }
    }

    /// Returns whether all messages behind an id were created before `since`.
    fn ends_before(&self, id: MessageId) -> bool {
        self.since.is_some_and(|since| id < first_id(subtract(since, ID_TIME_TOLERANCE)))
    }
}

/// Returns the smallest id of a time.
fn first_id(at: Timestamp) -> MessageId {
    let millisecond = u64::try_from(at.as_millisecond()).unwrap_or(0);
    MessageId::from_uuid(Uuid::from_u64_pair(millisecond << 16, 0))
}

/// Result of a search.
#[derive(Debug, Default)]
pub(crate) struct SearchResult {
    /// Matching rows, newest first.
    pub(crate) rows: Vec<MessageRecord>,
    /// Last row that was read, when there may be more behind it.
    pub(crate) next: Option<MessageId>,
    /// Number of rows that were read.
    pub(crate) scanned: usize,
}

/// Searches up to `limit` messages behind a row, reading at most [`SCANNED_MAX`] rows. Rows must match both the
/// selection and `matches`.
pub(crate) async fn search(
    app: &App,
    selection: &MessageSelection,
    after: Option<MessageId>,
    limit: usize,
    matches: impl Fn(&MessageRecord) -> bool,
) -> punctual::Result<SearchResult> {
    let now = app.clock.now();
    let mut found = SearchResult { next: selection.start(after), ..SearchResult::default() };
    let mut pages = 0;
    let pages_max = if selection.is_page { PAGES_MAX } else { PAGES_OF_ALL_MAX };
    // When every row matches, the first page is enough; otherwise the search continues with large pages.
    let mut size = limit.clamp(1, PAGE_LIMIT_MAX);
    while found.scanned < SCANNED_MAX && pages < pages_max {
        pages += 1;
        let page = PageRequest { after: found.next, limit: size.min(SCANNED_MAX - found.scanned) };
        let paged = app.admin().messages(selection.filter.clone(), page).await?;
        for record in paged.rows {
            if found.rows.len() == limit {
                return Ok(found);
            }
            found.scanned += 1;
            found.next = Some(record.message.id);
            if selection.matches(&record, app, now) && matches(&record) {
                found.rows.push(record);
            }
        }
        match paged.next {
            None => return Ok(SearchResult { next: None, ..found }),
            Some(_) if found.rows.len() == limit => return Ok(found),
            Some(next) => found.next = Some(next),
        }
        let is_over = found.next.is_some_and(|next| selection.ends_before(next));
        if is_over || (selection.is_page && between(now, app.clock.now()) > PAGE_TIMEOUT) {
            return Ok(found);
        }
        size = PAGE_LIMIT_MAX;
    }
    Ok(found)
}
