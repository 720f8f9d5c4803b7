//! Interleaved requests of two servers on one storage that change the same things, in an order that the test chooses.
//! (Findings F20 and F28 of the security review.)

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use async_trait::async_trait;
use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, COOKIE, SET_COOKIE};
use axum::http::{Request, StatusCode};
use jiff::{Timestamp, ToSpan};
use punctual::backend::documents::{
    Document, DocumentStore, ExpectedVersion, KeyRange, NewDocument, PutResult, RemoveResult,
};
use punctual::{ManualClock, Result};
use punctual_server::{App, AppParts, AuthSettings, Mode, Role, router};
use serde_json::{Value, json};

use crate::site::{Site, TestResponse};
use crate::work::idle;

/// Number of storage calls that is larger than that of one request.
const STEPS: usize = 20;
/// Number of polls that is larger than two requests need.
const POLLS_MAX: usize = 1_000;

/// Document store that yields to other requests before every call.
struct SteppedDocuments(Arc<dyn DocumentStore>);

impl SteppedDocuments {
    async fn inner(&self) -> &dyn DocumentStore {
        let mut is_first = true;
        poll_fn(|context| {
            if is_first {
                is_first = false;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
        &*self.0
    }
}

#[async_trait]
impl DocumentStore for SteppedDocuments {
    async fn put(
        &self,
        draft: NewDocument,
        seen: ExpectedVersion,
        now: Timestamp,
    ) -> Result<PutResult> {
        self.inner().await.put(draft, seen, now).await
    }

    async fn put_all(&self, drafts: Vec<NewDocument>, now: Timestamp) -> Result<()> {
        self.inner().await.put_all(drafts, now).await
    }

    async fn get(&self, kind: &str, key: &str, now: Timestamp) -> Result<Option<Document>> {
        self.inner().await.get(kind, key, now).await
    }

    async fn list(&self, kind: &str, range: KeyRange, now: Timestamp) -> Result<Vec<Document>> {
        self.inner().await.list(kind, range, now).await
    }

    async fn remove(&self, kind: &str, key: &str, seen: ExpectedVersion) -> Result<RemoveResult> {
        self.inner().await.remove(kind, key, seen).await
    }

    async fn expire(&self, limit: usize, now: Timestamp) -> Result<u64> {
        self.inner().await.expire(limit, now).await
    }
}

fn closed() -> AuthSettings {
    AuthSettings { mode: Mode::Password, ..AuthSettings::default() }
}

/// Another server on the storage of a site, with these documents and this clock.
fn another(site: &Site, documents: Arc<dyn DocumentStore>, clock: Arc<ManualClock>) -> Site {
    let parts = AppParts::clone(&site.another().app);
    let app =
        App::new(AppParts { documents, clock: clock.clone(), ..parts }).authenticating(closed());
    let router = router(app.clone());
    Site { app, clock, router, role: None }
}

/// Two servers on one storage; the clock of the second is ahead by some seconds.
struct Pair {
    storage: Site,
    first: Site,
    second: Site,
}

impl Pair {
    fn new(ahead: i64) -> Self {
        let storage = idle();
        let documents: Arc<dyn DocumentStore> =
            Arc::new(SteppedDocuments(storage.app.documents.clone()));
        let now = storage.clock.now();
        let clock = Arc::new(ManualClock::new(now + ahead.seconds()));
        let first = another(&storage, documents.clone(), storage.clock.clone());
        let second = another(&storage, documents, clock);
        let (first, second) = (first.as_role(Role::Admin), second.as_role(Role::Admin));
        Self { storage, first, second }
    }

    /// Resets the users to these admins and an operator.
    async fn admins(&self, names: &[&str]) {
        let (documents, now) = (&self.storage.app.documents, self.storage.clock.now());
        let _ = documents.remove("last_admin", "departures", ExpectedVersion::Any).await.unwrap();
        for name in ["ada", "bob", "eve", "zoe"] {
            let role = if names.contains(&name) { "admin" } else { "operator" };
            let user = json!({ "id": name, "name": name, "role": role, "hash": "", "generation": 1,
                "disabled": false, "created_at": now, "last_login_at": null });
            let put = documents
                .put(NewDocument::new("user", name, user), ExpectedVersion::Any, now)
                .await;
            assert!(matches!(put.unwrap(), PutResult::Stored(_)));
        }
    }

    async fn admins_left(&self) -> usize {
        let users = self.storage.as_role(Role::Admin).get("/api/v1/users").await;
        let users = users.json["items"].as_array().unwrap().clone();
        users.iter().filter(|user| user["role"] == "admin" && user["disabled"] == false).count()
    }
}

/// A request in progress.
struct Call<'a> {
    future: Pin<Box<dyn Future<Output = TestResponse> + 'a>>,
    response: Option<TestResponse>,
}

/// Change that removes an admin.
#[derive(Clone, Copy, Debug)]
enum Loss {
    Demoted,
    Disabled,
    RemoveResult,
}

impl<'a> Call<'a> {
    fn new(site: &'a Site, path: &'a str, loss: Loss) -> Self {
        let future = Box::pin(async move {
            match loss {
                Loss::Demoted => site.call("PATCH", path, &json!({ "role": "viewer" })).await,
                Loss::Disabled => site.call("PATCH", path, &json!({ "disabled": true })).await,
                Loss::RemoveResult => site.call("DELETE", path, &Value::Null).await,
            }
        });
        Self { future, response: None }
    }

    /// Continues the request by this number of storage calls, or to its end.
    async fn go(&mut self, steps: usize) {
        for _ in 0..steps {
            if self.response.is_some() {
                return;
            }
            poll_fn(|context| {
                if let Poll::Ready(response) = self.future.as_mut().poll(context) {
                    self.response = Some(response);
                }
                Poll::Ready(())
            })
            .await;
        }
    }

    async fn end(mut self) -> StatusCode {
        self.go(POLLS_MAX).await;
        self.response.expect("it ends").status
    }
}

const LOSSES: [(Loss, Loss); 4] = [
    (Loss::Demoted, Loss::Demoted),
    (Loss::Disabled, Loss::RemoveResult),
    (Loss::RemoveResult, Loss::Demoted),
    (Loss::RemoveResult, Loss::RemoveResult),
];

/// Removes ada and bob as admins: some steps of one, some of the other, then the rest of both.
async fn both(pair: &Pair, (one, other): (Loss, Loss), (n, m): (usize, usize)) -> [StatusCode; 2] {
    let mut of_ada = Call::new(&pair.first, "/api/v1/users/ada", one);
    let mut of_bob = Call::new(&pair.second, "/api/v1/users/bob", other);
    of_ada.go(n).await;
    of_bob.go(m).await;
    [of_ada.end().await, of_bob.end().await]
}

// Finding F20: two servers remove the last two admins.
// spec: C-6
#[tokio::test]
async fn two_servers_cannot_remove_the_last_two_admins() {
    // A server whose clock is ahead treats a change that the other one has just begun as abandoned.
    for ahead in [0, 61] {
        let pair = Pair::new(ahead);
        for losses in LOSSES {
            for (n, m) in (0..STEPS).flat_map(|n| (0..STEPS).map(move |m| (n, m))) {
                pair.admins(&["ada", "bob"]).await;
                let statuses = both(&pair, losses, (n, m)).await;
                let place = format!("{losses:?} after {n} and {m} steps, {ahead} s: {statuses:?}");
                let done = statuses.iter().filter(|status| status.is_success()).count();
                assert_eq!(done, 1, "{place}");
                assert!(statuses.contains(&StatusCode::CONFLICT), "{place}");
                assert_eq!(pair.admins_left().await, 1, "{place}");
            }
        }
    }
}

// Finding F20.
// spec: C-6
#[tokio::test]
async fn two_servers_can_remove_two_of_three_admins() {
    let pair = Pair::new(0);
    for (n, m) in (0..STEPS).flat_map(|n| (0..STEPS).map(move |m| (n, m))) {
        pair.admins(&["ada", "bob", "zoe"]).await;
        let statuses = both(&pair, LOSSES[0], (n, m)).await;
        assert_eq!(statuses, [StatusCode::OK; 2], "after {n} and {m} steps");
        assert_eq!(pair.admins_left().await, 1);
    }
}

// Finding F20: a server that stops in the middle of a change must not block changes of users for long.
// spec: C-6
#[tokio::test]
async fn an_abandoned_change_blocks_others_for_a_minute() {
    let pair = Pair::new(0);
    let mut refused = 0;
    for n in 0..STEPS {
        pair.admins(&["ada", "bob"]).await;
        let mut of_ada = Call::new(&pair.first, "/api/v1/users/ada", Loss::Demoted);
        of_ada.go(n).await;
        drop(of_ada);
        let is_done = pair.admins_left().await == 1;
        let of_bob =
            async || Call::new(&pair.second, "/api/v1/users/bob", Loss::Demoted).end().await;
        if of_bob().await == StatusCode::CONFLICT && !is_done {
            refused += 1;
            pair.second.clock.set(pair.second.clock.now() + 61.seconds());
            assert_eq!(of_bob().await, StatusCode::OK, "after {n} steps");
        }
        assert_eq!(pair.admins_left().await, 1, "after {n} steps");
    }
    assert!(refused > 0, "it never conflicted");
}

/// Document store that deletes the session just before it is renewed.
struct LogoutBeforeRenewal {
    inner: Arc<dyn DocumentStore>,
    renewals: AtomicU64,
}

#[async_trait]
impl DocumentStore for LogoutBeforeRenewal {
    async fn put(
        &self,
        draft: NewDocument,
        seen: ExpectedVersion,
        now: Timestamp,
    ) -> Result<PutResult> {
        if draft.kind == "session" && matches!(seen, ExpectedVersion::Version(_)) {
            self.renewals.fetch_add(1, Ordering::Relaxed);
            // As the logout endpoint does on another server.
            let removed = self.inner.remove(&draft.kind, &draft.key, ExpectedVersion::Any).await?;
            assert_eq!(removed, RemoveResult::Removed);
        }
        self.inner.put(draft, seen, now).await
    }

    async fn put_all(&self, drafts: Vec<NewDocument>, now: Timestamp) -> Result<()> {
        self.inner.put_all(drafts, now).await
    }

    async fn get(&self, kind: &str, key: &str, now: Timestamp) -> Result<Option<Document>> {
        self.inner.get(kind, key, now).await
    }

    async fn list(&self, kind: &str, range: KeyRange, now: Timestamp) -> Result<Vec<Document>> {
        self.inner.list(kind, range, now).await
    }

    async fn remove(&self, kind: &str, key: &str, seen: ExpectedVersion) -> Result<RemoveResult> {
        self.inner.remove(kind, key, seen).await
    }

    async fn expire(&self, limit: usize, now: Timestamp) -> Result<u64> {
        self.inner.expire(limit, now).await
    }
}

// Finding F28: the renewal of a session between its reading and its writing.
// spec: C-6
#[tokio::test]
async fn a_logout_wins_over_the_renewal_of_its_session() {
    let storage = idle();
    let (inner, clock) = (storage.app.documents.clone(), storage.clock.clone());
    let documents =
        Arc::new(LogoutBeforeRenewal { inner: inner.clone(), renewals: AtomicU64::new(0) });
    let calm = another(&storage, inner.clone(), clock.clone());
    let racing = another(&storage, documents.clone(), clock.clone());
    let password = "correct horse battery";
    let user = json!({ "name": "carol", "role": "viewer", "password": password });
    let made = calm.as_role(Role::Admin).post("/api/v1/users", &user).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    let login = json!({ "name": "carol", "password": password });
    let begun = calm.post("/api/v1/session", &login).await;
    let cookie = begun.headers[SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned();
    let get_status = async |site: &Site| {
        let request = Request::get("/api/v1/jobs").header(COOKIE, &cookie);
        let request = request.header(CONTENT_TYPE, "application/json");
        site.send(request.body(Body::empty()).unwrap()).await.status.as_u16()
    };
    assert_eq!(get_status(&racing).await, 200);
    assert_eq!(documents.renewals.load(Ordering::Relaxed), 0, "too early to renew it");
    // After half of its twelve hours.
    clock.set(clock.now() + 7.hours());
    assert_eq!(get_status(&racing).await, 200, "it had not ended when it was read");
    assert_eq!(documents.renewals.load(Ordering::Relaxed), 1);
    let range = KeyRange { limit: 10, ..KeyRange::default() };
    let kept = inner.list("session", range, clock.now()).await.unwrap();
    assert_eq!(kept, [], "the renewal did not bring it back");
    for site in [&racing, &calm] {
        assert_eq!(get_status(site).await, 401);
    }
}
