//! An operator reads the status, pauses, resumes and triggers.

use std::time::Duration;

use punctual::client::PauseRequest;
use punctual::testing::TestHarness;
use punctual::{Admin, Context, Job, Occurrence};

async fn report(_: Occurrence, context: Context) {
    println!("  {} runs, {:?}", context.started_at().strftime("%H:%M"), context.source());
}

async fn show(admin: &Admin) {
    for job in admin.status().await.jobs {
        let next = job.next_at.map_or("never".to_owned(), |at| at.strftime("%H:%M").to_string());
        println!("{} is {}, next {next}", job.name, job.word());
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let hour = Duration::from_secs(3_600);
    let harness =
        TestHarness::start(|builder| builder.job(Job::cron("report", "0 * * * *"), report)).await?;
    let admin = harness.admin();
    show(&admin).await;
    harness.advance(hour).await;
    show(&admin).await;

    let (by, reason) = ("ada".to_owned(), "the printer is away".to_owned());
    admin.pause("report", PauseRequest { by, reason, until: None }).await?;
    harness.advance(2 * hour).await;
    show(&admin).await;
    admin.trigger("report", false).await?;
    harness.run_due().await;
    admin.resume("report").await?;
    show(&admin).await;
    Ok(())
}

// Output:
// report is never run, next 08:00
//   08:00 runs, Scheduled
// report is succeeded, next 09:00
// report is paused, next never
//   10:00 runs, Manual
// report is succeeded, next 11:00
