//! Documents: conditional writes, expiry, removal and size limits.

use punctual::ErrorKind;
use punctual::backend::documents::{
    BODY_BYTES_MAX, DOCUMENTS_MAX, Document, ExpectedVersion, KEY_LEN_MAX, KeyRange, NewDocument,
    PutResult, RemoveResult,
};
use punctual::serde_json::{Value, json};

use super::Fixture;
use super::fixture::{at, microsecond_before, together};

behaviours! {
    a_document_reads_back_as_it_was_written,
    versions_of_a_key_grow_by_one,
    a_put_with_another_expected_version_writes_nothing,
    of_many_puts_with_the_same_expected_version_one_succeeds,
    of_many_puts_of_a_new_document_one_succeeds,
    puts_that_expect_any_version_all_succeed,
    many_are_written_together_and_the_last_of_a_key_wins,
    batches_in_opposite_orders_all_succeed,
    a_document_is_gone_at_the_instant_it_expires,
    an_expired_document_is_replaced_by_a_new_one,
    expiring_is_bounded_and_leaves_the_rest,
    removing_checks_the_expected_version,
    of_many_removals_one_removes,
    values_out_of_bounds_are_refused,
    documents_survive_a_restart_of_a_durable_storage,
}

impl Fixture {
    async fn put(&self, key: &str, seen: ExpectedVersion) -> PutResult {
        self.documents.put(draft(key), seen, at(0)).await.unwrap()
    }

    async fn document(&self, key: &str, second: i64) -> Option<Document> {
        self.documents.get("user", key, at(second)).await.unwrap()
    }
}

fn draft(key: &str) -> NewDocument {
    NewDocument::new("user", key, json!({"name": key}))
}

pub async fn a_document_reads_back_as_it_was_written(f: Fixture) {
    let body = json!({
        "text": "ż \u{0} \u{1f600} ' \" \\", "b": [1, 2.5, null, true], "a": {"z": 1, "y": []},
        "large": u64::MAX, "small": i64::MIN, "": "",
    });
    let longest = "\u{1f600}".repeat(KEY_LEN_MAX);
    for (key, body) in [("ada", body), (&*longest, Value::Null), (" a'b\"c%_\\ ", json!("x"))] {
        let draft = NewDocument::new("user", key, body.clone()).expires_at(at(60));
        assert_eq!(
            f.documents.put(draft, ExpectedVersion::New, at(1)).await.unwrap(),
            PutResult::Stored(1)
        );
        let document = Document {
            kind: "user".to_owned(),
            key: key.to_owned(),
            version: 1,
            body,
            updated_at: at(1),
            expires_at: Some(at(60)),
        };
        assert_eq!(f.document(key, 2).await, Some(document));
    }
    for (kind, key) in [("User", "ada"), ("user", "Ada"), ("user", "ada "), ("token", "ada")] {
        assert_eq!(f.documents.get(kind, key, at(2)).await.unwrap(), None, "{kind} {key}");
    }
    let most = NewDocument::new("user", "most", json!("x".repeat(BODY_BYTES_MAX - 2)));
    assert_eq!(
        f.documents.put(most.clone(), ExpectedVersion::Any, at(1)).await.unwrap(),
        PutResult::Stored(1)
    );
    assert_eq!(f.document("most", 2).await.unwrap().body, most.body);
}

pub async fn versions_of_a_key_grow_by_one(f: Fixture) {
    assert_eq!(f.put("ada", ExpectedVersion::Any).await, PutResult::Stored(1));
    assert_eq!(f.put("ada", ExpectedVersion::Version(1)).await, PutResult::Stored(2));
    assert_eq!(f.put("ada", ExpectedVersion::Any).await, PutResult::Stored(3));
    f.documents.put_all(vec![draft("ada"), draft("bob")], at(9)).await.unwrap();
    let ada = f.document("ada", 9).await.unwrap();
    assert_eq!((ada.version, ada.updated_at), (4, at(9)));
    assert_eq!(f.put("bob", ExpectedVersion::Version(1)).await, PutResult::Stored(2));
}

pub async fn a_put_with_another_expected_version_writes_nothing(f: Fixture) {
    assert_eq!(f.put("ada", ExpectedVersion::Version(1)).await, PutResult::Raced(None));
    assert_eq!(f.document("ada", 0).await, None);
    assert_eq!(f.put("ada", ExpectedVersion::New).await, PutResult::Stored(1));
    let before = f.document("ada", 0).await;
    let other = || NewDocument::new("user", "ada", json!("other")).expires_at(at(5));
    for seen in [
        ExpectedVersion::New,
        ExpectedVersion::Version(0),
        ExpectedVersion::Version(2),
        ExpectedVersion::Version(u64::MAX),
    ] {
        let put = f.documents.put(other(), seen, at(1)).await.unwrap();
        assert_eq!(put, PutResult::Raced(Some(1)), "{seen:?}");
    }
    assert_eq!(f.document("ada", 9).await, before);
}

async fn raced(f: &Fixture, seen: ExpectedVersion) -> Vec<PutResult> {
    let nodes = f.nodes(4).await.into_iter().cycle().take(12).collect();
    together(nodes, move |node| async move { node.put("ada", seen).await }).await
}

pub async fn of_many_puts_with_the_same_expected_version_one_succeeds(f: Fixture) {
    assert_eq!(f.put("ada", ExpectedVersion::New).await, PutResult::Stored(1));
    let results = raced(&f, ExpectedVersion::Version(1)).await;
    assert_eq!(
        results.iter().filter(|put| **put == PutResult::Stored(2)).count(),
        1,
        "{results:?}"
    );
    assert_eq!(results.iter().filter(|put| **put == PutResult::Raced(Some(2))).count(), 11);
}

/// Also when an expired document with this key is stored.
pub async fn of_many_puts_of_a_new_document_one_succeeds(f: Fixture) {
    for second in [-1, 0] {
        let expired = draft("ada").expires_at(at(second));
        assert_eq!(
            f.documents.put(expired, ExpectedVersion::Any, at(-9)).await.unwrap(),
            PutResult::Stored(1)
        );
        let results = raced(&f, ExpectedVersion::New).await;
        assert_eq!(
            results.iter().filter(|put| **put == PutResult::Stored(1)).count(),
            1,
            "{results:?}"
        );
        assert_eq!(results.iter().filter(|put| **put == PutResult::Raced(Some(1))).count(), 11);
        assert_eq!(
            f.documents.remove("user", "ada", ExpectedVersion::Any).await.unwrap(),
            RemoveResult::Removed
        );
    }
}

pub async fn puts_that_expect_any_version_all_succeed(f: Fixture) {
    let mut versions: Vec<u64> = raced(&f, ExpectedVersion::Any)
        .await
        .into_iter()
        .map(|put| match put {
            PutResult::Stored(version) => version,
            PutResult::Raced(_) => 0,
        })
        .collect();
    versions.sort_unstable();
    assert_eq!(versions, (1..=12).collect::<Vec<_>>());
}

pub async fn many_are_written_together_and_the_last_of_a_key_wins(f: Fixture) {
    let mut drafts: Vec<NewDocument> =
        (0..DOCUMENTS_MAX - 1).map(|number| draft(&format!("{number:04}"))).collect();
    drafts.push(NewDocument::new("user", "0000", json!("last")));
    f.documents.put_all(drafts, at(0)).await.unwrap();
    let all = f.documents.list("user", KeyRange::default(), at(0)).await.unwrap();
    assert_eq!(all.len(), DOCUMENTS_MAX - 1);
    assert_eq!((all[0].version, &all[0].body), (1, &json!("last")));
    f.documents.put_all(Vec::new(), at(0)).await.unwrap();

    let too_long = draft(&"x".repeat(KEY_LEN_MAX + 1));
    let error = f.documents.put_all(vec![draft("new"), too_long], at(0)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(f.document("new", 0).await, None, "all or none");
}

pub async fn batches_in_opposite_orders_all_succeed(f: Fixture) {
    let nodes = f.nodes(4).await.into_iter().cycle().take(8).enumerate();
    let tasks: Vec<_> = nodes
        .map(|(number, node)| {
            tokio::spawn(async move {
                let mut drafts: Vec<NewDocument> =
                    (0..50).map(|key| draft(&format!("{key:02}"))).collect();
                if number % 2 == 0 {
                    drafts.reverse();
                }
                node.documents.put_all(drafts, at(0)).await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let all = f.documents.list("user", KeyRange::default(), at(0)).await.unwrap();
    assert_eq!(all.iter().map(|one| one.version).collect::<Vec<_>>(), [8; 50]);
}

pub async fn a_document_is_gone_at_the_instant_it_expires(f: Fixture) {
    let put = f.documents.put(draft("ada").expires_at(at(10)), ExpectedVersion::New, at(0)).await;
    assert_eq!(put.unwrap(), PutResult::Stored(1));
    let last = microsecond_before(at(10));
    assert!(f.documents.get("user", "ada", last).await.unwrap().is_some());
    assert_eq!(f.documents.list("user", KeyRange::default(), last).await.unwrap().len(), 1);
    assert_eq!(f.documents.expire(100, last).await.unwrap(), 0);
    let raced = f.documents.put(draft("ada"), ExpectedVersion::New, last).await.unwrap();
    assert_eq!(raced, PutResult::Raced(Some(1)));

    assert_eq!(f.document("ada", 10).await, None);
    assert_eq!(f.documents.list("user", KeyRange::default(), at(10)).await.unwrap(), []);
    let raced = f.documents.put(draft("ada"), ExpectedVersion::Version(1), at(10)).await.unwrap();
    assert_eq!(raced, PutResult::Raced(None));
    assert_eq!(f.documents.expire(100, at(10)).await.unwrap(), 1);
    assert_eq!(f.documents.expire(100, at(10)).await.unwrap(), 0);
    assert_eq!(
        f.documents.remove("user", "ada", ExpectedVersion::Any).await.unwrap(),
        RemoveResult::Absent
    );
}

pub async fn an_expired_document_is_replaced_by_a_new_one(f: Fixture) {
    for seen in [ExpectedVersion::Any, ExpectedVersion::New] {
        for _ in 0..3 {
            let put =
                f.documents.put(draft("ada").expires_at(at(10)), ExpectedVersion::Any, at(0)).await;
            assert!(matches!(put.unwrap(), PutResult::Stored(_)));
        }
        assert_eq!(
            f.documents.put(draft("ada"), seen, at(10)).await.unwrap(),
            PutResult::Stored(1)
        );
        let document = f.document("ada", 1_000).await.unwrap();
        assert_eq!((document.version, document.expires_at), (1, None));
        assert_eq!(f.documents.expire(100, at(1_000)).await.unwrap(), 0, "it no longer expires");
        assert_eq!(
            f.documents.remove("user", "ada", ExpectedVersion::Any).await.unwrap(),
            RemoveResult::Removed
        );
    }
    let expired = draft("bob").expires_at(at(10));
    f.documents.put_all(vec![expired], at(0)).await.unwrap();
    f.documents.put_all(vec![draft("bob")], at(10)).await.unwrap();
    assert_eq!(f.document("bob", 10).await.unwrap().version, 1);
}

pub async fn expiring_is_bounded_and_leaves_the_rest(f: Fixture) {
    let mut drafts: Vec<NewDocument> =
        (0..5).map(|second| draft(&second.to_string()).expires_at(at(second))).collect();
    drafts.extend([draft("later").expires_at(at(1_000)), draft("ever")]);
    f.documents.put_all(drafts, at(-1)).await.unwrap();
    let mut expired = Vec::new();
    for _ in 0..4 {
        expired.push(f.documents.expire(2, at(100)).await.unwrap());
    }
    assert_eq!(expired, [2, 2, 1, 0]);
    let left = f.documents.list("user", KeyRange::default(), at(-1)).await.unwrap();
    assert_eq!(left.iter().map(|one| &*one.key).collect::<Vec<_>>(), ["ever", "later"]);
}

pub async fn removing_checks_the_expected_version(f: Fixture) {
    let remove = |seen| f.documents.remove("user", "ada", seen);
    for seen in [ExpectedVersion::Any, ExpectedVersion::New, ExpectedVersion::Version(1)] {
        assert_eq!(remove(seen).await.unwrap(), RemoveResult::Absent, "{seen:?}");
    }
    assert_eq!(f.put("ada", ExpectedVersion::New).await, PutResult::Stored(1));
    assert_eq!(f.put("ada", ExpectedVersion::Any).await, PutResult::Stored(2));
    for seen in
        [ExpectedVersion::New, ExpectedVersion::Version(1), ExpectedVersion::Version(u64::MAX)]
    {
        assert_eq!(remove(seen).await.unwrap(), RemoveResult::Raced(2), "{seen:?}");
    }
    let elsewhere = f.documents.remove("token", "ada", ExpectedVersion::Any).await.unwrap();
    assert_eq!(elsewhere, RemoveResult::Absent);
    assert_eq!(remove(ExpectedVersion::Version(2)).await.unwrap(), RemoveResult::Removed);
    assert_eq!(f.document("ada", 0).await, None);
    assert_eq!(
        f.put("ada", ExpectedVersion::New).await,
        PutResult::Stored(1),
        "versions begin again"
    );
    assert_eq!(remove(ExpectedVersion::Any).await.unwrap(), RemoveResult::Removed);
}

pub async fn of_many_removals_one_removes(f: Fixture) {
    assert_eq!(f.put("ada", ExpectedVersion::New).await, PutResult::Stored(1));
    let nodes = f.nodes(4).await.into_iter().cycle().take(12).collect();
    let results = together(nodes, |node| async move {
        node.documents.remove("user", "ada", ExpectedVersion::Version(1)).await.unwrap()
    })
    .await;
    assert_eq!(
        results.iter().filter(|one| **one == RemoveResult::Removed).count(),
        1,
        "{results:?}"
    );
    assert_eq!(results.iter().filter(|one| **one == RemoveResult::Absent).count(), 11);
}

pub async fn values_out_of_bounds_are_refused(f: Fixture) {
    let documents = &f.documents;
    let invalid = |error: punctual::Error| assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let too_long = "x".repeat(KEY_LEN_MAX + 1);
    for name in ["", "a\u{0}b", "a\nb", "\u{9f}", &too_long] {
        for (kind, key) in [(name, "ada"), ("user", name)] {
            let draft = NewDocument::new(kind, key, Value::Null);
            invalid(documents.put(draft.clone(), ExpectedVersion::Any, at(0)).await.unwrap_err());
            invalid(documents.put_all(vec![draft], at(0)).await.unwrap_err());
            invalid(documents.get(kind, key, at(0)).await.unwrap_err());
            invalid(documents.remove(kind, key, ExpectedVersion::Any).await.unwrap_err());
        }
        invalid(documents.list(name, KeyRange::default(), at(0)).await.unwrap_err());
    }
    for text in ["a\u{0}b", &too_long] {
        let after = KeyRange { after: Some(text.to_owned()), ..KeyRange::default() };
        for range in [KeyRange::prefix(text), after] {
            invalid(documents.list("user", range, at(0)).await.unwrap_err());
        }
    }
    let large = NewDocument::new("user", "ada", json!("x".repeat(BODY_BYTES_MAX)));
    invalid(documents.put(large, ExpectedVersion::Any, at(0)).await.unwrap_err());
    let many = (0..=DOCUMENTS_MAX).map(|number| draft(&number.to_string())).collect();
    invalid(documents.put_all(many, at(0)).await.unwrap_err());
    assert_eq!(documents.list("user", KeyRange::default(), at(0)).await.unwrap(), []);
}

pub async fn documents_survive_a_restart_of_a_durable_storage(f: Fixture) {
    assert_eq!(f.put("ada", ExpectedVersion::New).await, PutResult::Stored(1));
    assert_eq!(f.put("ada", ExpectedVersion::Any).await, PutResult::Stored(2));
    let before = f.document("ada", 0).await;
    let f = if f.storage.is_durable() { f.reopen().await } else { f };
    assert_eq!(f.document("ada", 0).await, before);
    assert_eq!(f.put("ada", ExpectedVersion::Version(2)).await, PutResult::Stored(3));
}
