//! What a builder is given besides handlers and jobs: states that handlers share, calendars that jobs
//! exclude, and jobs that were declared by attribute.

use std::any::TypeId;

use super::Builder;
use crate::declared::{Declare, DeclaredJob};
use crate::schedule::Calendar;

impl Builder {
    /// A value that handlers share, by its type: a handler takes it as
    /// [`State<T>`](crate::State). A handler that asks for a type nobody gave fails in
    /// [`Builder::build`], and so does a second value of one type.
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.insert(value);
        self
    }

    /// A calendar that jobs exclude by its name, as `exclude = "holidays"` does.
    pub fn calendar(mut self, calendar: Calendar) -> Self {
        self.calendars.push(calendar);
        self
    }

    /// A job that was declared by [`#[job]`](crate::job) on a function, with that function as its
    /// handler. Registering one twice, or also finding it by [`Builder::discover`], is registering
    /// it once.
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

    /// Every job of this program that was declared by [`#[job]`](crate::job), in this crate and in
    /// those it is linked with. It finds jobs and their handlers only: what is received from a
    /// transport is said by [`Builder::subscribe`].
    #[cfg(feature = "discovery")]
    pub fn discover(mut self) -> Self {
        for found in crate::declared::found() {
            self = self.add((found.identity)(), found.declared);
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
