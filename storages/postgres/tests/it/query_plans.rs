//! Query plans of the statements: the plans that are made while the tables are empty and are kept from then on, the
//! indexes they use, and that steps that must be one statement are one.

use tokio_postgres::Client;

use crate::schema::TestSchema;

#[path = "../../src/sql_parts.rs"]
mod sql_parts;

punctual_conformance::cases! {
    plans_made_on_empty_tables_find_messages_by_id,
    ended_messages_are_found_by_their_id,
    related_messages_are_found_by_their_relations,
    documents_are_found_by_key_and_by_when_they_expire,
    a_claim_under_limits_uses_the_indexes_made_for_it,
    the_required_indexes_exist,
    releasing_and_pruning_are_single_statements_with_parameters,
}

/// Statements that find the messages of a batch, and the number of parameters of each.
const BY_ID: [(&str, &str, usize); 10] = [
    ("settle_finished", include_str!("../../sql/settle_finished.sql"), 14),
    ("settle_dead", include_str!("../../sql/settle_dead.sql"), 15),
    ("settle_again", include_str!("../../sql/settle_again.sql"), 16),
    ("save_progress", include_str!("../../sql/save_progress.sql"), 4),
    ("batches_wait", include_str!("../../sql/batches_wait.sql"), 2),
    ("batches_end", include_str!("../../sql/batches_end.sql"), 2),
    ("extend", include_str!("../../sql/extend.sql"), 3),
    ("alive", include_str!("../../sql/alive.sql"), 2),
    ("remove_alive", include_str!("../../sql/remove_alive.sql"), 1),
    ("cancel_pending", include_str!("../../sql/cancel_pending.sql"), 2),
];

/// Returns the generic plan of a statement, under the settings of our sessions.
async fn kept_plan(client: &Client, name: &str, text: &str, values: &[&str]) -> String {
    client.batch_execute(&format!("PREPARE {name} AS {text}")).await.unwrap();
    let explain = format!("EXPLAIN EXECUTE {name}({})", values.join(", "));
    let rows = client.simple_query(&explain).await.unwrap();
    let lines = rows.iter().filter_map(|row| match row {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Statements that find ended messages, the position of the instant, and the number of parameters.
const ENDED: [(&str, &str, usize, usize); 5] = [
    ("store", include_str!("../../sql/store.sql"), 17, 23),
    ("ended_in_range", include_str!("../../sql/ended_in_range.sql"), 3, 3),
    ("ended_ids", include_str!("../../sql/ended_ids.sql"), 2, 2),
    ("ended", include_str!("../../sql/ended.sql"), 0, 1),
    ("remove_ended", include_str!("../../sql/remove_ended.sql"), 0, 1),
];

/// Returns a statement as it is sent.
fn sent(text: &str, schema: &str) -> String {
    sql_parts::with_parts(text).replace("{schema}", &format!("\"{schema}\""))
}

async fn related_messages_are_found_by_their_relations() {
    let database = TestSchema::new();
    let _storage = database.open().await;
    let client = planner(&database).await;
    for (name, text, parameters, index) in [
        ("batches_alive", include_str!("../../sql/batches_alive.sql"), 1, "message_batch"),
        ("batches_end", include_str!("../../sql/batches_end.sql"), 2, "message_batch"),
        ("batches_wait", include_str!("../../sql/batches_wait.sql"), 2, "message_waiting"),
        ("waiting_queues", include_str!("../../sql/waiting_queues.sql"), 4, "message_lane"),
        ("queue_running", include_str!("../../sql/queue_running.sql"), 2, "message_running"),
        ("reserved_keys", include_str!("../../sql/reserved_keys.sql"), 1, "held_key_pkey"),
        ("store", include_str!("../../sql/store.sql"), 23, "held_key_pkey"),
        ("alive", include_str!("../../sql/alive.sql"), 2, "message_dedupe"),
    ] {
        let text = sent(text, &database.schema);
        let plan = kept_plan(&client, name, &text, &vec!["NULL"; parameters]).await;
        assert!(plan.contains(&format!("using {index} on")), "{name}:\n{plan}");
        for walked in ["message_limited", "message_running", "Seq Scan on message"] {
            assert!(walked == index || !plan.contains(walked), "{name} walks {walked}:\n{plan}");
        }
    }
}

async fn documents_are_found_by_key_and_by_when_they_expire() {
    let database = TestSchema::new();
    let _storage = database.open().await;
    let client = planner(&database).await;
    for (name, text, parameters, walked) in [
        (
            "list",
            include_str!("../../sql/document_list.sql"),
            5,
            "Index Cond: ((kind = $1) AND (key >= $2) AND (key < $3))",
        ),
        (
            "list_back",
            include_str!("../../sql/document_list_back.sql"),
            5,
            "Scan Backward using document_pkey",
        ),
        ("seen", include_str!("../../sql/document_put_version.sql"), 6, "using document_pkey on"),
        ("expire", include_str!("../../sql/document_expire.sql"), 2, "using document_expires on"),
    ] {
        let text = sent(text, &database.schema);
        let plan = kept_plan(&client, name, &text, &vec!["NULL"; parameters]).await;
        assert!(plan.contains(walked), "{name}:\n{plan}");
        assert!(!plan.contains("Sort") && !plan.contains("Seq Scan"), "{name}:\n{plan}");
    }
}

async fn a_claim_under_limits_uses_the_indexes_made_for_it() {
    let database = TestSchema::new();
    let _storage = database.open().await;
    let client = planner(&database).await;
    for (name, text, parameters, indexes) in [
        ("claim", include_str!("../../sql/claim.sql"), 10, &["message_pending"][..]),
        (
            "claim_in_turn",
            include_str!("../../sql/claim_with_limits.sql"),
            11,
            &["message_pending", "message_pkey", "message_lane"],
        ),
        (
            "limited",
            include_str!("../../sql/limited_candidates.sql"),
            10,
            &["message_limited", "message_lane"],
        ),
        (
            "next_due",
            include_str!("../../sql/next_due.sql"),
            5,
            &["message_pending", "message_limited", "message_lane"],
        ),
    ] {
        let plan =
            kept_plan(&client, name, &sent(text, &database.schema), &vec!["NULL"; parameters])
                .await;
        for index in indexes {
            assert!(plan.contains(&format!("{index} on message")), "{name}, {index}:\n{plan}");
        }
        assert!(!plan.contains("Seq Scan on message"), "{name}:\n{plan}");
        // Rows that are counted or found by their limit are found by no other index.
        for line in plan.lines().filter(|line| line.contains("Index Cond: (lane")) {
            assert!(line.contains("state"), "{name}: {line}:\n{plan}");
        }
        assert!(!plan.contains("message_running"), "{name}:\n{plan}");
    }
}

/// Opens a connection with the settings of our sessions.
async fn planner(database: &TestSchema) -> Client {
    let client = database.client().await;
    let settings = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; \
                    SET enable_bitmapscan = off";
    client.batch_execute(settings).await.unwrap();
    client
}

async fn ended_messages_are_found_by_their_id() {
    let database = TestSchema::new();
    let _storage = database.open().await;
    let client = planner(&database).await;
    for (name, text, instant, parameters) in ENDED {
        let text = sent(text, &database.schema);
        let value = |place| if place == instant { "'-infinity'" } else { "NULL" };
        let values: Vec<&str> = (1..=parameters).map(value).collect();
        let plan = kept_plan(&client, name, &text, &values).await;
        assert!(plan.contains("using history_rest_message_idx on"), "{name}:\n{plan}");
        assert!(!plan.contains("Seq Scan on history"), "{name}:\n{plan}");
    }
}

async fn plans_made_on_empty_tables_find_messages_by_id() {
    let database = TestSchema::new();
    let _storage = database.open().await;
    let client = planner(&database).await;
    for (name, text, parameters) in BY_ID {
        let text = sent(text, &database.schema).replace("{id}", "($3::uuid[])[n]");
        let plan = kept_plan(&client, name, &text, &vec!["NULL"; parameters]).await;
        assert!(plan.contains("using message_pkey on message"), "{name}:\n{plan}");
        assert!(plan.contains("Index Cond: (id = ANY"), "{name}:\n{plan}");
        for walked in ["message_running", "message_pending", "Seq Scan on message"] {
            assert!(!plan.contains(walked), "{name} walks {walked}:\n{plan}");
        }
    }
}

// spec: U-16
async fn the_required_indexes_exist() {
    let database = TestSchema::new();
    let _storage = database.open().await;
    let text = "SELECT indexdef FROM pg_indexes WHERE schemaname = $1";
    let rows = database.client().await.query(text, &[&database.schema]).await.unwrap();
    let all: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    for wanted in [
        // The next run of what is active: retired and paused jobs have no due time.
        "job USING btree (due_at, name) WHERE (due_at IS NOT NULL)",
        "message USING btree (queue, priority DESC, due_at, id) WHERE ((state = 0) AND (lane IS NULL))",
        // Holder and end of a lock, where something runs.
        "message USING btree (owner, lease_until) WHERE (state = 1)",
        // Job and status.
        "message USING btree (job, state) WHERE (job IS NOT NULL)",
        // Runs by their scheduled time, newest first.
        "history USING btree (due_at DESC) WHERE (job IS NOT NULL)",
    ] {
        assert!(all.iter().any(|index| index.contains(wanted)), "{wanted} is not in {all:#?}");
    }
}

// spec: H-65, H-3, H-17
async fn releasing_and_pruning_are_single_statements_with_parameters() {
    for text in [
        include_str!("../../sql/reclaim.sql"),
        include_str!("../../sql/prune_history.sql"),
        include_str!("../../sql/prune_dead.sql"),
    ] {
        let words = text.lines().filter(|line| !line.trim_start().starts_with("--"));
        let statement = words.collect::<Vec<_>>().join("\n");
        assert!(!statement.trim_end().trim_end_matches(';').contains(';'), "{text}");
        assert!(statement.contains("$1"), "{text}");
    }
}
