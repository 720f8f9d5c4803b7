//! Wrong clocks: a node whose clock is wrong by an hour, together with one whose clock is right.

use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use libtest_mimic::Failed;
use punctual::inspect::{ExecutionFilter, PageRequest};
use punctual::jiff::{SignedDuration, Timestamp};
use punctual::model::{Ending, MessageId};
use punctual::{Clock, Context, Job, JobBuilder, Occurrence, SystemClock};
use punctual_conformance::backend_tests::{Proxy, Slowness, WrongClock};

use super::node::{Database, HandledLog, eventually, node, sleep};

/// Longest time until all messages have run: short of an hour, long enough for a busy machine.
const RUN_WITHIN: Duration = Duration::from_secs(40);

/// Nominal times of occurrences, with the times at which their handlers started.
type Occurrences = Arc<Mutex<Vec<(Timestamp, Timestamp)>>>;

/// Returns a job that runs every second.
fn tick() -> JobBuilder {
    Job::every("tick", Duration::from_secs(1))
}

/// Returns a handler that records its start.
fn recording_handler(
    occurrences: &Occurrences,
) -> impl Fn(Occurrence, Context) -> Ready<()> + use<> {
    let recorded = occurrences.clone();
    move |occurrence, _| {
        recorded.lock().unwrap().push((occurrence.nominal, SystemClock.now()));
        ready(())
    }
}

/// Leases are judged by the database's time, so the node with the wrong clock reclaims nothing from the other one and
/// runs everything at the database's time.
pub(crate) async fn a_wrong_clock_changes_nothing(seconds: i64) -> Result<(), Failed> {
    let database = Database::start(if seconds > 0 { "ahead" } else { "behind" })?;
    let (of_right, of_wrong) = (HandledLog::default(), HandledLog::default());
    let clock = Arc::new(SystemClock);
    let right = node(database.storage(clock.clone())?, clock, &of_right).build()?;
    right.start().await?;
    // Running when the node with the wrong clock starts; its lease lasts for minutes, by the right clock.
    let long = right.publisher().publish("work", &6_000_u64).await?.id;
    assert!(eventually(Duration::from_secs(10), || !of_right.of(long).is_empty()).await);

    let occurrences = Occurrences::default();
    let clock = Arc::new(WrongClock(SignedDuration::from_secs(seconds)));
    let wrong = node(database.storage(clock.clone())?, clock, &of_wrong)
        .queue("wrong", 4)
        .only_named_queues()
        .job(tick().queue("wrong"), recording_handler(&occurrences))
        .build()?;
    wrong.start().await?;
    let due_at = SystemClock.now() + SignedDuration::from_secs(3);
    let later = right.publisher().publish("work", &0_u64).queue("wrong").at(due_at).await?.id;
    // Running on the node with the wrong clock, with a lease that it requested, while the other node rescues.
    let running = right.publisher().publish("work", &3_000_u64).queue("wrong").await?.id;
    let not_due = right.publisher().publish("work", &0_u64).queue("wrong");
    let not_due = not_due.after(Duration::from_secs(1_800)).await?.id;
    sleep(Duration::from_secs(7)).await;
    let ticks = || occurrences.lock().unwrap().len();
    let ran = eventually(RUN_WITHIN, || !of_wrong.of(later).is_empty() && ticks() >= 4).await;
    assert!(ran, "the delayed message or the job did not run: {:?}", occurrences.lock().unwrap());

    assert_eq!(of_right.of(long).len(), 1, "the long message ran once");
    assert_eq!(of_wrong.of(long), [], "the long message ran on one node only");
    assert_eq!(
        of_wrong.of(running).len(),
        1,
        "the message of the node with the wrong clock ran once"
    );
    let [started_at] = of_wrong.of(later)[..] else {
        return Err("the delayed message did not run exactly once".into());
    };
    not_early(due_at, started_at)?;
    assert_eq!(of_wrong.of(not_due), [], "due in half an hour");
    for (nominal, started_at) in occurrences.lock().unwrap().iter() {
        not_early(*nominal, *started_at)?;
    }
    let lost = ExecutionFilter { endings: vec![Ending::Lost.as_str()], ..Default::default() };
    let lost = right.admin().executions(lost, PageRequest::first(10)).await?.rows;
    assert_eq!(lost, [], "no attempt was lost");
    right.shutdown().await;
    wrong.shutdown().await;
    Ok(())
}

/// Delays of the network: opening a connection takes longest, and requests and responses take different times, so
/// that the middle of a call is not the time at which the database read its clock.
const SLOW_NETWORKS: [Slowness; 2] = [
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
/// Number of messages that become due one after the other while the node learns the database's time.
const BURST: i64 = 200;

/// A node behind a slow network with a wrong clock starts nothing before it is due by the database's clock, which is
/// the system's here, and no delay is shorter than requested.
pub(crate) async fn a_slow_network_starts_nothing_early(seconds: i64) -> Result<(), Failed> {
    let database = Database::start(if seconds > 0 { "slow-ahead" } else { "slow-behind" })?;
    for slowness in SLOW_NETWORKS {
        let proxy = Proxy::to(&database.server.address()).await;
        proxy.slow_down(slowness);
        let direct = Arc::new(SystemClock);
        let publisher = node(database.storage(direct.clone())?, direct, &HandledLog::default())
            .build()?
            .publisher();
        let begin = SystemClock.now() + SignedDuration::from_secs(2);
        let instants = (0..BURST).map(|number| begin + SignedDuration::from_millis(number * 10));
        let messages = instants.clone().map(|at| publisher.publish("work", &0_u64).at(at));
        let published = publisher.publish_all(messages.collect()).await?;
        let ids = published.iter().map(|published| published.id);
        let mut due: Vec<(MessageId, Timestamp)> = ids.zip(instants).collect();
        let handled = HandledLog::default();
        let clock = Arc::new(WrongClock(SignedDuration::from_secs(seconds)));
        let storage = Database::storage_at(proxy.address(), clock.clone())?;
        let occurrences = Occurrences::default();
        let slow =
            node(storage, clock, &handled).job(tick(), recording_handler(&occurrences)).build()?;
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
            for started_at in handled.of(id) {
                not_early(due_at, started_at)?;
            }
        }
        for (nominal, started_at) in occurrences.lock().unwrap().iter() {
            not_early(*nominal, *started_at)?;
        }
        slow.shutdown().await;
    }
    Ok(())
}

fn not_early(due_at: Timestamp, started_at: Timestamp) -> Result<(), Failed> {
    if started_at < due_at {
        return Err(format!("due at {due_at}, started at {started_at}").into());
    }
    Ok(())
}
