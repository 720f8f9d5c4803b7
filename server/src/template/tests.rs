//! What templates say, and what they refuse.

use super::*;

fn facts() -> Facts {
    Facts::from_json(json!({
        "nominal": "2026-03-01T02:00:00Z",
        "window": {"start": "2026-02-28T02:00:00Z", "end": "2026-03-01T02:00:00Z"},
        "attempt": 2, "key": null, "job": "nightly", "message": "m1",
        "payload": {"name": "a \"b\"\n", "n": 7, "list": [1, {"x": true}], "at": "2026-01-02T00:00:00Z"},
    }))
}

fn rendered(text: &str, escape: Escape) -> String {
    Template::parse(text).unwrap().render(&facts(), escape).unwrap()
}

#[test]
fn names_become_values() {
    for (text, expected) in [
        ("plain", "plain"),
        ("{{ nominal }}", "2026-03-01T02:00:00Z"),
        ("{{nominal|date:\"%Y-%m-%d\"}}", "2026-03-01"),
        ("{{ window.start | date: \"%d.%m.\" }}-{{ window.end }}", "28.02.-2026-03-01T02:00:00Z"),
        ("{{ job }}/{{ attempt }}/{{ message }}", "nightly/2/m1"),
        ("<{{ key }}>", "<>"),
        ("{{ payload.n }} {{ payload.list.1.x }} {{ payload.none.at.all }}.", "7 true ."),
        ("{{ payload.list | json }}", "[1,{\"x\":true}]"),
        ("{{ payload.at | date:\"%j\" }}", "002"),
        ("{{ \"{{ }}\" }}", "{{ }}"),
        ("a } b { c", "a } b { c"),
    ] {
        assert_eq!(rendered(text, Escape::None), expected, "{text}");
    }
}

#[test]
fn values_are_escaped_for_where_they_stand() {
    assert_eq!(rendered("\"{{ payload.name }}\"", Escape::Json), r#""a \"b\"\n""#);
    assert_eq!(rendered("{{ payload.name | json }}", Escape::Json), r#""a \"b\"\n""#);
    assert_eq!(rendered("?q={{ payload.name }}", Escape::Url), "?q=a%20%22b%22%0A");
}

#[test]
fn a_json_body_keeps_its_types() {
    let body = json!({"n": "{{ payload.n }}", "key": "{{ key }}", "text": "n={{ payload.n }}", "x": [true, "{{ job }}"]});
    let expected = json!({"n": 7, "key": null, "text": "n=7", "x": [true, "nightly"]});
    assert_eq!(render_json(&body, &facts()).unwrap(), expected);
}

#[test]
fn what_cannot_be_meant_is_refused_when_it_is_checked() {
    for (text, words) in [
        ("{{ nominel }}", "did you mean nominal?"),
        ("{{ env.HOME }}", "known are nominal"),
        ("{{ payload. }}", "knows no"),
        ("{{ nominal", "has no }}"),
        ("{{ nominal | upper }}", "known are json"),
        ("{{ nominal | date }}", "date:\"%Y-%m-%d\""),
        ("{{ nominal | date:\"%\" }}", "cannot be used"),
        ("{{ attempt | date:\"%Y\" }}", "is no time"),
        ("{{ }}", "knows no"),
    ] {
        let error = Template::parse(text).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
    assert!(Template::parse(&"x".repeat(TEXT_BYTES_MAX + 1)).is_err());
    assert!(check_json(&json!({"a": ["{{ nope }}"]})).is_err());
}

#[test]
fn what_comes_of_one_is_bounded() {
    let root = json!({"payload": "x".repeat(RENDERED_BYTES_MAX / 2)});
    let template = Template::parse("{{ payload }}{{ payload }}{{ payload }}").unwrap();
    assert!(template.render(&Facts::from_json(root), Escape::None).is_err());
}
