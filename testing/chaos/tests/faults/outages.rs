//! Outages of the database: at the start of a process, and while it works.

use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Failed;
use punctual::clock::{add, between};
use punctual::inspect::ExecutionFilter;
use punctual::inspect::PageRequest;
use punctual::model::{Ending, MessageId, MessageState};
use punctual::{Clock, Publisher, SystemClock};

use super::node::{Database, HandledLog, eventually, node, sleep};

/// Duration of an outage.
const OUTAGE: Duration = Duration::from_secs(3);
/// Longest time until work resumes after an outage. The back-off of the services is at most about as long as the
/// outage.
const RESUMED_WITHIN: Duration = Duration::from_secs(20);

// spec: T-2, T-65
/// The process starts, refuses a publish, and works as soon as the database is available.
pub(crate) async fn work_begins_when_the_database_comes_up() -> Result<(), Failed> {
    let mut database = Database::start("start")?;
    database.server.crash()?;
    let handled = HandledLog::default();
    let clock = Arc::new(SystemClock);
    let punctual = node(database.storage(clock.clone())?, clock, &handled).build()?;
    punctual.start().await?;
    let refused = punctual.publisher().publish("work", &0_u64).await.err();
    let refused = refused.ok_or("a publish was acknowledged without a database")?;
    assert!(refused.is_temporary(), "{refused}");
    sleep(OUTAGE).await;
    database.server.serve()?;
    let id = publish_in_time(&punctual.publisher()).await?;
    let ran = eventually(RESUMED_WITHIN, || !handled.of(id).is_empty()).await;
    assert!(ran, "no work {RESUMED_WITHIN:?} after the database came up");
    assert_eq!(punctual.shutdown().await.abandoned, 0);
    assert_eq!(handled.of(id).len(), 1);
    Ok(())
}

// spec: T-2, T-44
/// The database is killed while messages are published and handled, and restarted: the same process continues, and
/// every acknowledged message is handled.
pub(crate) async fn a_killed_database_loses_nothing() -> Result<(), Failed> {
    let mut database = Database::start("middle")?;
    let handled = HandledLog::default();
    let clock = Arc::new(SystemClock);
    let storage = database.storage(clock.clone())?;
    let punctual = node(storage, clock, &handled).build()?;
    punctual.start().await?;
    let publisher = punctual.publisher();
    let mut acknowledged = vec![publish_in_time(&publisher).await?];
    for round in 0..2 {
        acknowledged.extend(publish_for(&publisher, Duration::from_secs(1)).await);
        // Running when the database is killed, and settled when it is back.
        acknowledged.push(publisher.publish("work", &4_000_u64).await?.id);
        sleep(Duration::from_millis(300)).await;
        database.server.crash()?;
        let meanwhile = publish_for(&publisher, OUTAGE).await;
        assert_eq!(meanwhile, [], "round {round}: acknowledged without a database");
        database.server.serve()?;
        acknowledged.push(publish_in_time(&publisher).await?);
    }
    acknowledged.extend(publish_for(&publisher, Duration::from_secs(1)).await);
    let all = |ids: &[MessageId]| ids.iter().all(|id| !handled.of(*id).is_empty());
    let ran = eventually(RESUMED_WITHIN, || all(&acknowledged)).await;
    assert!(ran, "not all of {} acknowledged messages were handled", acknowledged.len());
    let admin = punctual.admin();
    let mut left = u64::MAX;
    for _ in 0..200 {
        let counts = admin.counts().await?;
        left = counts.total(MessageState::Pending) + counts.total(MessageState::Running);
        if left == 0 {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(left, 0, "messages are left");
    for id in &acknowledged {
        let filter = ExecutionFilter { message: Some(*id), ..ExecutionFilter::default() };
        let history = admin.executions(filter, PageRequest::first(10)).await?.rows;
        let done = history.iter().filter(|one| one.ending == Ending::Succeeded).count();
        assert_eq!(done, 1, "{id}: {history:?}");
    }
    punctual.shutdown().await;
    Ok(())
}

/// Publishes until it is acknowledged; fails after `RESUMED_WITHIN`.
async fn publish_in_time(publisher: &Publisher) -> Result<MessageId, Failed> {
    let begun = SystemClock.now();
    loop {
        match publisher.publish("work", &0_u64).await {
            Ok(published) => return Ok(published.id),
            Err(error) if !error.is_temporary() => return Err(error.into()),
            Err(error) if between(begun, SystemClock.now()) > RESUMED_WITHIN => {
                return Err(format!("no publish after {RESUMED_WITHIN:?}: {error}").into());
            }
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Publishes for a duration; returns the acknowledged messages.
async fn publish_for(publisher: &Publisher, duration: Duration) -> Vec<MessageId> {
    let until = add(SystemClock.now(), duration);
    let mut acknowledged = Vec::new();
    while SystemClock.now() < until {
        if let Ok(published) = publisher.publish("work", &5_u64).await {
            acknowledged.push(published.id);
        }
        sleep(Duration::from_millis(10)).await;
    }
    acknowledged
}
