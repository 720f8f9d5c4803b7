//! Tests of bounds, spans and expected versions.

use serde_json::json;

use super::*;
use crate::error::ErrorKind;

fn draft(kind: &str, key: &str) -> NewDocument {
    NewDocument::new(kind, key, json!({"a": 1}))
}

#[test]
fn names_and_bodies_are_bounded_by_characters_and_bytes() {
    let longest = "ü".repeat(KEY_LEN_MAX);
    assert_eq!(Document::check(&draft(&longest, &longest)).unwrap(), r#"{"a":1}"#);
    let too_long = "ü".repeat(KEY_LEN_MAX + 1);
    for name in ["", "a\nb", "\u{0}", "\u{85}", &too_long] {
        for refused in [draft(name, "key"), draft("kind", name)] {
            assert_eq!(Document::check(&refused).unwrap_err().kind(), ErrorKind::Invalid);
        }
    }
    // The quotes count.
    let body = |length: usize| NewDocument::new("kind", "key", json!("x".repeat(length - 2)));
    assert_eq!(Document::check(&body(BODY_BYTES_MAX)).unwrap().len(), BODY_BYTES_MAX);
    let error = Document::check(&body(BODY_BYTES_MAX + 1)).unwrap_err();
    assert!(error.to_string().contains("262145 bytes"), "{error}");
}

#[test]
fn drafts_are_ordered_by_key_and_the_last_of_a_key_counts() {
    let drafts = vec![
        draft("b", "1"),
        draft("a", "2"),
        NewDocument::new("a", "1", json!(1)),
        NewDocument::new("a", "1", json!(2)),
    ];
    let checked = NewDocument::check_all(drafts).unwrap();
    let rows: Vec<_> =
        checked.iter().map(|(draft, body)| (&*draft.kind, &*draft.key, &**body)).collect();
    assert_eq!(rows, [("a", "1", "2"), ("a", "2", r#"{"a":1}"#), ("b", "1", r#"{"a":1}"#)]);
    let many = (0..=DOCUMENTS_MAX).map(|_| draft("a", "1")).collect();
    assert_eq!(NewDocument::check_all(many).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn a_span_contains_exactly_the_keys_of_a_prefix() {
    let holds = |prefix: &str, key: &str| {
        KeyRange::prefix(prefix).span().unwrap().contains(&key.to_owned())
    };
    let last = String::from(char::MAX).repeat(KEY_LEN_MAX);
    assert!(holds("", "a") && holds("", &last) && holds(&last, &last));
    assert!(holds("a", "a") && holds("a", "a\u{10FFFF}z") && !holds("a", "b") && !holds("a", "A"));
    // The last character before the surrogates, and one that has none behind it.
    assert!(holds("\u{D7FF}", "\u{D7FF}x") && !holds("\u{D7FF}", "\u{E000}"));
    assert!(holds("a\u{10FFFF}", "a\u{10FFFF}x") && !holds("a\u{10FFFF}", "b"));
    assert!(!holds("a%", "ab") && holds("a_", "a_b") && !holds("a_", "abb"));
}

#[test]
fn after_excludes_the_key_itself_in_both_directions() {
    let range = |descending| KeyRange {
        prefix: Some("a".to_owned()),
        after: Some("ab".to_owned()),
        descending,
        limit: 5,
    };
    let up = range(false).span().unwrap();
    assert!(!up.contains(&"ab".to_owned()) && up.contains(&"ab !".to_owned()));
    let down = range(true).span().unwrap();
    assert!(!down.contains(&"ab".to_owned()) && down.contains(&"aa".to_owned()));
    let beyond = KeyRange { after: Some("b".to_owned()), ..range(false) };
    assert!(beyond.span().unwrap().is_empty());
    let impossible = KeyRange { after: Some("\u{0}".to_owned()), ..range(false) };
    assert_eq!(impossible.span().unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(KeyRange { limit: 9_999, ..range(false) }.bounded(), DOCUMENTS_MAX);
}

#[test]
fn a_write_needs_the_expected_version() {
    assert_eq!(ExpectedVersion::Any.put(Some(4)), PutResult::Stored(5));
    assert_eq!(ExpectedVersion::New.put(None), PutResult::Stored(1));
    assert_eq!(ExpectedVersion::New.put(Some(4)), PutResult::Raced(Some(4)));
    assert_eq!(ExpectedVersion::Version(4).put(Some(4)), PutResult::Stored(5));
    assert_eq!(ExpectedVersion::Version(4).put(None), PutResult::Raced(None));
    assert_eq!(ExpectedVersion::Any.remove(Some(4)), RemoveResult::Removed);
    assert_eq!(ExpectedVersion::New.remove(Some(4)), RemoveResult::Raced(4));
    assert_eq!(ExpectedVersion::Version(3).remove(Some(4)), RemoveResult::Raced(4));
    assert_eq!(ExpectedVersion::Version(3).remove(None), RemoveResult::Absent);
}
