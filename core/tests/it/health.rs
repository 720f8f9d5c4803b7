//! How a process is while its storage comes and goes.

use punctual::health::Condition;
use punctual::{Job, Occurrence, Punctual};

use crate::acting::telling;
use crate::faulty::{EVERYTHING, Faulty};
use crate::harness::{Bench, Log, seconds, world};

// spec: T-2, H-47, H-49
#[tokio::test]
async fn a_process_starts_without_its_storage_says_so_and_works_when_it_is_there() {
    let (clock, storage) = world();
    let door = Faulty::over(&storage);
    door.fail(&EVERYTHING);
    let log = Log::default();
    let punctual = Punctual::builder()
        .clock(clock.clone())
        .storage(door.clone())
        .job(
            Job::every("often", seconds(60)),
            telling::<Occurrence>(&log, |occurrence, _| occurrence.nominal.to_string()),
        )
        .build()
        .unwrap();
    punctual.start().await.unwrap();
    let bench = Bench { clock, storage, punctual };
    bench.advance(seconds(90)).await;
    let health = bench.punctual.admin().health().await;
    assert_eq!(health.condition, Condition::Unhealthy);
    assert!(health.reasons[0].contains("the storage is out of reach"), "{:?}", health.reasons);
    assert_eq!(health.last_tick_age, None, "never ticked");
    assert_eq!(log.len(), 0);
    door.heal();
    bench.advance(seconds(90)).await;
    let health = bench.punctual.admin().health().await;
    assert_eq!((health.condition, health.reasons), (Condition::Healthy, Vec::new()));
    assert!(health.last_tick_age.unwrap() <= seconds(2));
    assert!(log.len() >= 1, "the job runs");
}

// spec: H-50
#[tokio::test]
async fn asking_changes_nothing() {
    let bench = Bench::start(|builder| builder).await;
    let id = bench.punctual.publisher().publish("nobody", &()).after(seconds(60)).await.unwrap().id;
    let before = bench.message(id).await;
    for _ in 0..3 {
        assert_eq!(bench.punctual.admin().health().await.condition, Condition::Healthy);
    }
    assert_eq!(bench.message(id).await, before);
}
