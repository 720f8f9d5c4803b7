//! Registration of handlers and jobs in a process: binds handlers to their states, checks them, and refuses duplicate
//! names.

use std::collections::HashMap;

use crate::client::JobBuilder;
use crate::engine::{Registration, Registry};
use crate::error::{Error, Result};
use crate::handler::{States, UnboundHandler};
use crate::model::{HandlerOptions, Job, Topic};
use crate::schedule::Calendar;

/// A handler that is not registered yet.
pub(super) struct PendingHandler {
    pub(super) topic: Result<Topic>,
    pub(super) handler: UnboundHandler,
    pub(super) handler_options: HandlerOptions,
    /// Whether it was declared together with a job.
    pub(super) of_job: bool,
}

/// Returns the registry of the handlers, bound to their states.
pub(super) fn registry(handlers: Vec<PendingHandler>, states: &States) -> Result<Registry> {
    let mut registry = Registry::default();
    for PendingHandler { topic, handler, handler_options, of_job } in handlers {
        handler_options.check()?;
        let topic = topic?;
        let (handler, must_report) = handler.bind(states).map_err(|error| {
            Error::invalid(format!("the handler of the topic {topic:?} {error}"))
        })?;
        let registration =
            Registration { of_job, ..Registration::new(handler, handler_options, must_report) };
        registry.insert(topic, registration)?;
    }
    Ok(registry)
}

/// Returns the jobs; fails when a name is declared twice, with the source locations.
pub(crate) fn jobs(builders: Vec<JobBuilder>, calendars: &[Calendar]) -> Result<Vec<Job>> {
    let mut places: HashMap<String, (usize, Option<&'static str>)> = HashMap::new();
    let mut jobs: Vec<Job> = Vec::with_capacity(builders.len());
    for builder in builders {
        let place = builder.place();
        let job = builder.finish(calendars)?;
        let name = job.name.as_str().to_lowercase();
        match places.get(&name) {
            None => {
                places.insert(name, (jobs.len(), place));
                jobs.push(job);
            }
            // Two modules that declare the very same job declare it once.
            Some((index, _)) if jobs[*index] == job => {}
            Some((_, before)) => return Err(declared_twice(&job, [*before, place])),
        }
    }
    Ok(jobs)
}

fn declared_twice(job: &Job, places: [Option<&'static str>; 2]) -> Error {
    let places: Vec<&str> = places.into_iter().flatten().collect();
    let places = match places.as_slice() {
        [] => String::new(),
        places => format!(", at {}", places.join(" and at ")),
    };
    Error::conflict(format!(
        "the job {:?} is declared twice{places} (names are compared without regard to case); rename one of them",
        job.name
    ))
}
