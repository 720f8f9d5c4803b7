//! Walks over schedules: calls of operators that compute many times leave the threads of the runtime free.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use async_trait::async_trait;
use punctual::client::Backfill;
use punctual::jiff::Timestamp;
use punctual::policy::Edit;
use punctual::{Clock, ErrorKind, Job, ManualClock, MemoryStorage, Punctual};

use crate::harness::instant;

/// A manual clock that records the threads that read it.
#[derive(Debug)]
struct WatchedClock {
    clock: ManualClock,
    readers: Mutex<HashSet<ThreadId>>,
}

#[async_trait]
impl Clock for WatchedClock {
    fn now(&self) -> Timestamp {
        self.readers.lock().unwrap().insert(thread::current().id());
        self.clock.now()
    }

    async fn sleep_until(&self, instant: Timestamp) {
        self.clock.sleep_until(instant).await;
    }
}

// Finding F2 of the security review: backfills, moves of the cursor and previews walked on the threads of the runtime.
#[tokio::test]
async fn calls_of_operators_walk_over_schedules_on_separate_threads() {
    let now = instant("2026-03-02T07:00:00Z");
    let clock = Arc::new(WatchedClock { clock: ManualClock::new(now), readers: Mutex::default() });
    let storage = Arc::new(MemoryStorage::new(clock.clone()));
    let builder = Punctual::builder().storage(storage).clock(clock.clone());
    let punctual = builder.build().unwrap();
    let admin = punctual.admin();
    let busy = Job::cron("busy", "* * * * * *").topic("t");
    admin.reconcile("test", vec![busy]).await.unwrap();
    let hours = |hours: u64| now + Duration::from_secs(hours * 3_600);
    for call in ["upcoming", "preview", "skip_next", "move_cursor", "backfill"] {
        clock.readers.lock().unwrap().clear();
        match call {
            "upcoming" => assert_eq!(admin.upcoming("busy", 1_000).await.unwrap().len(), 1_000),
            "preview" => {
                let edit = Edit::new().cron("*/2 * * * * *");
                assert_eq!(admin.preview("busy", &edit, 500).await.unwrap().next.len(), 500);
            }
            "skip_next" => assert!(admin.skip_next("busy").await.unwrap() > now),
            "move_cursor" => {
                let moved = admin.move_cursor("busy", hours(5)).await.unwrap();
                assert_eq!(moved.cursor, Some(hours(5)));
            }
            _ => {
                let (dry_run, max) = (true, 10_000);
                let backfill = Backfill { dry_run, max, ..Backfill::default() };
                let from = now - Duration::from_secs(86_400);
                let done = admin.backfill("busy", from, now, &backfill).await.unwrap();
                assert_eq!((done.nominals.len(), done.more), (10_000, true));
            }
        }
        let readers = clock.readers.lock().unwrap();
        assert!(readers.iter().any(|id| *id != thread::current().id()), "{call}");
    }
}

// Finding F2 of the security review.
#[tokio::test]
async fn a_backfill_of_too_many_occurrences_is_refused() {
    let now = instant("2026-03-02T07:00:00Z");
    let clock = Arc::new(ManualClock::new(now));
    let storage = Arc::new(MemoryStorage::new(clock.clone()));
    let punctual = Punctual::builder().storage(storage).clock(clock).build().unwrap();
    let admin = punctual.admin();
    admin.reconcile("test", vec![Job::cron("busy", "* * * * * *").topic("t")]).await.unwrap();
    let from = now - Duration::from_secs(30 * 86_400);
    let refused = admin.backfill("busy", from, now, &Backfill::default()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    assert!(refused.to_string().contains("give a shorter range"), "{refused}");
}
