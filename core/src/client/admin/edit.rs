//! Edits of jobs: an operator's values that override the declared ones, their preview and their reset.
//! `policy/edit.rs` computes the effect of an edit.

use std::time::Duration;

use jiff::Timestamp;

use super::Admin;
use crate::error::Result;
use crate::model::JobRecord;
use crate::policy::{Edit, Field, Layer, Preview, layers, overridden, preview, reset, upcoming};

impl Admin {
    /// Overrides a job's schedule, zone, retries, timeout or misfire policy until it is reset; the values of
    /// code and configuration are kept below. Current runs keep their options. A new schedule applies from its
    /// next occurrence after now; the past is never replayed.
    pub async fn edit(&self, job: impl AsRef<str>, edit: Edit) -> Result<JobRecord> {
        let decide =
            |record: &JobRecord, now| Ok(overridden(record, edit.overrides(record, now)?, now));
        self.change(job.as_ref(), "edited", decide).await
    }

    /// Edits a job like [`Admin::edit`] if a condition holds for exactly the record that is changed; returns
    /// `None` and changes nothing otherwise.
    pub async fn edit_if(
        &self,
        job: impl AsRef<str>,
        edit: Edit,
        condition: impl Fn(&JobRecord) -> bool,
    ) -> Result<Option<JobRecord>> {
        let decide =
            |record: &JobRecord, now| Ok(overridden(record, edit.overrides(record, now)?, now));
        self.change_if(job.as_ref(), "edited", condition, decide).await
    }

    /// Returns the effect of an edit without storing it: the definition, its schedule in words, and its next
    /// `count` occurrences.
    pub async fn preview(
        &self,
        job: impl AsRef<str>,
        edit: &Edit,
        count: usize,
    ) -> Result<Preview> {
        let (record, edit, now) = (self.job(job).await?, edit.clone(), self.process.now());
        self.walk(move |walk| {
            preview(&record, &edit, count, now, |schedule, at| walk.next(schedule, at))
        })
        .await?
    }

    /// Resets all edits of a job to the values of the configuration or the code.
    pub async fn reset(&self, job: impl AsRef<str>) -> Result<JobRecord> {
        self.change(job.as_ref(), "reset", |record, now| reset(record, None, now)).await
    }

    /// Resets the edit of one field.
    pub async fn reset_field(&self, job: impl AsRef<str>, field: Field) -> Result<JobRecord> {
        self.change(job.as_ref(), "reset", |record, now| reset(record, Some(field), now)).await
    }

    /// Returns the values of code, configuration and operators for each field of a job, and which of them is in
    /// force.
    pub async fn layers(&self, job: impl AsRef<str>) -> Result<Vec<Layer>> {
        Ok(layers(&self.job(job).await?))
    }

    /// Returns up to `count` future occurrences of a job's schedule.
    pub async fn upcoming(&self, job: impl AsRef<str>, count: usize) -> Result<Vec<Timestamp>> {
        let record = self.job(job).await?;
        self.walk(move |walk| upcoming(&record, count, |schedule, at| walk.next(schedule, at)))
            .await
    }

    /// Returns the default misfire threshold, for jobs that set none.
    pub fn misfire_threshold(&self) -> Duration {
        self.process.env.options.misfire_threshold
    }
}
