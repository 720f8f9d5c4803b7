//! An operator previews and makes an edit of a job, and resets it.

use std::time::Duration;

use punctual::Job;
use punctual::policy::Edit;
use punctual::testing::TestHarness;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let harness = TestHarness::start(|builder| {
        builder.job(Job::cron("report", "0 2 * * *"), || async { println!("the report") })
    })
    .await?;
    let admin = harness.admin();
    let edit = Edit::new().cron("30 9 * * MON-FRI").timeout(Duration::from_secs(600));
    let preview = admin.preview("report", &edit, 2).await?;
    println!("{}: {:?}", preview.description, preview.next);
    admin.edit("report", edit).await?;
    for layer in admin.layers("report").await?.iter().filter(|layer| layer.overridden.is_some()) {
        println!("{} is {}", layer.field, layer.in_force);
    }
    println!("not on {}", admin.skip_next("report").await?);
    println!("but on {:?}", admin.upcoming("report", 1).await?);
    admin.reset("report").await?;
    println!("as declared: {:?}", admin.upcoming("report", 1).await?);
    Ok(())
}

// Output:
// at 09:30, on Monday to Friday, UTC time: [2026-03-02T09:30:00Z, 2026-03-03T09:30:00Z]
// schedule is 30 9 * * MON-FRI
// zone is UTC
// timeout is 10m
// not on 2026-03-02T09:30:00Z
// but on [2026-03-03T09:30:00Z]
// as declared: [2026-03-03T02:00:00Z]
