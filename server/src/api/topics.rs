//! Topics, with their transports, subscriber groups and recent traffic.

mod subscriptions;
mod transports;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual::inspect::{ExecutionFilter, MessageFilter, PAGE_LIMIT_MAX, PageRequest};
use punctual::model::Topic;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::caller::{Caller, Role};
use crate::problem::ApiResult;
use crate::why_facts::workers;

/// Largest number of pages read of messages, and of executions.
const PAGES_MAX: usize = 5;

/// Returns the routes of this module.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(transports::list))
        .routes(routes!(subscriptions::list))
        .routes(routes!(subscriptions::pause))
        .routes(routes!(subscriptions::resume))
}

/// A topic and its recent traffic.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
struct TopicView {
    /// Name of the topic.
    topic: String,
    /// Transport of the topic; null for the storage.
    transport: Option<String>,
    /// Subscriber groups.
    groups: BTreeSet<String>,
    /// Whether a known process has a handler for it.
    handlers: bool,
    /// Number of messages among the newest ones that were read.
    published: u64,
    /// Number of succeeded attempts among the newest ones that were read.
    handled: u64,
    /// Number of failed attempts among them.
    failed: u64,
    /// Last time a message was published or handled.
    last_at: Option<Timestamp>,
}

/// All topics.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct TopicList {
    /// Topics by name.
    items: Vec<TopicView>,
    /// Always null; the list has one page.
    next: Option<String>,
    /// Whether there are older messages or executions than the ones that were read.
    more: bool,
}

/// Topics of recent messages and attempts.
#[derive(Clone, Default)]
pub(crate) struct RecentTopics {
    known: BTreeMap<Topic, TopicView>,
    more: bool,
}

impl RecentTopics {
    /// Reads the newest messages and attempts.
    async fn read(app: &App) -> punctual::Result<Arc<Self>> {
        let mut topics = Self::default();
        topics.count_messages(app).await?;
        topics.count_attempts(app).await?;
        Ok(Arc::new(topics))
    }

    fn at(&mut self, topic: &Topic) -> &mut TopicView {
        self.known.entry(topic.clone()).or_default()
    }

    /// Counts recent messages.
    async fn count_messages(&mut self, app: &App) -> punctual::Result<()> {
        let mut page = PageRequest::first(PAGE_LIMIT_MAX);
        for _ in 0..PAGES_MAX {
            let paged = app.inspect.messages(MessageFilter::default(), page).await?;
            for record in &paged.rows {
                let view = self.at(&record.message.topic);
                view.published += 1;
                view.last_at = view.last_at.max(Some(record.message.created_at));
            }
            let Some(next) = paged.next else { return Ok(()) };
            page = PageRequest::after(next, PAGE_LIMIT_MAX);
        }
        self.more = true;
        Ok(())
    }

    /// Counts recent attempts.
    async fn count_attempts(&mut self, app: &App) -> punctual::Result<()> {
        let mut page = PageRequest::first(PAGE_LIMIT_MAX);
        for _ in 0..PAGES_MAX {
            let paged = app.inspect.executions(ExecutionFilter::default(), page).await?;
            for execution in &paged.rows {
                let view = self.at(&execution.topic);
                view.handled += u64::from(execution.ending.as_str() == "succeeded");
                view.failed += u64::from(execution.ending.is_failure());
                view.last_at = view.last_at.max(Some(execution.ended_at));
            }
            let Some(next) = paged.next else { return Ok(()) };
            page = PageRequest::after(next, PAGE_LIMIT_MAX);
        }
        self.more = true;
        Ok(())
    }
}

/// Refreshes the cached topics.
pub(crate) async fn renew(app: &App) -> punctual::Result<()> {
    app.node().topics_seen.renew(&*app.clock, RecentTopics::read(app)).await
}

/// Lists topics that have subscribers, handlers or recent messages.
#[utoipa::path(get, path = "/topics", tag = "topics", responses((status = 200, body = TopicList)))]
async fn list(State(app): State<App>, caller: Caller) -> ApiResult<Json<TopicList>> {
    caller.must_be(Role::Viewer)?;
    let recent =
        app.node().topics_seen.get(&*app.clock, Duration::ZERO, RecentTopics::read(&app)).await?;
    let mut topics = (*recent).clone();
    for (topic, group) in app.storage.groups().await? {
        topics.at(&topic).groups.insert(group);
    }
    for status in app.punctual.subscriptions().list() {
        let view = topics.at(&status.name.topic);
        view.groups.insert(status.name.group.to_string());
        view.handlers = true;
        view.transport = Some(status.name.transport.to_string());
    }
    for topic in workers(&app).await?.into_iter().filter_map(|worker| worker.topics).flatten() {
        if let Ok(topic) = Topic::new(topic.as_str()) {
            topics.at(&topic).handlers = true;
        }
    }
    let more = topics.more;
    let items = topics.known.into_iter().map(|(topic, view)| TopicView {
        transport: view
            .transport
            .or_else(|| app.punctual.route(&topic).map(|name| name.to_string())),
        topic: topic.to_string(),
        ..view
    });
    Ok(Json(TopicList { items: items.collect(), next: None, more }))
}
