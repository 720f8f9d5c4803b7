//! The view as text.

use super::*;

#[test]
fn the_view_shows_queues_running_messages_and_next_runs() {
    let queue = json!({ "name": "mail", "ready": 3, "scheduled": 1, "running": 2, "dead": 4,
        "oldest_age_ms": 65_000, "rate": { "in_per_s": 1.25, "out_per_s": 0.0 }, "paused": { "by": "ada" } });
    let message = json!({ "id": "m1", "topic": "mail.send", "job": null, "phase": "running", "attempt": 1,
        "due_at": "2026-03-02T06:59:00Z", "progress": { "percent": 40, "note": "half" } });
    let job = json!({ "name": "nightly", "next_at": "2026-03-02T08:00:00Z", "word": "waiting",
        "in_words": "at 08:00" });
    let list = |one: Value| json!({ "items": [one] });
    let snapshot = Snapshot {
        target: "http://shop".to_owned(),
        now: "2026-03-02T07:00:00Z".parse().unwrap(),
        queues: list(queue),
        running: list(message),
        next: list(job),
        dead: list(json!({ "count": 4 })),
        error: None,
    };
    let text = text(&snapshot);
    let lines: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().collect()).collect();
    for expected in [
        "07:00:00Z http://shop ready 3 running 2 dead 4 q quits",
        "mail 3 1 2 4 1m 5s 1.2 0.0 paused",
        "mail.send running 1 1m ago m1 40 % half",
        "nightly in 1h waiting at 08:00",
    ] {
        assert!(
            lines.iter().any(|line| line.join(" ") == expected),
            "{expected} is not in\n{text}"
        );
    }
}
