//! The health of a process, for orchestrators and operators, with stable keys.

use punctual::Job;
use punctual::testing::TestHarness;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    for cron in ["0 3 * * *", "every full moon"] {
        let harness = TestHarness::start(|builder| {
            let job = Job::cron("report", "0 2 * * *");
            builder.job(job, || async { println!("the report") }).cron_override("report", cron)
        })
        .await?;
        let health = harness.admin().health().await;
        println!("{}, {} reasons", health.condition, health.reasons.len());
        for (key, value) in serde_json::json!(health).as_object().into_iter().flatten() {
            if key != "reasons" {
                println!("  {key}: {value}");
            }
        }
    }
    Ok(())
}

// Output:
// healthy, 0 reasons
//   condition: "healthy"
//   dead_letters: 0
//   last_tick_age_ms: 0
//   late_schedules: 0
//   lifecycle: "running"
//   queue_depth: 0
//   stale_count: 0
//   storage_latency_ms: 0
// degraded, 1 reasons
//   condition: "degraded"
//   dead_letters: 0
//   last_tick_age_ms: 0
//   late_schedules: 0
//   lifecycle: "running"
//   queue_depth: 0
//   stale_count: 0
//   storage_latency_ms: 0
