//! Messages, dead letters and queues over the API, on every storage.

use serde_json::{Value, json};

use crate::talk::Talk;
use crate::work;

async fn publish(talk: &mut Talk, request: Value) -> String {
    let made = talk.ask("POST /messages", request, 201).await;
    made["id"].as_str().unwrap().to_owned()
}

pub(crate) async fn published(talk: &mut Talk) {
    let first = json!({"topic": "mail", "json": {"to": "ada"}, "key": "ada", "queue": "slow",
        "headers": {"tenant": "a"}, "priority": 8, "delay": "1h"});
    let first = publish(talk, first).await;
    talk.later(1);
    let once = json!({"topic": "mail", "text": "hello", "dedupe": "d1"});
    let second = publish(talk, once.clone()).await;
    let again = talk.ask("POST /messages", once.clone(), 200).await;
    assert_eq!((&again["id"], &again["duplicate_of"]), (&json!(second), &json!(second)));
    talk.later(1);
    let items = json!({"items": [{"topic": "post"}, {"topic": "post", "base64": "/wA="}, {"topic": "mail"}]});
    talk.ask("POST /messages/batch", items, 201).await;
    for query in
        ["", "?topic=mail", "?queue=slow", "?state=pending&limit=2", "?search=ADA", "?key=ada"]
    {
        talk.get(&format!("/messages{query}")).await;
        talk.get(&format!("/messages/count{query}")).await;
    }
    let page = talk.get("/messages?limit=2").await;
    talk.get(&format!("/messages?limit=2&after={}", page["next"].as_str().unwrap())).await;
    talk.get(&format!("/messages/{first}")).await;
    // Ids of one millisecond have no order between a request with a key and others.
    talk.later(1);
    let key = [("idempotency-key", "k1")];
    for _ in 0..2 {
        talk.ask_with("POST /messages", &key, json!({"topic": "once"}), 201).await;
    }
    talk.later(1);
    talk.ask_with("POST /messages", &key, json!({"topic": "twice"}), 422).await;
    talk.get("/messages/count?topic=once").await;
    talk.ask(&format!("POST /messages/{first}/reschedule"), json!({"delay": "2h"}), 200).await;
    let urgent = json!({"queue": "slow", "priority": 8});
    talk.ask(&format!("POST /messages/{first}/reassign"), urgent, 200).await;
    talk.get(&format!("/messages/{first}")).await;
    talk.ask(&format!("POST /messages/{second}/cancel"), json!({"reason": "a test"}), 200).await;
    talk.ask(&format!("POST /messages/{second}/reassign"), json!({"priority": 1}), 409).await;
    talk.ask(&format!("POST /messages/{second}/cancel"), json!({}), 409).await;
    talk.ask(&format!("POST /messages/{first}/clone"), json!({"delay": "3h"}), 201).await;
    let bulk = json!({"action": "reassign", "queue": "slow", "filter": {"state": "pending"}});
    talk.ask("POST /messages/bulk", bulk, 200).await;
    talk.get("/queues").await;
    let bulk = json!({"action": "cancel", "filter": {"topic": "post"}, "dry_run": true});
    talk.ask("POST /messages/bulk", bulk, 200).await;
    let bulk = json!({"action": "cancel", "filter": {"topic": "post"}});
    talk.ask("POST /messages/bulk", bulk, 200).await;
    talk.ask("GET /messages/7", Value::Null, 400).await;
    talk.get("/topics").await;
    talk.get("/messages").await;
    talk.get("/audit").await;
}

pub(crate) async fn dead(talk: &mut Talk) {
    for (topic, error) in
        [("mail", "order 17 is unknown"), ("mail", "order 22 is unknown"), ("post", "no stamp")]
    {
        publish(talk, json!({"topic": topic, "queue": "slow"})).await;
        for claimed in work::claim(talk, "slow", 10).await {
            work::bury(talk, &claimed, error).await;
        }
        talk.later(60);
    }
    let groups = talk.get("/dead-letters/groups").await;
    assert_eq!(groups["items"].as_array().unwrap().len(), 2);
    talk.get("/dead-letters").await;
    talk.get("/dead-letters?topic=post").await;
    let redrive = json!({"filter": {"topic": "mail"}, "dry_run": true});
    talk.ask("POST /dead-letters/redrive", redrive, 200).await;
    let redrive = json!({"filter": {"topic": "mail"}, "limit": 1});
    talk.ask("POST /dead-letters/redrive", redrive, 200).await;
    let discard = json!({"filter": {"topic": "post"}, "note": "nobody wants it"});
    talk.ask("POST /dead-letters/discard", discard, 200).await;
    talk.get("/dead-letters").await;
    talk.get("/messages?state=pending").await;
    talk.get("/executions").await;
    talk.get("/audit?what=dead").await;
}

pub(crate) async fn queues(talk: &mut Talk) {
    for number in 0..3 {
        publish(talk, json!({"topic": "mail", "queue": "slow", "key": format!("k{number}")})).await;
    }
    publish(talk, json!({"topic": "mail", "queue": "slow", "delay": "1h"})).await;
    talk.later(10);
    talk.get("/queues").await;
    let pause = json!({"reason": "a move", "until": "2026-03-01T12:10:00Z"});
    talk.ask("POST /queues/slow/pause", pause, 200).await;
    talk.ask("POST /queues/slow/concurrency", json!({"max": 7}), 200).await;
    talk.ask("POST /queues/slow/concurrency", json!({"max": 0}), 422).await;
    talk.get("/queues/slow").await;
    talk.ask("POST /queues/slow/resume", json!({}), 200).await;
    assert_eq!(work::claim(talk, "slow", 1).await.len(), 1);
    talk.get("/queues/slow").await;
    talk.ask("POST /queues/slow/purge", json!({"dry_run": true}), 200).await;
    talk.ask("POST /queues/slow/purge", json!({"dry_run": false, "reason": "stale"}), 200).await;
    talk.get("/messages").await;
    talk.ask("GET /queues/none", Value::Null, 404).await;
    talk.get("/audit?what=queue").await;
}
