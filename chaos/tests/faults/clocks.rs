//! A node whose clock is wrong by an hour, beside one whose clock is right.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use libtest_mimic::Failed;
use punctual::inspect::{ExecutionFilter, Page};
use punctual::jiff::{SignedDuration, Timestamp};
use punctual::model::Ending;
use punctual::{Clock, Context, Job, Occurrence, SystemClock};

use super::node::{Database, Handled, WrongClock, eventually, node, pause};

/// How early anything may begin by the database's clock, which here is the system's: the correction is
/// off by half of the time the database takes to say what time it is.
const EARLY_MAX: SignedDuration = SignedDuration::from_millis(50);
/// How late it may begin here, where another program may have the processor.
const LATE_MAX: SignedDuration = SignedDuration::from_secs(3);

/// Leases are judged by the database's time, so the wrong node takes nothing from the right one; and
/// whatever it runs, it runs at the database's time.
pub(crate) async fn a_wrong_clock_changes_nothing(seconds: i64) -> Result<(), Failed> {
    let database = Database::start(if seconds > 0 { "ahead" } else { "behind" })?;
    let (of_right, of_wrong) = (Handled::default(), Handled::default());
    let clock = Arc::new(SystemClock);
    let right = node(database.storage(clock.clone())?, clock, &of_right)
        .options(|options| options.lease_length = Duration::from_secs(2))
        .build()?;
    right.start().await?;
    // Longer than its lease, which is renewed; begun before the wrong node comes.
    let long = right.publisher().publish("work", &6_000_u64).await?.id;
    assert!(eventually(Duration::from_secs(10), || !of_right.of(long).is_empty()).await);

    let occurrences: Arc<Mutex<Vec<(Timestamp, Timestamp)>>> = Arc::default();
    let seen = occurrences.clone();
    let clock = Arc::new(WrongClock(SignedDuration::from_secs(seconds)));
    let job = move |occurrence: Occurrence, _: Context| {
        seen.lock().unwrap().push((occurrence.nominal, SystemClock.now()));
        async {}
    };
    let wrong = node(database.storage(clock.clone())?, clock, &of_wrong)
        .queue("wrong", 4)
        .job(Job::every("tick", Duration::from_secs(1)).queue("wrong"), job)
        .options(|options| options.lease_length = Duration::from_secs(2))
        .build()?;
    wrong.start().await?;
    let due_at = SystemClock.now() + SignedDuration::from_secs(3);
    let later = right.publisher().publish("work", &0_u64).queue("wrong").at(due_at).await?.id;
    let far = right.publisher().publish("work", &0_u64).queue("wrong");
    let far = far.after(Duration::from_secs(1_800)).await?.id;
    pause(Duration::from_secs(8)).await;

    assert_eq!(of_right.of(long).len(), 1, "the long one ran once");
    assert_eq!(of_wrong.of(long), [], "and nowhere else");
    let [began] = of_wrong.of(later)[..] else {
        return Err("the delayed one did not run once".into());
    };
    on_time(due_at, began)?;
    assert_eq!(of_wrong.of(far), [], "due in half an hour");
    let occurrences = occurrences.lock().unwrap().clone();
    assert!(occurrences.len() >= 4, "the job ran: {occurrences:?}");
    for (nominal, began) in occurrences {
        on_time(nominal, began)?;
    }
    let lost = ExecutionFilter { endings: vec![Ending::Lost.as_str()], ..Default::default() };
    let lost = right.admin().executions(lost, Page::first(10)).await?.rows;
    assert_eq!(lost, [], "nothing was taken from anybody");
    right.shutdown().await;
    wrong.shutdown().await;
    Ok(())
}

fn on_time(due_at: Timestamp, began: Timestamp) -> Result<(), Failed> {
    let late = began.duration_since(due_at);
    if late < -EARLY_MAX || late > LATE_MAX {
        return Err(format!("due at {due_at}, begun at {began}").into());
    }
    Ok(())
}
