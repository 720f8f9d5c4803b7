//! The queues of a group: made where they are missing and allowed, and checked where they are there. Also
//! which queues there are, from which the groups and the topics are known.

use std::time::Duration;

use aws_sdk_sqs::types::QueueAttributeName;
use punctual::model::Topic;
use punctual::{Error, Result};

use crate::fault::Fault;
use crate::link::Link;
use crate::names::{GroupNames, Names, name_of};

/// As long as SQS keeps anything.
const RETENTION_DEFAULT: Duration = Duration::from_hours(14 * 24);
/// What a message leaves free for what a letter of it says, also when somebody else sends it.
pub(crate) const LETTER_ROOM: usize = 4 * 1024;
/// The most queues of one page of a listing.
const PAGE: i32 = 1_000;
/// The most pages that are asked for.
const PAGES_MAX: usize = 100;

/// How queues are made and what is expected of them.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) names: Names,
    /// Whether missing queues are made.
    pub(crate) declares: bool,
    /// How long messages are kept, when somebody said so.
    pub(crate) retention: Option<Duration>,
    /// The largest message, letters included.
    pub(crate) message_max: usize,
}

/// The addresses of the three queues of a group.
#[derive(Clone, Debug)]
pub(crate) struct Queues {
    pub(crate) queue: String,
    pub(crate) dead: String,
    pub(crate) invalid: String,
    /// Whether the queue was not there before.
    pub(crate) is_new: bool,
}

/// Sees to it that the queues of a group are there and as they should be.
pub(crate) async fn declare(
    link: &Link,
    settings: &Settings,
    names: &GroupNames,
) -> Result<Queues> {
    let (queue, dead, invalid) = tokio::try_join!(
        Box::pin(ensure(link, settings, &names.queue, settings.message_max - LETTER_ROOM)),
        Box::pin(ensure(link, settings, &names.dead, settings.message_max)),
        Box::pin(ensure(link, settings, &names.invalid, settings.message_max)),
    )?;
    let is_new = queue.1;
    Ok(Queues { queue: queue.0, dead: dead.0, invalid: invalid.0, is_new })
}

/// The address of a queue for messages as large as that, and whether it was made.
async fn ensure(
    link: &Link,
    settings: &Settings,
    name: &str,
    size: usize,
) -> Result<(String, bool)> {
    let found = link.calls.get_queue_url().queue_name(name).send().await;
    match found.map_err(|error| Fault::of(error, &link.place)) {
        Ok(found) => {
            let url = found.queue_url.unwrap_or_default();
            check(link, settings, &url, size).await?;
            Ok((url, false))
        }
        Err(fault) if fault.is_without_queue() && settings.declares => {
            Ok((create(link, settings, name, size).await?, true))
        }
        Err(fault) if fault.is_without_queue() => Err(Error::not_found(format!(
            "SQS at {} has no queue {name}; create it, or let it be declared",
            link.place
        ))),
        Err(fault) => Err(Error::from(fault).during("subscribe")),
    }
}

/// Makes a queue; one that somebody else made meanwhile is as good.
async fn create(link: &Link, settings: &Settings, name: &str, size: usize) -> Result<String> {
    let retention = settings.retention.unwrap_or(RETENTION_DEFAULT).as_secs().to_string();
    let call = link.calls.create_queue().queue_name(name);
    let call = call.attributes(QueueAttributeName::MessageRetentionPeriod, retention);
    let call = call.attributes(QueueAttributeName::MaximumMessageSize, size.to_string());
    match call.send().await.map_err(|error| Fault::of(error, &link.place)) {
        Ok(made) => Ok(made.queue_url.unwrap_or_default()),
        Err(fault) if fault.is_other_queue() => {
            let found = link.calls.get_queue_url().queue_name(name).send().await;
            let found = found.map_err(|error| Fault::of(error, &link.place))?;
            let url = found.queue_url.unwrap_or_default();
            check(link, settings, &url, size).await?;
            Ok(url)
        }
        Err(fault) => Err(Error::from(fault).during("subscribe")),
    }
}

/// Refuses a queue on which we could not keep what we promise.
async fn check(link: &Link, settings: &Settings, url: &str, size: usize) -> Result<()> {
    let asked = [
        QueueAttributeName::RedrivePolicy,
        QueueAttributeName::MaximumMessageSize,
        QueueAttributeName::MessageRetentionPeriod,
    ];
    let call = link.calls.get_queue_attributes().queue_url(url);
    let told = call.set_attribute_names(Some(asked.to_vec())).send().await;
    let told =
        told.map_err(|error| Error::from(Fault::of(error, &link.place)).during("subscribe"))?;
    let attributes = told.attributes.unwrap_or_default();
    let text = |name| attributes.get(&name).map(String::as_str);
    let number = |name| text(name).and_then(|text| text.parse::<u64>().ok());
    let mut differences = Vec::new();
    if let Some(policy) = text(QueueAttributeName::RedrivePolicy) {
        differences.push(format!(
            "its RedrivePolicy is {policy} and there must be none, because retries are counted here"
        ));
    }
    let wanted = u64::try_from(size).unwrap_or(u64::MAX);
    if let Some(most) = number(QueueAttributeName::MaximumMessageSize)
        && most < wanted
    {
        differences.push(format!("its MaximumMessageSize is {most} and must be at least {wanted}"));
    }
    if let Some(wanted) = settings.retention.map(|retention| retention.as_secs())
        && let Some(kept) = number(QueueAttributeName::MessageRetentionPeriod)
        && kept != wanted
    {
        differences.push(format!("its MessageRetentionPeriod is {kept} and was set to {wanted}"));
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(Error::conflict(format!(
        "the queue {} of SQS at {} is there with other settings: {}; change it or choose another prefix",
        name_of(url),
        link.place,
        differences.join("; ")
    )))
}

/// The addresses of all queues whose names begin so.
pub(crate) async fn list(link: &Link, prefix: &str) -> Result<Vec<String>> {
    let mut urls = Vec::new();
    let mut token = None;
    for _ in 0..PAGES_MAX {
        let call = link.calls.list_queues().queue_name_prefix(prefix).max_results(PAGE);
        let page = call.set_next_token(token).send().await;
        let page =
            page.map_err(|error| Error::from(Fault::of(error, &link.place)).during("list"))?;
        urls.extend(page.queue_urls.unwrap_or_default());
        token = page.next_token.filter(|token| !token.is_empty());
        if token.is_none() {
            return Ok(urls);
        }
    }
    Err(Error::unsupported(format!(
        "SQS at {} has more queues beginning with {prefix} than can be listed; choose another prefix",
        link.place
    )))
}

/// The topics that have a queue, in order.
pub(crate) async fn topics(link: &Link, names: &Names) -> Result<Vec<Topic>> {
    let urls = list(link, &names.all()).await?;
    let known = urls.iter().filter_map(|url| names.read(name_of(url)));
    let mut topics: Vec<Topic> = known.map(|(topic, _)| topic).collect();
    topics.sort();
    topics.dedup();
    Ok(topics)
}
