//! Rules: the permission that each operation needs, and a valid body.

use serde_json::{Value, json};

use super::NOTHING;

/// Callers that an operation admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Every caller, also with invalid credentials, which are not checked.
    Probe,
    /// Every caller, unless the credentials are invalid.
    Public,
    Viewer,
    Operator,
    Admin,
    /// An operator, or a token with the scope `publish`.
    Publisher,
    /// Only a token with the scope `work`.
    Worker,
}

/// Every operation of the description.
pub(super) const RULES: [(&str, Rule); 97] = {
    use Rule::{Admin, Operator, Public, Publisher, Viewer, Worker};
    [
        ("GET /api/v1/audit", Viewer),
        ("GET /api/v1/batches", Viewer),
        ("GET /api/v1/batches/{id}", Viewer),
        ("POST /api/v1/batches/{id}/cancel", Operator),
        ("GET /api/v1/calendar", Viewer),
        ("GET /api/v1/dead-letters", Viewer),
        ("POST /api/v1/dead-letters/discard", Operator),
        ("GET /api/v1/dead-letters/groups", Viewer),
        ("POST /api/v1/dead-letters/redrive", Operator),
        ("GET /api/v1/events", Viewer),
        ("GET /api/v1/executions", Viewer),
        ("GET /api/v1/executions/{id}", Viewer),
        ("GET /api/v1/jobs", Viewer),
        ("POST /api/v1/jobs", Admin),
        ("GET /api/v1/jobs/{name}", Viewer),
        ("PUT /api/v1/jobs/{name}", Admin),
        ("PATCH /api/v1/jobs/{name}", Admin),
        ("DELETE /api/v1/jobs/{name}", Admin),
        ("POST /api/v1/jobs/{name}/backfill", Operator),
        ("POST /api/v1/jobs/{name}/cursor", Operator),
        ("GET /api/v1/jobs/{name}/executions", Viewer),
        ("GET /api/v1/jobs/{name}/layers", Viewer),
        ("GET /api/v1/jobs/{name}/misfire-preview", Viewer),
        ("GET /api/v1/jobs/{name}/occurrences", Viewer),
        ("POST /api/v1/jobs/{name}/pause", Operator),
        ("GET /api/v1/jobs/{name}/planned", Viewer),
        ("POST /api/v1/jobs/{name}/planned/cancel", Operator),
        ("POST /api/v1/jobs/{name}/planned/pause", Operator),
        ("POST /api/v1/jobs/{name}/planned/resume", Operator),
        ("POST /api/v1/jobs/{name}/planned/trigger", Operator),
        ("POST /api/v1/jobs/{name}/reset", Admin),
        ("POST /api/v1/jobs/{name}/resume", Operator),
        ("POST /api/v1/jobs/{name}/skip", Operator),
        ("POST /api/v1/jobs/{name}/trigger", Operator),
        ("GET /api/v1/jobs/{name}/upcoming", Viewer),
        ("GET /api/v1/messages", Viewer),
        ("POST /api/v1/messages", Publisher),
        ("POST /api/v1/messages/batch", Publisher),
        ("POST /api/v1/messages/bulk", Operator),
        ("GET /api/v1/messages/count", Viewer),
        ("GET /api/v1/messages/{id}", Viewer),
        ("DELETE /api/v1/messages/{id}", Operator),
        ("POST /api/v1/messages/{id}/cancel", Operator),
        ("POST /api/v1/messages/{id}/clone", Publisher),
        ("POST /api/v1/messages/{id}/delete", Operator),
        ("POST /api/v1/messages/{id}/reassign", Operator),
        ("POST /api/v1/messages/{id}/redrive", Operator),
        ("POST /api/v1/messages/{id}/reschedule", Operator),
        ("GET /api/v1/health", Viewer),
        ("GET /api/v1/overview", Viewer),
        ("GET /api/v1/queues", Viewer),
        ("GET /api/v1/queues/{name}", Viewer),
        ("POST /api/v1/queues/{name}/concurrency", Operator),
        ("POST /api/v1/queues/{name}/pause", Operator),
        ("POST /api/v1/queues/{name}/purge", Operator),
        ("POST /api/v1/queues/{name}/resume", Operator),
        ("POST /api/v1/schedule/preview", Viewer),
        ("GET /api/v1/series", Viewer),
        ("GET /api/v1/session", Public),
        ("POST /api/v1/session", Public),
        ("DELETE /api/v1/session", Public),
        ("GET /api/v1/session/oidc", Public),
        ("GET /api/v1/session/oidc/callback", Public),
        ("POST /api/v1/session/password", Viewer),
        ("GET /api/v1/settings", Admin),
        ("GET /api/v1/storage", Viewer),
        ("GET /api/v1/subscriptions", Viewer),
        ("POST /api/v1/subscriptions/{id}/pause", Operator),
        ("POST /api/v1/subscriptions/{id}/resume", Operator),
        ("GET /api/v1/tokens", Viewer),
        ("POST /api/v1/tokens", Viewer),
        ("DELETE /api/v1/tokens/{id}", Viewer),
        ("GET /api/v1/topics", Viewer),
        ("GET /api/v1/transports", Viewer),
        ("GET /api/v1/users", Admin),
        ("POST /api/v1/users", Admin),
        ("GET /api/v1/users/{name}", Admin),
        ("PATCH /api/v1/users/{name}", Admin),
        ("DELETE /api/v1/users/{name}", Admin),
        ("GET /api/v1/views", Viewer),
        ("PUT /api/v1/views/{name}", Viewer),
        ("DELETE /api/v1/views/{name}", Viewer),
        ("GET /api/v1/webhooks", Viewer),
        ("POST /api/v1/webhooks", Admin),
        ("GET /api/v1/webhooks/{id}", Viewer),
        ("PATCH /api/v1/webhooks/{id}", Admin),
        ("DELETE /api/v1/webhooks/{id}", Admin),
        ("GET /api/v1/webhooks/{id}/deliveries", Viewer),
        ("POST /api/v1/webhooks/{id}/test", Admin),
        ("POST /api/v1/work/claim", Worker),
        ("POST /api/v1/work/deregister", Worker),
        ("POST /api/v1/work/extend", Worker),
        ("POST /api/v1/work/progress", Worker),
        ("POST /api/v1/work/settle", Worker),
        ("GET /api/v1/workers", Viewer),
        ("POST /api/v1/workers/{process}/quiet", Operator),
        ("POST /api/v1/workers/{process}/wake", Operator),
    ]
};

/// Returns a valid body of an operation, so that a refusal is about the caller.
pub(super) fn body(operation: &str) -> Value {
    let job = json!({ "name": "nothing", "every": "1h", "topic": "t" });
    let lease = json!({ "worker": "w", "message": NOTHING, "token": "t", "outcome": "done" });
    let (_, path) = operation.split_once(' ').unwrap_or_default();
    match path.trim_start_matches("/api/v1/") {
        "dead-letters/discard" | "dead-letters/redrive" => json!({ "ids": [] }),
        "jobs" => job,
        "jobs/{name}" if operation.starts_with("PUT") => job,
        "jobs/{name}/backfill" => {
            json!({ "from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z" })
        }
        "jobs/{name}/cursor" => json!({ "to": "2026-04-01T00:00:00Z" }),
        "jobs/{name}/pause" | "jobs/{name}/planned/pause" | "queues/{name}/pause" => {
            json!({ "reason": "a test" })
        }
        "jobs/{name}/planned/cancel" => json!({ "key": "nothing" }),
        "messages" => json!({ "topic": "t" }),
        "messages/batch" => json!({ "items": [{ "topic": "t" }] }),
        "messages/bulk" => json!({ "action": "cancel", "dry_run": true }),
        "messages/{id}/reassign" => json!({ "priority": 9 }),
        "messages/{id}/reschedule" => json!({ "delay": "1h" }),
        "queues/{name}/concurrency" => json!({ "max": 5 }),
        "queues/{name}/purge" => json!({ "dry_run": true }),
        "schedule/preview" => json!({ "cron": "0 2 * * *" }),
        "session" => json!({ "name": "eve", "password": super::callers::PASSWORD }),
        "session/password" => json!({ "old": "wrong horse battery", "new": "some horse battery" }),
        "tokens" => json!({ "name": "t", "scopes": ["read"] }),
        "users" => {
            json!({ "name": "new", "role": "viewer", "password": super::callers::PASSWORD })
        }
        "views/{name}" => json!({ "page": "messages", "query": "" }),
        "webhooks" => json!({ "url": "https://example.com/hook", "events": ["*"] }),
        "work/bye" | "work/deregister" => json!({ "worker": "w" }),
        "work/claim" => json!({ "worker": "w", "queue": "default" }),
        "work/extend" => {
            json!({ "worker": "w", "leases": [{ "message": NOTHING, "token": "t" }] })
        }
        "work/progress" => {
            json!({ "worker": "w", "message": NOTHING, "token": "t", "percent": 1 })
        }
        "work/settle" => lease,
        _ => json!({}),
    }
}
