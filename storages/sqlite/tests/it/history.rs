//! History: one row for a message and the attempt that ended it, and rows that are found by the time in their id or,
//! when that is wrong, by an index.

use std::sync::Arc;
use std::time::Duration;

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{
    Claim, ClaimedMessage, Command, CommandResult, Prune, PruneResult, SettleResult, Settlement,
};
use punctual::clock::add;
use punctual::inspect::{ExecutionFilter, PageRequest};
use punctual::jiff::Timestamp;
use punctual::model::{DeadReason, Execution, ExecutionId, MessageId, MessageState};
use punctual::uuid::Uuid;
use punctual::{Inspect, MemoryStorage, Storage, SystemClock};
use punctual_sqlite::{Durability, SqliteStorage};

use crate::fixture::{Fixture, at, claim, offer, rows_of, settle};

/// Settles a message at the instant at which its attempt ends.
fn at_once(f: &Fixture, claimed: &ClaimedMessage) -> Settlement {
    let settlement = f.settlement(claimed, Verdict::Done);
    let execution =
        Execution { ended_at: at(11), ..settlement.execution.as_deref().unwrap().clone() };
    Settlement { execution: Some(Arc::new(execution)), ..settlement }
}

async fn executions_of(storage: &SqliteStorage, id: MessageId) -> Vec<Execution> {
    let filter = ExecutionFilter { message: Some(id), ..ExecutionFilter::default() };
    storage.executions(filter, PageRequest::first(9)).await.unwrap().rows
}

#[tokio::test]
async fn a_message_and_the_attempt_that_finished_it_share_a_row() {
    let f = Fixture::new();
    let storage = f.open().await;
    let message = f.message();
    offer(&storage, message.clone()).await;
    let claimed = claim(&storage, f.process(), 1).await.remove(0);
    let settlement = at_once(&f, &claimed);
    let execution = settlement.execution.clone().unwrap();
    assert_eq!(settle(&storage, vec![settlement]).await, [SettleResult::Applied]);
    let other = f.other_connection();
    assert_eq!(rows_of(&other, "punctual_history"), 1);
    let record = storage.message(message.id).await.unwrap().unwrap();
    assert_eq!((&*record.message, record.state), (&message, MessageState::Done));
    assert_eq!(record.ended_at, Some(at(11)));
    assert_eq!(executions_of(&storage, message.id).await, [(*execution).clone()]);

    let redrive = Command::Redrive { id: message.id, due_at: at(0) };
    assert_eq!(storage.command(redrive, at(12)).await.unwrap(), CommandResult::Applied(1));
    assert_eq!(executions_of(&storage, message.id).await, [(*execution).clone()]);
    assert_eq!(rows_of(&other, "punctual_history WHERE body IS NULL"), 1, "the attempt alone");
    let claimed = claim(&storage, f.process(), 1).await.remove(0);
    settle(&storage, vec![at_once(&f, &claimed)]).await;
    assert_eq!(executions_of(&storage, message.id).await.len(), 2);
    assert_eq!(storage.check().await.unwrap().findings, Vec::<String>::new());
    let delete = Command::Delete(message.id);
    assert_eq!(storage.command(delete, at(13)).await.unwrap(), CommandResult::Applied(1));
    assert_eq!(rows_of(&other, "punctual_history"), 0);
}

#[tokio::test]
async fn a_lease_that_is_shown_twice_in_one_call_settles_once() {
    let f = Fixture::new();
    let storage = f.open().await;
    storage.enqueue(f.entries(100), at(0)).await.unwrap();
    let claimed = claim(&storage, f.process(), 100).await;
    let settlements = claimed.iter().chain(&claimed).map(|one| at_once(&f, one)).collect();
    let settled = settle(&storage, settlements).await;
    assert_eq!(settled[..100], [SettleResult::Applied; 100]);
    assert_eq!(settled[100..], [SettleResult::Lost; 100]);
    storage.enqueue(f.entries(50), at(0)).await.unwrap();
    let claimed = claim(&storage, f.process(), 50).await;
    let settlements = claimed.iter().flat_map(|one| [at_once(&f, one), at_once(&f, one)]).collect();
    let settled = settle(&storage, settlements).await;
    assert_eq!(settled, [SettleResult::Applied, SettleResult::Lost].repeat(50));
    let other = f.other_connection();
    assert_eq!(rows_of(&other, "punctual_history"), 150);
    assert_eq!(rows_of(&other, "punctual_message"), 0);
    assert_eq!(storage.check().await.unwrap().findings, Vec::<String>::new());
}

#[tokio::test]
async fn a_settlement_that_does_not_fit_the_batch_blocks_no_other() {
    let f = Fixture::new();
    let storage = f.open().await;
    storage.enqueue(f.entries(200), at(0)).await.unwrap();
    let claimed = claim(&storage, f.process(), 200).await;
    let mut settlements: Vec<Settlement> = claimed.iter().map(|one| at_once(&f, one)).collect();
    settlements[3].lease.token += 1_000; // not the current one
    let known = Arc::clone(settlements[20].execution.as_ref().unwrap());
    settlements[40].execution = Some(Arc::new(Execution {
        id: known.id, // there already
        ..settlements[40].execution.as_deref().unwrap().clone()
    }));
    settlements[60] = f.settlement(&claimed[60], Verdict::Done); // ended long before
    settlements[80].execution = None;
    settlements[100].execution.as_mut().map(Arc::make_mut).unwrap().attempt = 7; // another attempt than claimed
    settlements[120].verdict = Verdict::Cancelled;
    let dead = Verdict::Dead { reason: DeadReason::Discarded, error: None };
    settlements[140].verdict = dead;
    let settled = settle(&storage, settlements.clone()).await;
    assert_eq!(settled[3], SettleResult::Lost);
    assert_eq!(settled.iter().filter(|one| **one == SettleResult::Applied).count(), 199);
    for (number, (settlement, claimed)) in settlements.iter().zip(&claimed).enumerate() {
        let wanted = match number {
            3 => MessageState::Running,
            120 => MessageState::Cancelled,
            140 => MessageState::Dead,
            _ => MessageState::Done,
        };
        let id = claimed.message.id;
        let record = storage.message(id).await.unwrap().unwrap();
        assert_eq!((&record.message, record.state), (&claimed.message, wanted), "{number}");
        let written = settlement.execution.iter().filter(|_| ![3, 40].contains(&number));
        let written: Vec<Execution> = written.map(|one| (**one).clone()).collect();
        assert_eq!(executions_of(&storage, id).await, written, "{number}");
    }
    assert_eq!(storage.check().await.unwrap().findings, Vec::<String>::new());
}

/// Returns ids and instants within a few minutes, the same in every run.
struct RandomTimes {
    random: u64,
}

const START: i64 = 1_700_000_000_000_000;

impl RandomTimes {
    fn below(&mut self, limit: i64) -> i64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        i64::try_from(self.random >> 33).unwrap() % limit
    }

    fn instant(&mut self) -> Timestamp {
        Timestamp::from_microsecond(START + self.below(20_000_000)).unwrap()
    }

    /// Created within a second before an instant, long before it, after it, or at an unknown time.
    fn id(&mut self, ended_at: Timestamp) -> ExecutionId {
        let off = [0, 0, self.below(1_000), self.below(1_100), self.below(9_000), -1_500];
        let index = usize::try_from(self.below(7)).unwrap();
        let random = u128::from(self.random) << 64 | u128::from(self.random);
        let id = off.get(index).map_or(random, |off| {
            let millisecond = u128::try_from(ended_at.as_millisecond() - off).unwrap();
            millisecond << 80 | random >> 48
        });
        ExecutionId::from_uuid(Uuid::from_u128(id))
    }
}

/// Finishes a message, in another second than its attempt or in the same instant; or cancels it.
async fn finish<S: Storage>(storage: &S, f: &Fixture, number: i64, times: &mut RandomTimes) {
    let message = f.due(at(number));
    let (id, queue, owner) = (message.id, message.queue.clone(), f.process());
    storage.enqueue(vec![message.into()], at(0)).await.unwrap();
    let ended_at = times.instant();
    if number % 5 == 0 {
        storage.command(Command::Cancel(id), ended_at).await.unwrap();
        return;
    }
    let claim = Claim::new(queue, owner, 1, at(i64::from(u32::MAX)));
    let claimed = storage.claim(claim, ended_at).await.unwrap().remove(0);
    let verdict = if number % 7 == 0 { Verdict::Cancelled } else { Verdict::Done };
    let settlement = f.settlement(&claimed, verdict);
    let execution = settlement.execution.as_deref().unwrap().clone();
    let execution = Execution { id: times.id(ended_at), ended_at, ..execution };
    let settlement = Settlement { execution: Some(Arc::new(execution)), ..settlement };
    let late = Duration::from_millis(if number % 3 == 0 { 1_500 } else { 0 });
    let settled = storage.settle(vec![settlement], add(ended_at, late)).await.unwrap();
    assert_eq!(settled, [SettleResult::Applied]);
}

async fn prune<S: Storage>(storage: &S, before: Timestamp, limit: usize) -> PruneResult {
    let mut all = PruneResult::default();
    loop {
        let some = storage.prune(Prune { before, limit, dead: false }, before).await.unwrap();
        assert!(some.messages <= limit as u64 && some.executions <= limit as u64);
        if some == PruneResult::default() {
            return all;
        }
        all.messages += some.messages;
        all.executions += some.executions;
    }
}

// spec: H-17, H-18
#[tokio::test]
async fn rows_in_time_order_and_strayed_rows_are_counted_and_pruned_to_the_microsecond() {
    let memory = MemoryStorage::new(Arc::new(SystemClock));
    let (f, other) = (Fixture::new(), Fixture::new());
    let sqlite = f.builder().durability(Durability::Normal).open().await.unwrap();
    let (mut here, mut there) = (RandomTimes { random: 41 }, RandomTimes { random: 41 });
    for number in 0..400 {
        finish(&sqlite, &f, number, &mut here).await;
        finish(&memory, &other, number, &mut there).await;
    }
    let file = f.other_connection();
    for rows in ["strayed_at IS NULL", "strayed_at > 0", "state > 0 AND ending = 0"] {
        let count = rows_of(&file, &format!("punctual_history WHERE {rows}"));
        assert!(count > 50, "{count} rows with {rows}");
    }
    for round in 0..13 {
        let (since, bucket) = (here.instant(), Duration::from_millis(700));
        let counted = sqlite.throughput(since, bucket).await.unwrap();
        assert_eq!(counted, memory.throughput(since, bucket).await.unwrap());
        let before = Timestamp::from_microsecond(START + round * 1_900_137).unwrap();
        assert_eq!(prune(&sqlite, before, 7).await, prune(&memory, before, 1_000).await);
        assert_eq!(sqlite.check().await.unwrap().findings, Vec::<String>::new());
    }
    assert_eq!(rows_of(&file, "punctual_history"), 0);
}
