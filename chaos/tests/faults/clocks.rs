//! A node whose clock is wrong by an hour, beside one whose clock is right.

use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use libtest_mimic::Failed;
use punctual::inspect::{ExecutionFilter, PageRequest};
use punctual::jiff::{SignedDuration, Timestamp};
use punctual::model::{Ending, MessageId};
use punctual::{Clock, Context, Job, JobBuilder, Occurrence, SystemClock};
use punctual_conformance::own::{Proxy, Slowness, WrongClock};

use super::node::{Database, Handled, eventually, node, pause};

/// Everything has run by then, an hour too late excluded; a busy machine takes its time.
const RUN_WITHIN: Duration = Duration::from_secs(40);

/// Instants that occurrences were due at, with those at which they began.
type Occurrences = Arc<Mutex<Vec<(Timestamp, Timestamp)>>>;

/// A job of every second.
fn tick() -> JobBuilder {
    Job::every("tick", Duration::from_secs(1))
}

/// A handler that notes when it began.
fn noting(occurrences: &Occurrences) -> impl Fn(Occurrence, Context) -> Ready<()> + use<> {
    let seen = occurrences.clone();
    move |occurrence, _| {
        seen.lock().unwrap().push((occurrence.nominal, SystemClock.now()));
        ready(())
    }
}

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

    let occurrences = Occurrences::default();
    let clock = Arc::new(WrongClock(SignedDuration::from_secs(seconds)));
    let wrong = node(database.storage(clock.clone())?, clock, &of_wrong)
        .queue("wrong", 4)
        .only_named_queues()
        .job(tick().queue("wrong"), noting(&occurrences))
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
    let lost = right.admin().executions(lost, PageRequest::first(10)).await?.rows;
    assert_eq!(lost, [], "nothing was taken from anybody");
    right.shutdown().await;
    wrong.shutdown().await;
    Ok(())
}

/// How slow the network of the wrong node is: opening a connection takes longest, and answers take longer
/// than requests, so that the middle of a call is no measure of when the database read its clock.
const SLOW: [Slowness; 2] = [
    Slowness {
        connect: Duration::from_millis(150),
        request: Duration::from_millis(40),
        response: Duration::from_millis(5),
    },
    Slowness {
        connect: Duration::from_millis(20),
        request: Duration::from_millis(5),
        response: Duration::from_millis(40),
    },
];
/// Messages that fall due one after the other while the node learns what time it is.
const BURST: i64 = 200;

/// A node behind a slow network, whose clock is wrong as well, starts nothing before it is due by the
/// database's clock, which here is the system's, and no delay is shorter than was asked for.
pub(crate) async fn a_slow_network_starts_nothing_early(seconds: i64) -> Result<(), Failed> {
    let database = Database::start(if seconds > 0 { "slow-ahead" } else { "slow-behind" })?;
    for slowness in SLOW {
        let proxy = Proxy::to(&database.server.address()).await;
        proxy.slow_down(slowness);
        let direct = Arc::new(SystemClock);
        let publisher = node(database.storage(direct.clone())?, direct, &Handled::default())
            .build()?
            .publisher();
        let begin = SystemClock.now() + SignedDuration::from_secs(2);
        let instants = (0..BURST).map(|number| begin + SignedDuration::from_millis(number * 10));
        let messages = instants.clone().map(|at| publisher.publish("work", &0_u64).at(at));
        let published = publisher.publish_all(messages.collect()).await?;
        let ids = published.iter().map(|published| published.id);
        let mut due: Vec<(MessageId, Timestamp)> = ids.zip(instants).collect();
        let handled = Handled::default();
        let clock = Arc::new(WrongClock(SignedDuration::from_secs(seconds)));
        let storage = Database::storage_at(proxy.address(), clock.clone())?;
        let occurrences = Occurrences::default();
        let slow = node(storage, clock, &handled).job(tick(), noting(&occurrences)).build()?;
        slow.start().await?;
        let knows_the_time = eventually(RUN_WITHIN, || !handled.all().is_empty()).await;
        assert!(knows_the_time, "nothing ran");
        let wait = Duration::from_millis(700);
        for _ in 0..3 {
            let sent_at = SystemClock.now();
            let id = slow.publisher().publish("work", &0_u64).after(wait).await?.id;
            due.push((id, sent_at + SignedDuration::try_from(wait)?));
        }
        let ticks = || occurrences.lock().unwrap().len();
        let ran = eventually(RUN_WITHIN, || handled.all().len() >= due.len() && ticks() >= 3).await;
        assert!(ran, "{} of {} messages, {} ticks", handled.all().len(), due.len(), ticks());
        for (id, due_at) in due {
            for began in handled.of(id) {
                not_early(due_at, began)?;
            }
        }
        for (nominal, began) in occurrences.lock().unwrap().iter() {
            not_early(*nominal, *began)?;
        }
        slow.shutdown().await;
    }
    Ok(())
}

fn not_early(due_at: Timestamp, began: Timestamp) -> Result<(), Failed> {
    if began < due_at {
        return Err(format!("due at {due_at}, begun at {began}").into());
    }
    Ok(())
}
