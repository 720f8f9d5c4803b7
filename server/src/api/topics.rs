//! Topics, transports and subscriptions: what is sent by which way, and who receives it.

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
use crate::problem::Answer;
use crate::surroundings::workers;

/// The most pages of messages, and of executions, that are counted.
const PAGES_MAX: usize = 5;

/// What this file answers.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(transports::list))
        .routes(routes!(subscriptions::list))
        .routes(routes!(subscriptions::pause))
        .routes(routes!(subscriptions::resume))
}

/// A topic.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
struct TopicView {
    /// Its name.
    topic: String,
    /// The transport that carries it; null when the storage does.
    transport: Option<String>,
    /// The groups that receive it.
    groups: BTreeSet<String>,
    /// Whether a process that is known has a handler for it.
    handlers: bool,
    /// How many of the messages that were looked at are of it.
    published: u64,
    /// How many of the attempts that were looked at succeeded.
    handled: u64,
    /// How many of them failed.
    failed: u64,
    /// When something of it was last sent or handled.
    last_at: Option<Timestamp>,
}

/// Topics.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct TopicList {
    /// The topics, by name.
    items: Vec<TopicView>,
    /// Always null: the list is whole.
    next: Option<String>,
    /// Whether there are older messages or executions than those that were counted.
    more: bool,
}

/// The topics that are known so far.
#[derive(Clone, Default)]
pub(crate) struct Topics {
    known: BTreeMap<Topic, TopicView>,
    more: bool,
}

impl Topics {
    /// Those of messages and attempts of late.
    async fn seen(app: &App) -> punctual::Result<Arc<Self>> {
        let mut topics = Self::default();
        topics.sent(app).await?;
        topics.handled(app).await?;
        Ok(Arc::new(topics))
    }

    fn at(&mut self, topic: &Topic) -> &mut TopicView {
        self.known.entry(topic.clone()).or_default()
    }

    /// What was sent lately.
    async fn sent(&mut self, app: &App) -> punctual::Result<()> {
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

    /// What was handled lately.
    async fn handled(&mut self, app: &App) -> punctual::Result<()> {
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

/// Looks anew where that is costly.
pub(crate) async fn renew(app: &App) -> punctual::Result<()> {
    app.node().topics_seen.renew(&*app.clock, Topics::seen(app)).await
}

/// Every topic that is received, handled, or was sent lately.
#[utoipa::path(get, path = "/topics", tag = "topics", responses((status = 200, body = TopicList)))]
async fn list(State(app): State<App>, caller: Caller) -> Answer<Json<TopicList>> {
    caller.must_be(Role::Viewer)?;
    let seen = app.node().topics_seen.get(&*app.clock, Duration::ZERO, Topics::seen(&app)).await?;
    let mut topics = (*seen).clone();
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
        if let Ok(topic) = Topic::new(topic) {
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
