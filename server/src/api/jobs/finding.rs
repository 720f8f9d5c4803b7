//! Finding a job by the name in a path.

use punctual::ErrorKind;
use punctual::model::JobName;
use punctual::status::JobStatus;

use crate::app::App;
use crate::problem::{Answer, Problem};

/// The most characters of an unknown name that are repeated.
const SHOWN_MAX: usize = 80;

/// How a job is, also one that the storage has not heard of yet.
pub(super) async fn find(app: &App, name: &str) -> Answer<JobStatus> {
    if JobName::new(name).is_err() {
        return Err(unknown(name));
    }
    app.punctual.admin().status_of(name).await.map_err(|error| match error.kind() {
        ErrorKind::NotFound => unknown(name),
        _ => error.into(),
    })
}

fn unknown(name: &str) -> Problem {
    let name: String = name.chars().take(SHOWN_MAX).collect();
    Problem::not_found(format!("there is no job {name:?}; GET /api/v1/jobs lists what there is"))
}
