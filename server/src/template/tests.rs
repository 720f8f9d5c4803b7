//! Rendering and errors of templates.

use super::*;

fn facts() -> Facts {
    facts_in("UTC")
}

fn facts_in(zone: &str) -> Facts {
    let root = json!({
        "nominal": "2026-03-01T02:00:00Z",
        "window": {"start": "2026-02-28T02:00:00Z", "end": "2026-03-01T02:00:00Z"},
        "attempt": 2, "key": null, "job": "nightly", "message": "m1",
        "payload": {"name": "a \"b\"\n", "n": 7, "list": [1, {"x": true}], "at": "2026-01-02T00:00:00Z"},
    });
    Facts::from_json(root, zone)
}

fn rendered(text: &str, escape: Escape) -> String {
    Template::parse(text).unwrap().render(&facts(), escape).unwrap()
}

#[test]
fn names_are_replaced_by_values() {
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

// Regression: a job at 00:30 in Warsaw rendered the date of the day before.
#[test]
fn dates_use_the_zone_of_the_job_unless_another_is_named() {
    let mut facts = facts_in("Europe/Warsaw");
    facts.root["nominal"] = json!("2026-03-01T23:30:00Z");
    for (text, expected) in [
        ("{{ nominal | date:\"%Y-%m-%d %H:%M\" }}", "2026-03-02 00:30"),
        ("{{ nominal | date:\"%Y-%m-%d %H:%M\",\"UTC\" }}", "2026-03-01 23:30"),
        ("{{ nominal | date: \"%H:%M %Z\" , \"Asia/Tokyo\" }}", "08:30 JST"),
        ("{{ payload.at | date:\"%H:%M\" }}", "01:00"),
        ("{{ nominal }}", "2026-03-01T23:30:00Z"),
    ] {
        let rendered = Template::parse(text).unwrap().render(&facts, Escape::None);
        assert_eq!(rendered.unwrap(), expected, "{text}");
    }
}

#[test]
fn values_are_escaped_for_their_context() {
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
fn invalid_templates_are_refused_when_checked() {
    for (text, words) in [
        ("{{ nominel }}", "did you mean nominal?"),
        ("{{ env.HOME }}", "known names are nominal"),
        ("{{ payload. }}", "unknown name"),
        ("{{ nominal", "has no closing }}"),
        ("{{ nominal | upper }}", "known filters are json"),
        ("{{ nominal | date }}", "date:\"%Y-%m-%d\""),
        ("{{ nominal | date:\"%\" }}", "is invalid"),
        ("{{ nominal | date:\"%d\",\"Europe/Warsav\" }}", "Europe/Warsaw"),
        ("{{ nominal | date:\"%d\" or \"%m\" }}", "only a zone is allowed"),
        ("{{ attempt | date:\"%Y\" }}", "is not a time"),
        ("{{ }}", "unknown name"),
    ] {
        let error = Template::parse(text).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
    assert!(Template::parse(&"x".repeat(TEXT_BYTES_MAX + 1)).is_err());
    assert!(check_json(&json!({"a": ["{{ nope }}"]})).is_err());
}

#[test]
fn the_rendered_size_is_bounded() {
    let root = json!({"payload": "x".repeat(RENDERED_BYTES_MAX / 2)});
    let template = Template::parse("{{ payload }}{{ payload }}{{ payload }}").unwrap();
    assert!(template.render(&Facts::from_json(root, "UTC"), Escape::None).is_err());
}
