//! Cron expressions from a file or the environment, over those in the code; a wrong one does not prevent the
//! start.

use punctual::testing::TestHarness;
use punctual::{Configuration, Job};

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let file = Configuration::from_json(
        r#"{"Messaging": {"Scheduling": {"Jobs": {
            "nightly-report": {"CronExpression": "0 4 * * *"},
            "cleanup": {"CronExpression": "61 * * * *"}
        }}}}"#,
    )?;
    let harness = TestHarness::start(|builder| {
        builder
            .configure(file)
            .job(Job::cron("nightly-report", "0 2 * * *"), || async { println!("the report") })
            .job(Job::cron("cleanup", "0 3 * * *"), || async { println!("clean") })
    })
    .await?;
    for job in harness.admin().status().await.jobs {
        println!("{}: {}", job.name, job.in_words);
        if let Some(wrong) = job.misconfigured {
            println!("  {wrong}");
        }
    }
    Ok(())
}

// Output:
// cleanup: at 03:00, every day, UTC time
//   the configured cron text of job "cleanup" is wrong, so it is not used: minute (position 1): 61 is out of range, use 0 to 59 (job: cleanup)
// nightly-report: at 04:00, every day, UTC time
