//! Editing jobs: an operator's values over the declared ones, looked at before they are stored, and taken
//! back again. What an edit means is decided in `policy/edit.rs`.

use std::time::Duration;

use jiff::Timestamp;

use super::Admin;
use crate::error::Result;
use crate::model::JobRecord;
use crate::policy::{Edit, Field, Layer, Preview, layers, overridden, preview, reset, upcoming};

impl Admin {
    /// Changes a job's schedule, zone, retries, timeout or misfire policy until it is reset; the code
    /// and the configuration below are kept. What runs already goes on under its old terms. Another
    /// schedule is followed from the next occurrence after now: the past is never replayed.
    pub async fn edit(&self, job: impl AsRef<str>, edit: Edit) -> Result<JobRecord> {
        let decide =
            |record: &JobRecord, now| Ok(overridden(record, edit.overrides(record, now)?, now));
        self.change(job.as_ref(), "edited", decide).await
    }

    /// The same if the job is as it was seen, which is asked about the very record that is changed; answers
    /// nothing, and changes nothing, when it is not.
    pub async fn edit_if(
        &self,
        job: impl AsRef<str>,
        edit: Edit,
        is_as_seen: impl Fn(&JobRecord) -> bool,
    ) -> Result<Option<JobRecord>> {
        let decide =
            |record: &JobRecord, now| Ok(overridden(record, edit.overrides(record, now)?, now));
        self.change_if(job.as_ref(), "edited", is_as_seen, decide).await
    }

    /// What an edit would come to: the definition, its schedule in words, and its next `count` times.
    /// Nothing is stored.
    pub async fn preview(
        &self,
        job: impl AsRef<str>,
        edit: &Edit,
        count: usize,
    ) -> Result<Preview> {
        preview(&self.job(job).await?, edit, count, self.process.now())
    }

    /// Takes every edit of a job back: it is again as the configuration or the code says.
    pub async fn reset(&self, job: impl AsRef<str>) -> Result<JobRecord> {
        self.change(job.as_ref(), "reset", |record, now| reset(record, None, now)).await
    }

    /// Takes the edit of one field back.
    pub async fn reset_field(&self, job: impl AsRef<str>, field: Field) -> Result<JobRecord> {
        self.change(job.as_ref(), "reset", |record, now| reset(record, Some(field), now)).await
    }

    /// What code, configuration and operators say about each field of a job, which of them is in force,
    /// and why.
    pub async fn layers(&self, job: impl AsRef<str>) -> Result<Vec<Layer>> {
        Ok(layers(&self.job(job).await?))
    }

    /// When a job will run next, as far as its schedule says.
    pub async fn upcoming(&self, job: impl AsRef<str>, count: usize) -> Result<Vec<Timestamp>> {
        Ok(upcoming(&self.job(job).await?, count))
    }

    /// Later than this is a misfire, for jobs that say nothing else.
    pub fn misfire_threshold(&self) -> Duration {
        self.process.options.misfire_threshold
    }
}
