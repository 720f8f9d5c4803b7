//! Queue measurements: scheduled messages and rates, measured over a limited number of the newest rows.

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

/// Largest number of pages read of messages, and of executions.
const PAGES_MAX: usize = 5;
/// Number of minutes in a spark line.
const MINUTES: usize = 60;
/// Time window of rates.
const WINDOW: Duration = Duration::from_secs(60);

/// Measurements of all queues.
#[derive(Debug, Default)]
pub(crate) struct QueueMeasurements {
    queues: BTreeMap<Queue, QueueMeasurement>,
    /// Whether every pending message was read.
    is_complete: bool,
}

#[derive(Debug, Default)]
struct QueueMeasurement {
    scheduled: u64,
    created: u64,
    finished: u64,
    minutes: Vec<u64>,
}

impl QueueMeasurements {
    /// Measures the newest rows.
    pub(super) async fn of(app: &App) -> Result<Arc<Self>> {
        let (mut measured, now) = (Self::default(), app.clock.now());
        measured.count_scheduled(app, now).await?;
        measured.count_created(app, now).await?;
        measured.count_finished(app, now).await?;
        Ok(Arc::new(measured))
    }

    fn at(&mut self, queue: &Queue) -> &mut QueueMeasurement {
        self.queues.entry(queue.clone()).or_default()
    }

    async fn count_scheduled(&mut self, app: &App, now: Timestamp) -> Result<()> {
        let filter =
            MessageFilter { states: vec![MessageState::Pending], ..MessageFilter::default() };
        let mut page = PageRequest::first(PAGE_LIMIT_MAX);
        for _ in 0..PAGES_MAX {
            let paged = app.inspect.messages(filter.clone(), page).await?;
            for record in paged.rows.iter().filter(|record| is_later(record.due_at, now)) {
                self.at(&record.message.queue).scheduled += 1;
            }
            let Some(next) = paged.next else {
                self.is_complete = true;
                break;
            };
            page = PageRequest::after(next, PAGE_LIMIT_MAX);
        }
        Ok(())
    }

    async fn count_created(&mut self, app: &App, now: Timestamp) -> Result<()> {
        let since = subtract(now, WINDOW);
        let mut page = PageRequest::first(PAGE_LIMIT_MAX);
        for _ in 0..PAGES_MAX {
            let paged = app.inspect.messages(MessageFilter::default(), page).await?;
            let old = paged.rows.iter().all(|record| record.message.created_at < since);
            for record in paged.rows.iter().filter(|record| record.message.created_at >= since) {
                self.at(&record.message.queue).created += 1;
            }
            let Some(next) = paged.next.filter(|_| !old) else { break };
            page = PageRequest::after(next, PAGE_LIMIT_MAX);
        }
        Ok(())
    }

    async fn count_finished(&mut self, app: &App, now: Timestamp) -> Result<()> {
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
                let measurement = self.at(&execution.queue);
                measurement.minutes.resize(MINUTES, 0);
                measurement.finished += u64::from(ago < WINDOW);
                if let Some(count) = measurement.minutes.get_mut(minute) {
                    *count += 1;
                }
            }
            let Some(next) = paged.next.filter(|_| !old) else { break };
            page = PageRequest::after(next, PAGE_LIMIT_MAX);
        }
        Ok(())
    }

    /// Returns whether [`scheduled`](Self::scheduled) is exact, and not a lower bound.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns the number of pending messages that are not due yet.
    pub(super) fn scheduled(&self, queue: &Queue) -> u64 {
        self.queues.get(queue).map_or(0, |measurement| measurement.scheduled)
    }

    /// Returns the created messages and finished attempts per second.
    pub(super) fn rates(&self, queue: &Queue) -> (f64, f64) {
        let per_second = |count: u64| {
            // The limit of rows is far below the largest exact integer of a float.
            f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / WINDOW.as_secs_f64()
        };
        let measurement = self.queues.get(queue);
        measurement.map_or((0.0, 0.0), |one| (per_second(one.created), per_second(one.finished)))
    }

    /// Returns the number of finished attempts in each minute, oldest first.
    pub(super) fn spark(&self, queue: &Queue) -> Vec<u64> {
        let minutes = self.queues.get(queue).map(|measurement| measurement.minutes.clone());
        let mut minutes = minutes.unwrap_or_default();
        minutes.resize(MINUTES, 0);
        minutes
    }
}
