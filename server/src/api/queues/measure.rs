//! What counts do not say of queues: how many wait for later, and how many come and go. Measured over a
//! bounded number of the newest rows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use punctual::Result;
use punctual::clock::{between, subtract};
use punctual::inspect::{ExecutionFilter, MessageFilter, PAGE_LIMIT_MAX, PageRequest};
use punctual::model::{MessageState, Queue};

use super::is_later;
use crate::app::App;

/// The most pages of messages, and of executions, that are looked at.
const PAGES_MAX: usize = 5;
/// How many minutes a spark line shows.
const MINUTES: usize = 60;
/// Over how long rates are measured.
const WINDOW: Duration = Duration::from_secs(60);

/// What was measured of every queue.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    queues: BTreeMap<Queue, Measures>,
    /// Whether every waiting message was looked at.
    is_whole: bool,
}

#[derive(Debug, Default)]
struct Measures {
    scheduled: u64,
    came: u64,
    went: u64,
    minutes: Vec<u64>,
}

impl Measured {
    /// Looks at the newest rows.
    pub(super) async fn of(app: &App) -> Result<Arc<Self>> {
        let (mut measured, now) = (Self::default(), app.clock.now());
        measured.waiting(app, now).await?;
        measured.coming(app, now).await?;
        measured.going(app, now).await?;
        Ok(Arc::new(measured))
    }

    fn at(&mut self, queue: &Queue) -> &mut Measures {
        self.queues.entry(queue.clone()).or_default()
    }

    async fn waiting(&mut self, app: &App, now: Timestamp) -> Result<()> {
        let filter =
            MessageFilter { states: vec![MessageState::Pending], ..MessageFilter::default() };
        let mut page = PageRequest::first(PAGE_LIMIT_MAX);
        for _ in 0..PAGES_MAX {
            let paged = app.inspect.messages(filter.clone(), page).await?;
            for record in paged.rows.iter().filter(|record| is_later(record.due_at, now)) {
                self.at(&record.message.queue).scheduled += 1;
            }
            let Some(next) = paged.next else {
                self.is_whole = true;
                break;
            };
            page = PageRequest::after(next, PAGE_LIMIT_MAX);
        }
        Ok(())
    }

    async fn coming(&mut self, app: &App, now: Timestamp) -> Result<()> {
        let since = subtract(now, WINDOW);
        let mut page = PageRequest::first(PAGE_LIMIT_MAX);
        for _ in 0..PAGES_MAX {
            let paged = app.inspect.messages(MessageFilter::default(), page).await?;
            let old = paged.rows.iter().all(|record| record.message.created_at < since);
            for record in paged.rows.iter().filter(|record| record.message.created_at >= since) {
                self.at(&record.message.queue).came += 1;
            }
            let Some(next) = paged.next.filter(|_| !old) else { break };
            page = PageRequest::after(next, PAGE_LIMIT_MAX);
        }
        Ok(())
    }

    async fn going(&mut self, app: &App, now: Timestamp) -> Result<()> {
        let mut page = PageRequest::first(PAGE_LIMIT_MAX);
        for _ in 0..PAGES_MAX {
            let paged = app.inspect.executions(ExecutionFilter::default(), page).await?;
            let mut old = true;
            for execution in paged.rows.iter().filter(|execution| execution.attempt > 0) {
                let ago = between(execution.ended_at, now);
                let minutes_ago = usize::try_from(ago.as_secs() / 60).unwrap_or(usize::MAX);
                let Some(minute) = MINUTES.checked_sub(minutes_ago.saturating_add(1)) else {
                    continue;
                };
                old = false;
                let measures = self.at(&execution.queue);
                measures.minutes.resize(MINUTES, 0);
                measures.went += u64::from(ago < WINDOW);
                if let Some(count) = measures.minutes.get_mut(minute) {
                    *count += 1;
                }
            }
            let Some(next) = paged.next.filter(|_| !old) else { break };
            page = PageRequest::after(next, PAGE_LIMIT_MAX);
        }
        Ok(())
    }

    /// Whether [`scheduled`](Self::scheduled) counted all, and not only the newest.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// How many wait for later.
    pub(super) fn scheduled(&self, queue: &Queue) -> u64 {
        self.queues.get(queue).map_or(0, |measures| measures.scheduled)
    }

    /// How many come and go in a second.
    pub(super) fn rates(&self, queue: &Queue) -> (f64, f64) {
        let per_second = |count: u64| {
            // A bounded number of rows is far below what a float holds exactly.
            f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / WINDOW.as_secs_f64()
        };
        let measures = self.queues.get(queue);
        measures.map_or((0.0, 0.0), |one| (per_second(one.came), per_second(one.went)))
    }

    /// How many attempts ended in each minute, the oldest first.
    pub(super) fn spark(&self, queue: &Queue) -> Vec<u64> {
        let minutes = self.queues.get(queue).map(|measures| measures.minutes.clone());
        let mut minutes = minutes.unwrap_or_default();
        minutes.resize(MINUTES, 0);
        minutes
    }
}
