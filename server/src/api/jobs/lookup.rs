//! Lookup of a job by the name in a path.

use std::sync::Arc;

use punctual::ErrorKind;
use punctual::inspect::{MessageFilter, PageRequest};
use punctual::model::{JobName, MessageState};
use punctual::status::JobStatus;

use crate::app::App;
use crate::problem::{ApiResult, Problem};

/// Largest number of characters of an unknown name that an error repeats.
const SHOWN_MAX: usize = 80;
/// Largest number of planned one-time jobs of a name that are counted.
const PLANNED_MAX: usize = 100;

/// Returns the status of a job, also of a declared one that is not stored yet.
pub(super) async fn find(app: &App, name: &str) -> ApiResult<JobStatus> {
    let mut status = of_job(app, name, app.admin().status_of(name)).await?;
    if let Some(last) = &mut status.last {
        app.redaction().hide_execution(Arc::make_mut(last));
    }
    Ok(status)
}

/// Returns the result of a call about a job; for an unknown name, a problem that says what exists.
pub(super) async fn of_job<T>(
    app: &App,
    name: &str,
    call: impl Future<Output = punctual::Result<T>>,
) -> ApiResult<T> {
    let Ok(job) = JobName::new(name) else { return Err(unknown(name)) };
    match call.await {
        Ok(result) => Ok(result),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(only_planned(app, job).await?.unwrap_or_else(|| unknown(name)))
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the problem for a name with planned one-time jobs and no definition; `None` when it has none.
async fn only_planned(app: &App, name: JobName) -> ApiResult<Option<Problem>> {
    let filter = MessageFilter {
        states: vec![MessageState::Pending, MessageState::Running],
        job: Some(name.clone()),
        planned: true,
        ..MessageFilter::default()
    };
    let paged = app.inspect.messages(filter, PageRequest::first(PLANNED_MAX)).await?;
    let planned = match (paged.rows.len(), paged.next) {
        (0, _) => return Ok(None),
        (1, _) => "1 one-time job of this name is planned".to_owned(),
        (count, None) => format!("{count} one-time jobs of this name are planned"),
        (count, Some(_)) => format!("more than {count} one-time jobs of this name are planned"),
    };
    let name = name.as_str();
    Ok(Some(Problem::not_found(format!(
        "no job {name:?} is defined, but {planned}; see GET /api/v1/jobs/{name}/planned"
    ))))
}

fn unknown(name: &str) -> Problem {
    let name: String = name.chars().take(SHOWN_MAX).collect();
    Problem::not_found(format!("there is no job {name:?}; GET /api/v1/jobs lists all jobs"))
}
