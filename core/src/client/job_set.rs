//! Job set: the jobs that a process declares, checked as a whole, with their configured schedules.

use std::collections::HashMap;

use super::JobBuilder;
use crate::config::ConfigProblem;
use crate::error::{Error, Result};
use crate::event::{Event, Events};
use crate::model::Job;
use crate::options::Options;
use crate::policy::configured_schedule;
use crate::schedule::{Calendar, Schedule};

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

/// Fails when a job cannot be declared with these options.
pub(crate) fn check_jobs(jobs: &[Job], has_storage: bool, options: &Options) -> Result<()> {
    for job in jobs {
        job.body.check(options.payload_max).map_err(|error| {
            Error::invalid(format!("the job {:?} cannot be declared: {error}", job.name))
        })?;
    }
    if let Some(job) = jobs.first().filter(|_| !has_storage) {
        return Err(Error::invalid(format!(
            "the job {:?} needs a storage, but the builder has without_storage()",
            job.name
        )));
    }
    Ok(())
}

/// Returns the configured schedule of each job, and the texts that are invalid.
pub(crate) fn schedules(
    jobs: &[Job],
    texts: Vec<(usize, String, String)>,
    events: &Events,
) -> (Vec<Option<Schedule>>, Vec<ConfigProblem>) {
    let (mut schedules, mut wrong) = (vec![None; jobs.len()], Vec::new());
    for (index, key, text) in texts {
        match configured_schedule(&jobs[index], &text) {
            Ok(schedule) => schedules[index] = Some(schedule),
            Err(error) => {
                let (job, problem) = (&jobs[index].name, error.to_string());
                events.emit(Event::JobConfigurationInvalid {
                    job: job.clone(),
                    text: text.clone(),
                    error: problem.clone(),
                });
                let job = Some(job.as_str().to_owned());
                wrong.push(ConfigProblem { key, job, text, problem });
            }
        }
    }
    (schedules, wrong)
}
