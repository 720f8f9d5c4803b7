//! Messages, dead letters and queues over the API, on every storage.

use serde_json::{Value, json};

use crate::transcript::Transcript;
use crate::work;

async fn publish(transcript: &mut Transcript, request: Value) -> String {
    let made = transcript.ask("POST /messages", request, 201).await;
    made["id"].as_str().unwrap().to_owned()
}

pub(crate) async fn published(transcript: &mut Transcript) {
    let first = json!({"topic": "mail", "json": {"to": "ada"}, "key": "otto", "queue": "slow",
        "headers": {"tenant": "a"}, "priority": 8, "delay": "1h"});
    let first = publish(transcript, first).await;
    transcript.later(1);
    let once = json!({"topic": "mail", "text": "hello", "dedupe": "d1"});
    let second = publish(transcript, once.clone()).await;
    let again = transcript.ask("POST /messages", once.clone(), 200).await;
    assert_eq!((&again["id"], &again["duplicate_of"]), (&json!(second), &json!(second)));
    transcript.later(1);
    let items = json!({"items": [{"topic": "post"}, {"topic": "post", "base64": "/wA="}, {"topic": "mail"}]});
    transcript.ask("POST /messages/batch", items, 201).await;
    // No random id contains letters after f.
    for query in
        ["", "?topic=mail", "?queue=slow", "?state=pending&limit=2", "?search=OTTO", "?key=otto"]
    {
        transcript.get(&format!("/messages{query}")).await;
        transcript.get(&format!("/messages/count{query}")).await;
    }
    let page = transcript.get("/messages?limit=2").await;
    transcript.get(&format!("/messages?limit=2&after={}", page["next"].as_str().unwrap())).await;
    transcript.get(&format!("/messages/{first}")).await;
    // Ids of one millisecond are not ordered between a request with a key and others.
    transcript.later(1);
    let key = [("idempotency-key", "k1")];
    for _ in 0..2 {
        transcript.ask_with("POST /messages", &key, json!({"topic": "once"}), 201).await;
    }
    transcript.later(1);
    transcript.ask_with("POST /messages", &key, json!({"topic": "twice"}), 422).await;
    transcript.get("/messages/count?topic=once").await;
    transcript
        .ask(&format!("POST /messages/{first}/reschedule"), json!({"delay": "2h"}), 200)
        .await;
    let urgent = json!({"queue": "slow", "priority": 8});
    transcript.ask(&format!("POST /messages/{first}/reassign"), urgent, 200).await;
    transcript.get(&format!("/messages/{first}")).await;
    transcript
        .ask(&format!("POST /messages/{second}/cancel"), json!({"reason": "a test"}), 200)
        .await;
    transcript.ask(&format!("POST /messages/{second}/reassign"), json!({"priority": 1}), 409).await;
    transcript.ask(&format!("POST /messages/{second}/cancel"), json!({}), 409).await;
    transcript.ask(&format!("POST /messages/{first}/clone"), json!({"delay": "3h"}), 201).await;
    let bulk = json!({"action": "reassign", "queue": "slow", "filter": {"state": "pending"}});
    transcript.ask("POST /messages/bulk", bulk, 200).await;
    transcript.get("/queues").await;
    let bulk = json!({"action": "cancel", "filter": {"topic": "post"}, "dry_run": true});
    transcript.ask("POST /messages/bulk", bulk, 200).await;
    let bulk = json!({"action": "cancel", "filter": {"topic": "post"}});
    transcript.ask("POST /messages/bulk", bulk, 200).await;
    transcript.ask("GET /messages/7", Value::Null, 400).await;
    transcript.get("/topics").await;
    transcript.get("/messages").await;
    transcript.get("/audit").await;
}

pub(crate) async fn dead(transcript: &mut Transcript) {
    for (topic, error) in
        [("mail", "order 17 is unknown"), ("mail", "order 22 is unknown"), ("post", "no stamp")]
    {
        publish(transcript, json!({"topic": topic, "queue": "slow"})).await;
        for claimed in work::claim(transcript, "slow", 10).await {
            work::dead_letter(transcript, &claimed, error).await;
        }
        transcript.later(60);
    }
    let groups = transcript.get("/dead-letters/groups").await;
    assert_eq!(groups["items"].as_array().unwrap().len(), 2);
    transcript.get("/dead-letters").await;
    transcript.get("/dead-letters?topic=post").await;
    let redrive = json!({"filter": {"topic": "mail"}, "dry_run": true});
    transcript.ask("POST /dead-letters/redrive", redrive, 200).await;
    let redrive = json!({"filter": {"topic": "mail"}, "limit": 1});
    transcript.ask("POST /dead-letters/redrive", redrive, 200).await;
    let discard = json!({"filter": {"topic": "post"}, "note": "not needed"});
    transcript.ask("POST /dead-letters/discard", discard, 200).await;
    transcript.get("/dead-letters").await;
    transcript.get("/messages?state=pending").await;
    transcript.get("/executions").await;
    transcript.get("/audit?what=dead").await;
}

pub(crate) async fn queues(transcript: &mut Transcript) {
    for number in 0..3 {
        publish(transcript, json!({"topic": "mail", "queue": "slow", "key": format!("k{number}")}))
            .await;
    }
    publish(transcript, json!({"topic": "mail", "queue": "slow", "delay": "1h"})).await;
    transcript.later(10);
    transcript.get("/queues").await;
    let pause = json!({"reason": "a move", "until": "2026-03-01T12:10:00Z"});
    transcript.ask("POST /queues/slow/pause", pause, 200).await;
    transcript.ask("POST /queues/slow/concurrency", json!({"max": 7}), 200).await;
    transcript.ask("POST /queues/slow/concurrency", json!({"max": 0}), 422).await;
    transcript.get("/queues/slow").await;
    transcript.ask("POST /queues/slow/resume", json!({}), 200).await;
    assert_eq!(work::claim(transcript, "slow", 1).await.len(), 1);
    transcript.get("/queues/slow").await;
    transcript.ask("POST /queues/slow/purge", json!({"dry_run": true}), 200).await;
    transcript
        .ask("POST /queues/slow/purge", json!({"dry_run": false, "reason": "stale"}), 200)
        .await;
    transcript.get("/messages").await;
    transcript.ask("GET /queues/none", Value::Null, 404).await;
    transcript.get("/audit?what=queue").await;
}
