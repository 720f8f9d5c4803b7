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

/// How early anything may begin by the database's clock, which here is the system's: the correction can be
/// wrong by half of what the database takes to return its time, which is long on a busy machine. How exact
/// it is otherwise, `core/tests/it/clocks.rs` shows with a manual clock.
const EARLY_MAX: SignedDuration = SignedDuration::from_millis(500);
/// Everything has run by then, an hour too late excluded; a busy machine takes its time.
const RUN_WITHIN: Duration = Duration::from_secs(40);

/// Leases are judged by the database's time, so the wrong node takes nothing from the right one; and
/// whatever it runs, it runs at the database's time.
pub(crate) async fn a_wrong_clock_changes_nothing(seconds: i64) -> Result<(), Failed> {
    let database = Database::start(if seconds > 0 { "ahead" } else { "behind" })?;
    let (of_right, of_wrong) = (Handled::default(), Handled::default());
    let clock = Arc::new(SystemClock);
    let right = node(database.storage(clock.clone())?, clock, &of_right).build()?;
    right.start().await?;
    // Running when the wrong node comes; its lease is good for minutes, by the right clock.
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
        .only_named_queues()
        .job(Job::every("tick", Duration::from_secs(1)).queue("wrong"), job)
        .build()?;
    wrong.start().await?;
    let due_at = SystemClock.now() + SignedDuration::from_secs(3);
    let later = right.publisher().publish("work", &0_u64).queue("wrong").at(due_at).await?.id;
    // Running on the wrong node, under a lease it asked for, while the right one rescues.
    let held = right.publisher().publish("work", &3_000_u64).queue("wrong").await?.id;
    let far = right.publisher().publish("work", &0_u64).queue("wrong");
    let far = far.after(Duration::from_secs(1_800)).await?.id;
    pause(Duration::from_secs(7)).await;
    let ticks = || occurrences.lock().unwrap().len();
    let ran = eventually(RUN_WITHIN, || !of_wrong.of(later).is_empty() && ticks() >= 4).await;
    assert!(ran, "the delayed one or the job did not run: {:?}", occurrences.lock().unwrap());

    assert_eq!(of_right.of(long).len(), 1, "the long one ran once");
    assert_eq!(of_wrong.of(long), [], "and nowhere else");
    assert_eq!(of_wrong.of(held).len(), 1, "what the wrong node held ran once");
    let [began] = of_wrong.of(later)[..] else {
        return Err("the delayed one did not run once".into());
    };
    not_early(due_at, began)?;
    assert_eq!(of_wrong.of(far), [], "due in half an hour");
    for (nominal, began) in occurrences.lock().unwrap().iter() {
        not_early(*nominal, *began)?;
    }
    let lost = ExecutionFilter { endings: vec![Ending::Lost.as_str()], ..Default::default() };
    let lost = right.admin().executions(lost, Page::first(10)).await?.rows;
    assert_eq!(lost, [], "nothing was taken from anybody");
    right.shutdown().await;
    wrong.shutdown().await;
    Ok(())
}

fn not_early(due_at: Timestamp, began: Timestamp) -> Result<(), Failed> {
    if due_at.duration_since(began) > EARLY_MAX {
        return Err(format!("due at {due_at}, begun at {began}").into());
    }
    Ok(())
}
