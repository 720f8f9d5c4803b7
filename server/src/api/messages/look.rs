//! Looking for messages page by page, over a bounded number of rows, and no longer than somebody likes to wait.

use std::time::Duration;

use jiff::Timestamp;
use punctual::clock::{add, between, subtract};
use punctual::inspect::{PAGE_LIMIT_MAX, PageRequest};
use punctual::model::{MessageId, MessageRecord};
use uuid::Uuid;

use super::filter::Wanted;
use crate::app::App;

/// The most rows one request looks at.
pub(crate) const LOOKED_AT_MAX: usize = 10_000;
/// The most pages a list looks at for one of its own; a storage may find nothing on some.
const PAGES_MAX: usize = 50;
/// The same for whoever counts or changes all that match, and waits for it.
const PAGES_OF_ALL_MAX: usize = 500;
/// How long one page of a list is looked for; behind that the next one goes on.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(10);
/// How far the instant of an id may be from the one its message was made at.
pub(crate) const NEAR: Duration = Duration::from_secs(5);

impl Wanted {
    /// The same for somebody who waits for a page and would rather have a part of it soon.
    pub(crate) fn in_a_moment(mut self) -> Self {
        self.is_page = true;
        self
    }

    /// The id behind which a list begins: what was made later than it ends is not looked at. An id tells when
    /// its message was made, to a few seconds, unless the sender chose it.
    fn begins(&self, after: Option<MessageId>) -> Option<MessageId> {
        let until = self.until.map(|until| first_id(add(until, NEAR)));
        match (after, until) {
            (Some(after), Some(until)) => Some(after.min(until)),
            (after, until) => after.or(until),
        }
    }

    /// Whether what comes behind an id was made before the list begins.
    fn ends_before(&self, id: MessageId) -> bool {
        self.since.is_some_and(|since| id < first_id(subtract(since, NEAR)))
    }
}

/// The smallest id of an instant.
fn first_id(at: Timestamp) -> MessageId {
    let millisecond = u64::try_from(at.as_millisecond()).unwrap_or(0);
    MessageId::from_uuid(Uuid::from_u64_pair(millisecond << 16, 0))
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The rows, newest first.
    pub(crate) rows: Vec<MessageRecord>,
    /// The last row that was looked at, when there may be more behind it.
    pub(crate) next: Option<MessageId>,
    /// How many rows were looked at.
    pub(crate) looked_at: usize,
}

/// Looks for at most so many messages behind a row, over at most [`LOOKED_AT_MAX`] rows; `takes` is asked
/// besides what is wanted.
pub(crate) async fn look(
    app: &App,
    wanted: &Wanted,
    after: Option<MessageId>,
    limit: usize,
    takes: impl Fn(&MessageRecord) -> bool,
) -> punctual::Result<Found> {
    let now = app.clock.now();
    let mut found = Found { next: wanted.begins(after), ..Found::default() };
    let mut pages = 0;
    let pages_max = if wanted.is_page { PAGES_MAX } else { PAGES_OF_ALL_MAX };
    // Whoever takes every row has enough with the first page; whoever looks for few goes on in large ones.
    let mut size = limit.clamp(1, PAGE_LIMIT_MAX);
    while found.looked_at < LOOKED_AT_MAX && pages < pages_max {
        pages += 1;
        let page =
            PageRequest { after: found.next, limit: size.min(LOOKED_AT_MAX - found.looked_at) };
        let paged = app.punctual.admin().messages(wanted.filter.clone(), page).await?;
        for record in paged.rows {
            if found.rows.len() == limit {
                return Ok(found);
            }
            found.looked_at += 1;
            found.next = Some(record.message.id);
            if wanted.takes(&record, app, now) && takes(&record) {
                found.rows.push(record);
            }
        }
        match paged.next {
            None => return Ok(Found { next: None, ..found }),
            Some(_) if found.rows.len() == limit => return Ok(found),
            Some(next) => found.next = Some(next),
        }
        let is_over = found.next.is_some_and(|next| wanted.ends_before(next));
        if is_over || (wanted.is_page && between(now, app.clock.now()) > TIMEOUT) {
            return Ok(found);
        }
        size = PAGE_LIMIT_MAX;
    }
    Ok(found)
}
