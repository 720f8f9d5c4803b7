//! Questions of an operator: why a message waits, what happened to each occurrence, and what an outage would do.

use std::time::Duration;

use punctual::analysis::LedgerRange;
use punctual::testing::TestHarness;
use punctual::{Job, Misfire, Occurrence, Retry};

async fn report(_: Occurrence) {}

async fn charge(order: u32) -> Result<(), String> {
    Err(format!("order {order} is unknown"))
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let hour = Duration::from_secs(3_600);
    let once = punctual::model::HandlerOptions::new().retry(Retry::none());
    let job = Job::cron("report", "0 * * * *").misfire(Misfire::fire_once());
    let harness =
        TestHarness::start(|builder| builder.job(job, report).handler_with("charge", once, charge))
            .await?;
    let admin = harness.admin();

    let mail = harness.publisher().publish("mail", "hello").queue("post").await?;
    if let Some(why) = admin.why(mail.id).await? {
        println!("{}: {}", why.word, why.sentence);
    }

    admin.skip_next("report").await?;
    harness.advance(2 * hour).await;
    let range = LedgerRange { limit: 4, ..LedgerRange::default() };
    for entry in admin.ledger("report", range).await?.rows {
        println!("{} {:?}", entry.nominal.strftime("%H:%M"), entry.decision);
    }
    println!("{}", admin.outage_preview("report", 3 * hour).await?.in_words);

    for order in [17, 4_711] {
        harness.publisher().publish("charge", &order).await?;
    }
    harness.run_due().await;
    for group in admin.dead_groups().await?.groups {
        println!("{} dead letters like: {}", group.count, group.error.unwrap_or_default());
    }
    Ok(())
}

// Output:
// no_worker: No known process works on the queue "post"; start one that does.
// 08:00 Skipped
// 09:00 Ran
// 10:00 Planned
// after 3h without a scheduler 2 occurrences would be missed, being later than the default threshold of 5m; with fire_once one run would start at once for the missed ones, with the nominal time of the newest (2026-03-02T11:00:00Z); 1 occurrence would only be late, not missed, and would run; the next one on time is 2026-03-02T13:00:00Z
// 2 dead letters like: order 4711 is unknown
