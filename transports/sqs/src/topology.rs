//! Topology: creates the queues of a group where they are missing, and checks existing ones. Lists queues, from
//! which groups and topics are known.

use std::time::Duration;

use aws_sdk_sqs::types::QueueAttributeName;
use punctual::model::Topic;
use punctual::{Error, Result};

use crate::connection::BrokerConnection;
use crate::error::CallError;
use crate::names::{GroupNames, Names, name_of};
use crate::settings::Settings;

/// Retention of created queues: the maximum of SQS.
const RETENTION_DEFAULT: Duration = Duration::from_hours(14 * 24);
/// Bytes that a message leaves free for the headers of its dead letter, also when a foreign client sends it.
pub(crate) const DEAD_LETTER_HEADROOM: usize = 4 * 1024;
/// Most queues in one page of a listing.
const PAGE: i32 = 1_000;
/// Most pages of a listing.
const PAGES_MAX: usize = 100;

/// URLs of the three queues of a group.
#[derive(Clone, Debug)]
pub(crate) struct Queues {
    pub(crate) queue: String,
    pub(crate) dead: String,
    pub(crate) invalid: String,
    /// Whether the queue did not exist before.
    pub(crate) is_new: bool,
}

/// Ensures that the queues of a group exist with the required settings.
pub(crate) async fn declare(
    connection: &BrokerConnection,
    settings: &Settings,
    names: &GroupNames,
) -> Result<Queues> {
    let (queue, dead, invalid) = tokio::try_join!(
        Box::pin(ensure_queue(
            connection,
            settings,
            &names.queue,
            settings.message_max - DEAD_LETTER_HEADROOM
        )),
        Box::pin(ensure_queue(connection, settings, &names.dead, settings.message_max)),
        Box::pin(ensure_queue(connection, settings, &names.invalid, settings.message_max)),
    )?;
    let is_new = queue.1;
    Ok(Queues { queue: queue.0, dead: dead.0, invalid: invalid.0, is_new })
}

/// Ensures that a queue for messages of this size exists; returns its URL and whether it was created.
async fn ensure_queue(
    connection: &BrokerConnection,
    settings: &Settings,
    name: &str,
    size: usize,
) -> Result<(String, bool)> {
    let found = connection.calls.get_queue_url().queue_name(name).send().await;
    match found.map_err(|error| CallError::map_error(error, &connection.endpoint)) {
        Ok(found) => {
            let url = found.queue_url.unwrap_or_default();
            check(connection, settings, &url, size).await?;
            Ok((url, false))
        }
        Err(error) if error.is_queue_missing() && settings.declares => {
            Ok((create(connection, settings, name, size).await?, true))
        }
        Err(error) if error.is_queue_missing() => Err(Error::not_found(format!(
            "SQS at {} has no queue {name}; create it, or let it be declared",
            connection.endpoint
        ))),
        Err(error) => Err(Error::from(error).during("subscribe")),
    }
}

/// Creates a queue; uses one that another process has created meanwhile.
async fn create(
    connection: &BrokerConnection,
    settings: &Settings,
    name: &str,
    size: usize,
) -> Result<String> {
    let retention = settings.retention.unwrap_or(RETENTION_DEFAULT).as_secs().to_string();
    let call = connection.calls.create_queue().queue_name(name);
    let call = call.attributes(QueueAttributeName::MessageRetentionPeriod, retention);
    let call = call.attributes(QueueAttributeName::MaximumMessageSize, size.to_string());
    match call.send().await.map_err(|error| CallError::map_error(error, &connection.endpoint)) {
        Ok(made) => Ok(made.queue_url.unwrap_or_default()),
        Err(error) if error.is_queue_conflict() => {
            let found = connection.calls.get_queue_url().queue_name(name).send().await;
            let found = found.map_err(|error| CallError::map_error(error, &connection.endpoint))?;
            let url = found.queue_url.unwrap_or_default();
            check(connection, settings, &url, size).await?;
            Ok(url)
        }
        Err(error) => Err(Error::from(error).during("subscribe")),
    }
}

/// Refuses a queue whose settings would break a guarantee of the transport.
async fn check(
    connection: &BrokerConnection,
    settings: &Settings,
    url: &str,
    size: usize,
) -> Result<()> {
    let names = [
        QueueAttributeName::RedrivePolicy,
        QueueAttributeName::MaximumMessageSize,
        QueueAttributeName::MessageRetentionPeriod,
    ];
    let call = connection.calls.get_queue_attributes().queue_url(url);
    let response = call.set_attribute_names(Some(names.to_vec())).send().await;
    let response = response.map_err(|error| {
        Error::from(CallError::map_error(error, &connection.endpoint)).during("subscribe")
    })?;
    let attributes = response.attributes.unwrap_or_default();
    let text = |name| attributes.get(&name).map(String::as_str);
    let number = |name| text(name).and_then(|text| text.parse::<u64>().ok());
    let mut differences = Vec::new();
    if let Some(policy) = text(QueueAttributeName::RedrivePolicy) {
        differences.push(format!(
            "its RedrivePolicy is {policy} and it must have none, because the engine counts attempts"
        ));
    }
    let wanted = u64::try_from(size).unwrap_or(u64::MAX);
    if let Some(most) = number(QueueAttributeName::MaximumMessageSize)
        && most < wanted
    {
        differences.push(format!("its MaximumMessageSize is {most} and must be at least {wanted}"));
    }
    if let Some(wanted) = settings.retention.map(|retention| retention.as_secs())
        && let Some(retained) = number(QueueAttributeName::MessageRetentionPeriod)
        && retained != wanted
    {
        differences
            .push(format!("its MessageRetentionPeriod is {retained} and was set to {wanted}"));
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(Error::conflict(format!(
        "the queue {} of SQS at {} exists with other settings: {}; change it or use another prefix",
        name_of(url),
        connection.endpoint,
        differences.join("; ")
    )))
}

/// Returns the URLs of all queues whose names begin with a prefix.
pub(crate) async fn list_queues(
    connection: &BrokerConnection,
    prefix: &str,
) -> Result<Vec<String>> {
    let mut urls = Vec::new();
    let mut token = None;
    for _ in 0..PAGES_MAX {
        let call = connection.calls.list_queues().queue_name_prefix(prefix).max_results(PAGE);
        let page = call.set_next_token(token).send().await;
        let page = page.map_err(|error| {
            Error::from(CallError::map_error(error, &connection.endpoint)).during("list")
        })?;
        urls.extend(page.queue_urls.unwrap_or_default());
        token = page.next_token.filter(|token| !token.is_empty());
        if token.is_none() {
            return Ok(urls);
        }
    }
    Err(Error::unsupported(format!(
        "SQS at {} has more queues beginning with {prefix} than can be listed; use another prefix",
        connection.endpoint
    )))
}

/// Returns the topics that have a queue, sorted.
pub(crate) async fn topics(connection: &BrokerConnection, names: &Names) -> Result<Vec<Topic>> {
    let urls = list_queues(connection, &names.prefix()).await?;
    let known = urls.iter().filter_map(|url| names.parse(name_of(url)));
    let mut topics: Vec<Topic> = known.map(|(topic, _)| topic).collect();
    topics.sort();
    topics.dedup();
    Ok(topics)
}
