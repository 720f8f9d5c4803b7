//! Full disk, simulated by a limit on the number of pages.

use punctual::backend::storage::{Command, EnqueueResult, Entry};
use punctual::{ErrorKind, Storage as _};

use crate::fixture::{Fixture, at, claim, rows_of};

#[tokio::test]
async fn a_full_disk_refuses_whole_batches_and_writes_continue_when_space_is_free_again() {
    let f = Fixture::new();
    let storage = f.builder().pages_max(200).open().await.unwrap();
    let mut kept: Vec<Entry> = Vec::new();
    let error = loop {
        let batch = f.entries(100);
        match storage.enqueue(batch.clone(), at(0)).await {
            Ok(_) => kept.extend(batch),
            Err(error) => break error,
        }
        assert!(kept.len() < 100_000, "the bound holds");
    };
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.is_temporary() && error.to_string().contains("no space left"), "{error}");
    let other = f.other_connection();
    assert_eq!(rows_of(&other, "punctual_message"), kept.len(), "nothing is half stored");

    let again = storage.enqueue(kept[..1].to_vec(), at(0)).await.unwrap();
    assert_eq!(again, [EnqueueResult::Duplicate(kept[0].message.id)], "what needs no room works");
    for entry in &kept[..kept.len() / 2] {
        storage.command(Command::Delete(entry.message.id), at(0)).await.unwrap();
    }
    let batch = f.entries(100);
    assert_eq!(storage.enqueue(batch, at(0)).await.unwrap(), [EnqueueResult::Stored; 100]);
    assert_eq!(claim(&storage, f.process(), 10).await.len(), 10);
}
