//! Lists of documents: ordered by key on every storage, selected by key prefix, in pages.

use punctual::backend::documents::{
    DOCUMENTS_MAX, ExpectedVersion, KeyRange, NewDocument, PutResult,
};
use punctual::serde_json::{Value, json};

use super::Fixture;
use super::fixture::at;

behaviours! {
    keys_are_in_the_order_of_their_bytes,
    a_prefix_has_no_wildcards,
    a_prefix_ends_where_its_characters_end,
    pages_follow_each_other_in_both_directions,
    after_may_be_an_absent_key,
    expired_documents_do_not_count_for_a_page,
    a_list_is_bounded,
    kinds_do_not_see_each_other,
}

/// Keys in the order of their bytes, which differs from every language's collation.
const KEYS: [&str; 12] =
    [" ", "%", "-a", "A", "Z", "_", "a", "a b", "aa", "é", "\u{FFFD}", "\u{1F600}"];

impl Fixture {
    async fn put_documents(&self, keys: &[&str]) {
        let drafts =
            keys.iter().rev().map(|key| NewDocument::new("view", *key, json!(key))).collect();
        self.documents.put_all(drafts, at(0)).await.unwrap();
    }

    async fn keys(&self, range: KeyRange) -> Vec<String> {
        let documents = self.documents.list("view", range, at(0)).await.unwrap();
        documents
            .into_iter()
            .map(|document| {
                assert_eq!(document.body, json!(document.key));
                document.key
            })
            .collect()
    }
}

fn backwards(range: KeyRange) -> KeyRange {
    KeyRange { descending: true, ..range }
}

pub async fn keys_are_in_the_order_of_their_bytes(f: Fixture) {
    f.put_documents(&KEYS).await;
    assert_eq!(f.keys(KeyRange::default()).await, KEYS);
    let mut reversed = KEYS;
    reversed.reverse();
    assert_eq!(f.keys(backwards(KeyRange::default())).await, reversed);
}

pub async fn a_prefix_has_no_wildcards(f: Fixture) {
    f.put_documents(&["%", "%a", "_", "_a", "a", "a%", "a%b", "a\\%b", "a_", "a_b", "ab", "axb"])
        .await;
    for (prefix, found) in [
        ("%", &["%", "%a"][..]),
        ("_", &["_", "_a"]),
        ("a%", &["a%", "a%b"]),
        ("a_", &["a_", "a_b"]),
        ("a\\", &["a\\%b"]),
        ("a*", &[]),
    ] {
        assert_eq!(f.keys(KeyRange::prefix(prefix)).await, found, "{prefix}");
    }
    assert_eq!(f.keys(KeyRange::prefix("")).await.len(), 12);
}

pub async fn a_prefix_ends_where_its_characters_end(f: Fixture) {
    let keys =
        ["B", "a", "a\u{D7FF}", "a\u{E000}", "a\u{10FFFF}", "a\u{10FFFF}x", "b", "\u{10FFFF}"];
    f.put_documents(&keys).await;
    assert_eq!(f.keys(KeyRange::prefix("a")).await, keys[1..6]);
    assert_eq!(f.keys(KeyRange::prefix("a\u{D7FF}")).await, keys[2..3]);
    assert_eq!(f.keys(KeyRange::prefix("a\u{10FFFF}")).await, keys[4..6]);
    assert_eq!(f.keys(KeyRange::prefix("\u{10FFFF}")).await, keys[7..]);
    let mut reversed = keys[1..6].to_vec();
    reversed.reverse();
    assert_eq!(f.keys(backwards(KeyRange::prefix("a"))).await, reversed);
}

pub async fn pages_follow_each_other_in_both_directions(f: Fixture) {
    f.put_documents(&KEYS).await;
    for descending in [false, true] {
        for prefix in [None, Some("a".to_owned())] {
            let whole = KeyRange { prefix, descending, ..KeyRange::default() };
            let expected = f.keys(whole.clone()).await;
            let mut seen = Vec::new();
            for _ in 0..=KEYS.len() {
                let after = seen.last().cloned();
                let page = f.keys(KeyRange { after, limit: 2, ..whole.clone() }).await;
                if page.is_empty() {
                    break;
                }
                seen.extend(page);
            }
            assert_eq!(seen, expected, "{whole:?}");
        }
    }
}

pub async fn after_may_be_an_absent_key(f: Fixture) {
    f.put_documents(&["a1", "a2", "b1"]).await;
    let range = |prefix: &str, after: &str| KeyRange {
        after: Some(after.to_owned()),
        ..KeyRange::prefix(prefix)
    };
    assert_eq!(f.keys(range("", "a11")).await, ["a2", "b1"]);
    assert_eq!(f.keys(backwards(range("", "a11"))).await, ["a1"]);
    assert_eq!(f.keys(range("a", "A")).await, ["a1", "a2"]);
    assert_eq!(f.keys(range("a", "b")).await, [""; 0]);
    assert_eq!(f.keys(backwards(range("a", "b1"))).await, ["a2", "a1"]);
    assert_eq!(f.keys(backwards(range("b", "a2"))).await, [""; 0]);
    assert_eq!(f.keys(range("", "")).await, ["a1", "a2", "b1"]);
}

pub async fn expired_documents_do_not_count_for_a_page(f: Fixture) {
    let drafts = (0..10).map(|number| {
        let draft = NewDocument::new("view", format!("{number}"), json!(format!("{number}")));
        if number % 3 == 2 { draft } else { draft.expires_at(at(0)) }
    });
    f.documents.put_all(drafts.collect(), at(-1)).await.unwrap();
    assert_eq!(f.keys(KeyRange { limit: 2, ..KeyRange::default() }).await, ["2", "5"]);
    let back = backwards(KeyRange { limit: 2, ..KeyRange::default() });
    assert_eq!(f.keys(back).await, ["8", "5"]);
}

pub async fn a_list_is_bounded(f: Fixture) {
    for part in ["a", "b"] {
        let drafts = (0..600)
            .map(|number| NewDocument::new("view", format!("{part}{number:03}"), Value::Null));
        f.documents.put_all(drafts.collect(), at(0)).await.unwrap();
    }
    let range = KeyRange { limit: usize::MAX, ..KeyRange::default() };
    let found = f.documents.list("view", range, at(0)).await.unwrap();
    assert_eq!(found.len(), DOCUMENTS_MAX);
    assert_eq!(found[999].key, "b399");
}

pub async fn kinds_do_not_see_each_other(f: Fixture) {
    f.put_documents(&["a", "b"]).await;
    for kind in ["vie", "views", "View", "vie%"] {
        assert_eq!(f.documents.list(kind, KeyRange::default(), at(0)).await.unwrap(), []);
        let other = NewDocument::new(kind, "a", json!("other"));
        assert_eq!(
            f.documents.put(other, ExpectedVersion::New, at(0)).await.unwrap(),
            PutResult::Stored(1)
        );
    }
    assert_eq!(f.keys(KeyRange::default()).await, ["a", "b"]);
}
