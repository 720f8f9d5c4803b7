//! Resources of the builder: states that handlers share, calendars that jobs exclude, and jobs that were declared by
//! attribute.

use std::any::TypeId;

use super::Builder;
use crate::declared::{Declare, DeclaredJob};
use crate::schedule::Calendar;

impl Builder {
    /// Adds a value that handlers share, by its type: a handler takes it as [`State<T>`](crate::State).
    /// [`Builder::build`] fails when a handler needs a type that is missing, or when a type is added twice.
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.insert(value);
        self
    }

    /// Adds a calendar that jobs exclude by its name, as `exclude = "holidays"` does.
    pub fn calendar(mut self, calendar: Calendar) -> Self {
        self.calendars.push(calendar);
        self
    }

    /// Registers a job that was declared by [`#[job]`](crate::job) on a function, with that function as its
    /// handler. A job that is registered twice, or also found by [`Builder::discover`], is registered once.
    ///
    /// ```
    /// use punctual::{Occurrence, Punctual, job};
    ///
    /// #[job(name = "nightly-report", cron = "0 2 * * *", zone = "Europe/Warsaw")]
    /// async fn report(occurrence: Occurrence) {
    ///     println!("the report of {}", occurrence.nominal);
    /// }
    ///
    /// let punctual = Punctual::builder().register::<report>().build();
    /// assert!(punctual.is_ok());
    /// ```
    pub fn register<D: Declare>(self) -> Self {
        self.add(TypeId::of::<D>(), D::declared)
    }

    /// Registers every job of this program that was declared by [`#[job]`](crate::job), in all linked crates.
    /// Subscriptions to transports are not discovered; use [`Builder::subscribe`].
    #[cfg(feature = "discovery")]
    pub fn discover(mut self) -> Self {
        for job in crate::declared::discovered_jobs() {
            self = self.add((job.identity)(), job.declared);
        }
        self
    }

    fn add(mut self, identity: TypeId, declared: fn() -> DeclaredJob) -> Self {
        if self.registered.insert(identity) {
            let DeclaredJob { job, handler, .. } = declared();
            self = self.job_with(job, handler);
        }
        self
    }
}
