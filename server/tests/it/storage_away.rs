//! Unreachable storage: responses are errors or correct, never a list that looks complete.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use axum::http::Request;
use axum::http::header::{AUTHORIZATION, COOKIE, SET_COOKIE};
use jiff::Timestamp;
use punctual::backend::documents::{
    Document, DocumentStore, ExpectedVersion, KeyRange, NewDocument, PutResult, RemoveResult,
};
use punctual::inspect::{
    Bucket, Counts, ExecutionFilter, JobFilter, MessageFilter, PageRequest, PageResult,
};
use punctual::model::{
    BatchId, Execution, ExecutionId, JobName, JobRecord, MessageId, MessageRecord, MessageState,
};
use punctual::{Error, Inspect, Job, ManualClock, MemoryStorage, Punctual, Result};
use punctual_server::{App, AppParts, AuthSettings, Mode, Role, router};
use serde_json::json;

use crate::running_server::{settle, start};
use crate::site::Site;

/// Memory storage whose reads can fail or hang.
struct UnreliableStorage {
    inner: Arc<MemoryStorage>,
    shut: AtomicBool,
    hangs: AtomicBool,
}

impl UnreliableStorage {
    async fn inner(&self) -> Result<&MemoryStorage> {
        if self.hangs.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        if self.shut.load(Ordering::Relaxed) {
            return Err(Error::unavailable("the storage is out of reach"));
        }
        Ok(&self.inner)
    }
}

#[async_trait]
impl Inspect for UnreliableStorage {
    async fn messages(
        &self,
        filter: MessageFilter,
        page: PageRequest<MessageId>,
    ) -> Result<PageResult<MessageRecord, MessageId>> {
        self.inner().await?.messages(filter, page).await
    }

    async fn message(&self, id: MessageId) -> Result<Option<MessageRecord>> {
        self.inner().await?.message(id).await
    }

    async fn executions(
        &self,
        filter: ExecutionFilter,
        page: PageRequest<ExecutionId>,
    ) -> Result<PageResult<Execution, ExecutionId>> {
        self.inner().await?.executions(filter, page).await
    }

    async fn jobs(&self, filter: JobFilter) -> Result<Vec<JobRecord>> {
        self.inner().await?.jobs(filter).await
    }

    async fn job(&self, name: &JobName) -> Result<Option<JobRecord>> {
        self.inner().await?.job(name).await
    }

    async fn counts(&self, now: Timestamp) -> Result<Counts> {
        self.inner().await?.counts(now).await
    }

    async fn batch(&self, batch: BatchId) -> Result<BTreeMap<MessageState, u64>> {
        self.inner().await?.batch(batch).await
    }

    async fn throughput(&self, since: Timestamp, bucket: Duration) -> Result<Vec<Bucket>> {
        self.inner().await?.throughput(since, bucket).await
    }
}

#[async_trait]
impl DocumentStore for UnreliableStorage {
    async fn put(
        &self,
        draft: NewDocument,
        seen: ExpectedVersion,
        now: Timestamp,
    ) -> Result<PutResult> {
        self.inner().await?.put(draft, seen, now).await
    }

    async fn put_all(&self, drafts: Vec<NewDocument>, now: Timestamp) -> Result<()> {
        self.inner().await?.put_all(drafts, now).await
    }

    async fn get(&self, kind: &str, key: &str, now: Timestamp) -> Result<Option<Document>> {
        self.inner().await?.get(kind, key, now).await
    }

    async fn list(&self, kind: &str, range: KeyRange, now: Timestamp) -> Result<Vec<Document>> {
        self.inner().await?.list(kind, range, now).await
    }

    async fn remove(&self, kind: &str, key: &str, seen: ExpectedVersion) -> Result<RemoveResult> {
        self.inner().await?.remove(kind, key, seen).await
    }

    async fn expire(&self, limit: usize, now: Timestamp) -> Result<u64> {
        self.inner().await?.expire(limit, now).await
    }
}

fn site() -> (Site, Arc<UnreliableStorage>) {
    let clock = Arc::new(ManualClock::new("2026-03-01T12:00:00Z".parse().unwrap()));
    let storage = Arc::new(MemoryStorage::new(clock.clone()));
    let unreliable = Arc::new(UnreliableStorage {
        inner: storage.clone(),
        shut: AtomicBool::new(false),
        hangs: AtomicBool::new(false),
    });
    let builder =
        Punctual::builder().stores(storage.clone(), unreliable.clone()).clock(clock.clone());
    // Another process declares the job, so that this one has no own record of it.
    let punctual = Arc::new(builder.build().unwrap());
    let app = App::new(AppParts {
        punctual,
        storage,
        inspect: unreliable.clone(),
        documents: unreliable.clone(),
        clock: clock.clone(),
    });
    let router = router(app.clone());
    (Site { app, clock, router, role: None }, unreliable)
}

/// Paths that work without the storage: health, the caller, and values of the process.
const WITHOUT_STORAGE: [&str; 6] = [
    "/api/v1/health",
    "/api/v1/session",
    "/api/v1/settings",
    "/api/v1/subscriptions",
    "/api/v1/transports",
    "/api/v1/events",
];

/// Returns every path of a GET operation that needs the storage, with names that exist.
async fn paths(site: &Site, message: &str) -> Vec<String> {
    let document = site.get("/api/openapi.json").await.json;
    let paths = document["paths"].as_object().unwrap().iter();
    let readable = paths.filter(|(path, item)| {
        !item["get"].is_null()
            && !path.contains("/session/oidc")
            && !WITHOUT_STORAGE.contains(&path.as_str())
    });
    readable
        .map(|(path, _)| {
            let name = if path.contains("/jobs/") { "nightly" } else { "default" };
            path.replace("{id}", message).replace("{name}", name)
        })
        .collect()
}

// Finding P1 of the newcomer's review: 200 with an empty list while the database was gone.
#[tokio::test]
async fn no_list_looks_complete_while_the_storage_is_unreachable() {
    let (site, unreliable) = site();
    start(&site).await;
    let jobs = vec![Job::cron("nightly", "0 2 * * *").topic("t")];
    site.app.punctual.admin().reconcile("elsewhere", jobs).await.unwrap();
    let published = site.post("/api/v1/messages", &json!({ "topic": "t" })).await;
    let paths = paths(&site, published.json["id"].as_str().unwrap()).await;
    assert!(paths.len() > 25, "{paths:?}");
    // Fills the caches.
    for path in &paths {
        site.get(path).await;
    }
    unreliable.shut.store(true, Ordering::Relaxed);
    site.clock.advance(Duration::from_secs(3));
    settle().await;
    let health = site.get("/api/v1/health").await;
    assert_eq!((health.status.as_u16(), &health.json["condition"]), (200, &json!("unhealthy")));
    let text = health.json["alerts"][0]["text"].as_str().unwrap();
    assert!(text.contains("the storage does not respond"), "{text}");
    let mut lying = Vec::new();
    for path in &paths {
        let response = site.get(path).await;
        // Series come from the memory of this process, and report what is missing.
        if response.status.is_success() && !path.contains("/series") {
            lying.push(format!("{path}: {}", response.text));
        }
    }
    assert!(lying.is_empty(), "{lying:#?}");
    let jobs = site.get("/api/v1/jobs").await;
    assert_eq!(jobs.status, 503, "{}", jobs.text);
    assert!(jobs.json["detail"].as_str().unwrap().contains("storage"), "{}", jobs.text);
    assert_eq!(site.get("/health").await.status, 503);
    unreliable.shut.store(false, Ordering::Relaxed);
    site.clock.advance(Duration::from_secs(3));
    settle().await;
    assert_eq!(site.get("/api/v1/jobs").await.json["items"][0]["name"], "nightly");
    let health = site.get("/api/v1/health").await;
    assert_ne!(health.json["condition"], "unhealthy", "{}", health.text);
}

/// Returns the health within four seconds, which is less than the timeout of the page.
async fn soon(site: &Site, credentials: &(&str, String)) -> crate::site::TestResponse {
    let request = Request::get("/api/v1/health").header(credentials.0, &credentials.1);
    let four_seconds = async {
        for _ in 0..4 {
            settle().await;
            site.clock.advance(Duration::from_secs(1));
        }
        settle().await;
    };
    tokio::select! {
        biased;
        response = site.send(request.body(Body::empty()).unwrap()) => response,
        () = four_seconds => panic!("health does not respond within four seconds: {credentials:?}"),
    }
}

// The page is grey without a response, and red for `unhealthy` and 503.
// spec: H-49
#[tokio::test]
async fn a_hanging_storage_is_reported_before_the_timeout_of_the_page() {
    let (site, unreliable) = site();
    let open = soon(&site, &("accept", "application/json".to_owned())).await;
    assert_eq!(open.status, 200, "{}", open.text);
    unreliable.hangs.store(true, Ordering::Relaxed);
    site.clock.advance(Duration::from_secs(2));
    let open = soon(&site, &("accept", "application/json".to_owned())).await;
    assert_eq!((open.status.as_u16(), &open.json["condition"]), (200, &json!("unhealthy")));
    unreliable.hangs.store(false, Ordering::Relaxed);

    let settings = AuthSettings { mode: Mode::Password, ..AuthSettings::default() };
    let site = site.changed(|app| app.authenticating(settings));
    let (name, password) = ("ada", "correct horse battery");
    let user = json!({ "name": name, "role": "admin", "password": password });
    let made = site.as_role(Role::Admin).post("/api/v1/users", &user).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let login = json!({ "name": name, "password": password });
    let login = site.post("/api/v1/session", &login).await;
    let cookie = login.headers[SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned();
    let token = json!({ "name": "ci", "scopes": ["read"] });
    let token = site.as_role(Role::Admin).post("/api/v1/tokens", &token).await;
    let bearer = format!("Bearer {}", token.json["secret"].as_str().unwrap());
    for credentials in [(COOKIE.as_str(), cookie), (AUTHORIZATION.as_str(), bearer)] {
        assert_eq!(soon(&site, &credentials).await.status, 200);
        unreliable.hangs.store(true, Ordering::Relaxed);
        assert_eq!(soon(&site, &credentials).await.status, 503);
        unreliable.hangs.store(false, Ordering::Relaxed);
    }
}
