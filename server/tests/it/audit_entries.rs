//! Audit log: every operation runs once, and its entry is compared with the table. A new operation fails here until the
//! table has its entry, or the reason why it has none.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use axum::http::header::{CONTENT_TYPE, COOKIE, SET_COOKIE};
use punctual::builtin::memory_transport;
use punctual::model::ProcessId;
use punctual::uuid::Uuid;
use punctual::{Context, Job, ManualClock, Occurrence, Roles};
use punctual_server::{AuthSettings, Caller, EVERY_QUEUE, Mode, Role};
use serde_json::{Value, json};

use crate::running_server::settle;
use crate::site::{Site, TestResponse};
use crate::work::{dead, idle};

const PASSWORD: &str = "correct horse battery";

/// Audit entry of an operation.
#[derive(Clone, Copy, Debug)]
enum AuditEntry {
    /// An entry of this kind.
    As(&'static str),
    /// No entry.
    Nothing,
}

/// Every changing operation, in the order of the description.
const TABLE: [(&str, AuditEntry); 56] = {
    use AuditEntry::{As, Nothing};
    // The work of workers is in the history of executions.
    const WORK: AuditEntry = Nothing;
    // Saved views belong to their owner.
    const VIEWS: AuditEntry = Nothing;
    [
        ("DELETE jobs/{name}", As("job.delete")),
        ("DELETE messages/{id}", As("message.delete")),
        ("DELETE session", As("session.end")),
        ("DELETE tokens/{id}", As("token.revoke")),
        ("DELETE users/{name}", As("user.delete")),
        ("DELETE views/{name}", VIEWS),
        ("DELETE webhooks/{id}", As("webhook.delete")),
        ("PATCH jobs/{name}", As("job.edit")),
        ("PATCH users/{name}", As("user.change")),
        ("PATCH webhooks/{id}", As("webhook.edit")),
        ("POST batches/{id}/cancel", As("batch.cancel")),
        ("POST dead-letters/discard", As("messages.discard")),
        ("POST dead-letters/redrive", As("messages.redrive")),
        ("POST jobs", As("job.create")),
        ("POST jobs/{name}/backfill", As("job.backfill")),
        ("POST jobs/{name}/cursor", As("job.cursor")),
        ("POST jobs/{name}/pause", As("job.pause")),
        ("POST jobs/{name}/planned/cancel", As("planned_jobs.cancel")),
        ("POST jobs/{name}/planned/pause", As("planned_jobs.pause")),
        ("POST jobs/{name}/planned/resume", As("planned_jobs.resume")),
        ("POST jobs/{name}/planned/trigger", As("planned_jobs.trigger")),
        ("POST jobs/{name}/reset", As("job.reset")),
        ("POST jobs/{name}/resume", As("job.resume")),
        ("POST jobs/{name}/skip", As("job.skip")),
        ("POST jobs/{name}/trigger", As("job.trigger")),
        ("POST messages", As("message.publish")),
        ("POST messages/batch", As("messages.publish")),
        ("POST messages/bulk", As("messages.cancel")),
        ("POST messages/{id}/cancel", As("message.cancel")),
        ("POST messages/{id}/clone", As("message.clone")),
        ("POST messages/{id}/delete", As("message.delete")),
        ("POST messages/{id}/reassign", As("message.reassign")),
        ("POST messages/{id}/redrive", As("message.redrive")),
        ("POST messages/{id}/reschedule", As("message.reschedule")),
        ("POST queues/{name}/concurrency", As("queue.concurrency")),
        ("POST queues/{name}/pause", As("queue.pause")),
        ("POST queues/{name}/purge", As("queue.purge")),
        ("POST queues/{name}/resume", As("queue.resume")),
        // It changes nothing.
        ("POST schedule/preview", Nothing),
        ("POST session", As("session.begin")),
        ("POST session/password", As("user.password")),
        ("POST subscriptions/{id}/pause", As("subscription.pause")),
        ("POST subscriptions/{id}/resume", As("subscription.resume")),
        ("POST tokens", As("token.create")),
        ("POST users", As("user.create")),
        ("POST webhooks", As("webhook.create")),
        ("POST webhooks/{id}/test", As("webhook.test")),
        ("POST work/claim", WORK),
        ("POST work/deregister", WORK),
        ("POST work/extend", WORK),
        ("POST work/progress", WORK),
        ("POST work/settle", WORK),
        ("POST workers/{process}/quiet", As("worker.quiet")),
        ("POST workers/{process}/wake", As("worker.wake")),
        ("PUT jobs/{name}", As("job.replace")),
        ("PUT views/{name}", VIEWS),
    ]
};

/// Server with everything that an operation needs.
pub(crate) struct Fixture {
    pub(crate) site: Site,
    dead: String,
    waiting: String,
    batch: String,
    token: String,
    webhook: String,
    subscription: String,
    /// Id of a message that a worker has leased, and the token of its lease.
    held: (String, String),
}

fn site() -> Site {
    let clock = Arc::new(ManualClock::new("2026-03-01T12:00:00Z".parse().unwrap()));
    let bus = Arc::new(memory_transport(clock, ProcessId::from_uuid(Uuid::from_u128(3))));
    let site = Site::with(|builder| {
        builder
            .roles(Roles { worker: false, ..Roles::ALL })
            .transport("bus", bus)
            .route("orders", "bus")
            .handler("orders", async |_: Context| {})
            .handler("remind", async |_: Option<String>| {})
            .subscribe("bus", "orders", "billing")
            .job(Job::cron("hourly", "0 * * * *"), async |_: Occurrence| {})
    });
    let settings = AuthSettings { mode: Mode::Password, ..AuthSettings::default() };
    site.changed(|app| app.authenticating(settings))
}

async fn made(site: &Site, path: &str, body: &Value) -> Value {
    let response = site.post(&format!("/api/v1/{path}"), body).await;
    assert!(response.status.is_success(), "{path}: {}", response.text);
    response.json
}

impl Fixture {
    pub(crate) async fn new(operation: &str) -> Self {
        let site = site().as_role(Role::Admin);
        site.app.punctual.start().await.unwrap();
        let id = |made: Value| made["id"].as_str().unwrap().to_owned();
        let user = |name| json!({ "name": name, "role": "viewer", "password": PASSWORD });
        // Hashing a password takes long.
        for (part, name) in [("session", "ada"), ("users", "bob")] {
            if operation.contains(part) {
                made(&site, "users", &user(name)).await;
            }
        }
        let dead = dead(&site, "t", "no").await.to_string();
        made(&site, "messages", &json!({ "topic": "t", "queue": "held" })).await;
        let claim = json!({ "worker": "w", "queue": "held" });
        let claimed = call(&site, ("POST", "/api/v1/work/claim", &claim), &worker()).await;
        let item = &claimed.json["items"][0];
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let held = (text(&item["message"]["id"]), text(&item["lease"]["token"]));
        let later = json!({ "topic": "t", "delay": "1h" });
        let waiting = id(made(&site, "messages", &later).await);
        let publisher = site.app.punctual.publisher();
        let after = Duration::from_secs(3_600);
        let members = vec![publisher.publish("t", &()).after(after)];
        let batch = publisher.batch(members).await.unwrap().id.to_string();
        let jobs = site.app.punctual.jobs();
        jobs.once("remind").after(after).key("k").await.unwrap();
        let job = json!({ "name": "own", "every": "1h", "topic": "t" });
        made(&site, "jobs", &job).await;
        let token_request = json!({ "name": "ci", "scopes": ["read"] });
        let token = id(made(&site, "tokens", &token_request).await);
        let webhook_request = json!({ "url": "https://example.com/x", "events": ["message.dead"] });
        let webhook = id(made(&site, "webhooks", &webhook_request).await);
        let view = json!({ "page": "messages", "query": "" });
        let put = ("PUT", "/api/v1/views/mine", &view);
        assert!(call(&site, put, &worker()).await.status.is_success());
        let subscriptions = site.get("/api/v1/subscriptions").await.json;
        let subscription = text(&subscriptions["items"][0]["id"]);
        Self { site, dead, waiting, batch, token, webhook, subscription, held }
    }

    /// Returns the path and the body of a request of an operation that succeeds.
    pub(crate) fn request(&self, operation: &str) -> (String, Value) {
        let (method, path) = operation.split_once(' ').unwrap();
        let process = self.site.app.punctual.process_id().to_string();
        let is_own = matches!(method, "DELETE" | "PUT") || path == "jobs/{name}";
        let name = match path.split('/').next().unwrap() {
            "users" => "bob",
            "views" => "mine",
            "queues" => "slow",
            _ if path.contains("/planned/") => "remind",
            _ if is_own || path == "jobs" => "own",
            _ => "hourly",
        };
        let id = match path.split('/').next().unwrap() {
            "tokens" => &self.token,
            "webhooks" => &self.webhook,
            "batches" => &self.batch,
            "subscriptions" => &self.subscription,
            _ if path.ends_with("/redrive") => &self.dead,
            _ => &self.waiting,
        };
        let pairs = [("{name}", name), ("{id}", id), ("{process}", &process)];
        let real =
            pairs.iter().fold(path.to_owned(), |path, (what, with)| path.replace(what, with));
        (format!("/api/v1/{real}"), self.body(method, path))
    }

    fn body(&self, method: &str, path: &str) -> Value {
        let (message, token) = &self.held;
        let ids = json!({ "ids": [self.dead] });
        match path {
            "jobs" => json!({ "name": "other", "every": "1h", "topic": "t" }),
            "jobs/{name}" if method == "PUT" => {
                json!({ "name": "own", "every": "2h", "topic": "t" })
            }
            "jobs/{name}" if method == "PATCH" => json!({ "every": "3h" }),
            "jobs/{name}/backfill" => {
                json!({ "from": "2026-03-01T10:00:00Z", "to": "2026-03-01T11:30:00Z" })
            }
            "jobs/{name}/cursor" => json!({ "to": "2026-03-01T15:00:00Z" }),
            "jobs/{name}/planned/cancel" | "jobs/{name}/planned/trigger" => json!({ "key": "k" }),
            path if path.ends_with("/pause") => json!({ "reason": "a test" }),
            "users/{name}" => json!({ "role": "operator" }),
            "webhooks/{id}" => json!({ "events": ["*"] }),
            "dead-letters/discard" | "dead-letters/redrive" => ids,
            "messages" => json!({ "topic": "t" }),
            "messages/batch" => json!({ "items": [{ "topic": "t" }] }),
            "messages/bulk" => json!({ "action": "cancel", "filter": { "topic": "t" } }),
            "messages/{id}/reassign" => json!({ "priority": 9 }),
            "messages/{id}/reschedule" => json!({ "delay": "2h" }),
            "queues/{name}/concurrency" => json!({ "max": 5 }),
            "queues/{name}/purge" => json!({ "dry_run": false }),
            "schedule/preview" => json!({ "cron": "0 2 * * *" }),
            "session" => json!({ "name": "ada", "password": PASSWORD }),
            "session/password" => json!({ "old": PASSWORD, "new": "another horse battery" }),
            "tokens" => json!({ "name": "t", "scopes": ["read"] }),
            "users" => json!({ "name": "new", "role": "viewer", "password": PASSWORD }),
            "views/{name}" => json!({ "page": "jobs", "query": "" }),
            "webhooks" => json!({ "url": "https://example.com/hook", "events": ["*"] }),
            "work/deregister" => json!({ "worker": "w" }),
            "work/claim" => json!({ "worker": "w", "queue": "default" }),
            "work/extend" => {
                json!({ "worker": "w", "leases": [{ "message": message, "token": token }] })
            }
            "work/progress" => {
                json!({ "worker": "w", "message": message, "token": token, "percent": 1 })
            }
            "work/settle" => {
                json!({ "worker": "w", "message": message, "token": token, "outcome": "done" })
            }
            _ => json!({}),
        }
    }

    /// Logs ada in and returns the headers of the session, for operations about the session itself.
    pub(crate) async fn session(&self) -> Vec<(&'static str, String)> {
        let login = json!({ "name": "ada", "password": PASSWORD });
        let login = call(&self.site, ("POST", "/api/v1/session", &login), &Vec::new()).await;
        let cookie = login.headers[SET_COOKIE].to_str().unwrap().split(';').next().unwrap();
        let csrf = login.json["csrf"].as_str().unwrap();
        vec![(COOKIE.as_str(), cookie.to_owned()), ("x-csrf-token", csrf.to_owned())]
    }

    /// Advances the clock until a request is complete, a minute at most.
    async fn in_time(&self, asked: impl Future<Output = TestResponse>) -> TestResponse {
        let minute = async {
            for _ in 0..60 {
                settle().await;
                self.site.clock.advance(Duration::from_secs(1));
            }
            settle().await;
        };
        tokio::select! {
            biased;
            response = asked => response,
            () = minute => panic!("the response takes longer than a minute"),
        }
    }

    /// Runs an operation and returns the kinds of its audit entries.
    async fn run(&self, operation: &str) -> Vec<String> {
        let (method, _) = operation.split_once(' ').unwrap();
        let (path, body) = self.request(operation);
        if let Some(job) = operation.strip_suffix("/resume") {
            let (path, body) = self.request(&format!("{job}/pause"));
            call(&self.site, ("POST", &path, &body), &worker()).await;
        }
        let is_session = path.ends_with("/session/password") || operation == "DELETE session";
        let credentials = if is_session { self.session().await } else { worker() };
        let credentials = if operation == "POST session" { Vec::new() } else { credentials };
        let entries = || async { self.site.app.audit().list(None, 100).await.unwrap() };
        let before: BTreeSet<String> = entries().await.into_iter().map(|one| one.id).collect();
        let asked = call(&self.site, (method, &path, &body), &credentials);
        // A test of a webhook waits for the delivery, by the clock.
        let response =
            if path.ends_with("/test") { self.in_time(asked).await } else { asked.await };
        assert!(response.status.is_success(), "{operation}: {}", response.text);
        let after = entries().await.into_iter().filter(|one| !before.contains(&one.id));
        after.map(|one| one.what).collect()
    }
}

/// Header with the name of a caller whom the mounting application has authenticated.
const INSIDE: &str = "x-inside";

pub(crate) fn worker() -> Vec<(&'static str, String)> {
    inside("tester")
}

/// Returns the header of a caller whom the application has authenticated.
pub(crate) fn inside(name: &str) -> Vec<(&'static str, String)> {
    vec![(INSIDE, name.to_owned())]
}

/// Sends a request with the given headers; [`INSIDE`] makes its caller an admin.
pub(crate) async fn call(
    site: &Site,
    (method, path, body): (&str, &str, &Value),
    credentials: &[(&'static str, String)],
) -> TestResponse {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in credentials {
        request = request.header(*name, value);
    }
    let request = request.header(CONTENT_TYPE, "application/json");
    let mut request = request.body(Body::from(body.to_string())).unwrap();
    if let Some(name) = request.headers_mut().remove(INSIDE) {
        let caller = Caller::new(name.to_str().unwrap(), Role::Admin).working_on([EVERY_QUEUE]);
        request.extensions_mut().insert(caller);
    }
    let site = Site {
        app: site.app.clone(),
        clock: site.clock.clone(),
        router: site.router.clone(),
        role: None,
    };
    site.send(request).await
}

#[tokio::test]
async fn every_change_has_an_audit_entry_or_a_listed_exception() {
    let document = idle().get("/api/openapi.json").await.json;
    let mut described = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in ["post", "put", "patch", "delete"] {
            if item[method].is_object() {
                let path = path.trim_start_matches("/api/v1/");
                described.insert(format!("{} {path}", method.to_uppercase()));
            }
        }
    }
    let named: BTreeSet<String> = TABLE.iter().map(|(one, _)| (*one).to_owned()).collect();
    assert_eq!(described, named, "say what the entry of a new change is");
    let mut wrong = Vec::new();
    for (operation, entry) in TABLE {
        // A new fixture for each, because some operations delete what others need.
        let found = Fixture::new(operation).await.run(operation).await;
        let expected: Vec<&str> = match entry {
            AuditEntry::As(kind) => vec![kind],
            AuditEntry::Nothing => Vec::new(),
        };
        if found != expected {
            wrong.push(format!("{operation}: {found:?}, expected {entry:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
