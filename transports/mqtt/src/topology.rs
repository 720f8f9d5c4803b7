//! Topology on the broker: lists the topics that groups have subscribed to. The broker keeps the retained status of the members, with the topic in its
//! name.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual::clock::{add, within};
use punctual::model::Topic;

use crate::adoption::client;
use crate::connection::Connection;
use crate::connector::{Connector, SessionOptions};
use crate::error::ConnectionError;
use crate::names::{all_members, inbox, topic_of};
use crate::wire::Publication;

/// Lists topics, in order. The broker sends the retained messages on subscribing, and the message to this client
/// after them.
pub(crate) async fn list(
    connector: &Connector,
    prefix: &str,
    id: &str,
) -> Result<Vec<Topic>, ConnectionError> {
    let client = client(prefix, id);
    let options = SessionOptions {
        client: &client,
        clean: true,
        session_retention: Duration::ZERO,
        receive_max: u16::MAX,
        will: None,
    };
    let (connection, mut publishes) = Connection::open(connector, options).await?;
    let inbox = inbox(prefix, id);
    connection.subscribe(&[(&all_members(prefix), false), (&inbox, false)]).await?;
    connection
        .publish(&[Publication { retained: false, ..Publication::retained(&inbox, b"end") }])
        .await?;
    let mut topics = BTreeSet::new();
    loop {
        let until = add(connector.clock.now(), connector.timeout);
        let next = within(&*connector.clock, until, publishes.recv()).await;
        match next.ok_or(ConnectionError::Timeout(connector.timeout))? {
            None => return Err(connection.error()),
            Some(publish) if publish.topic == inbox => break,
            Some(publish) if publish.payload.is_empty() => {}
            Some(publish) => topics.extend(topic_of(prefix, &publish.topic)),
        }
    }
    connection.end().await;
    Ok(topics.into_iter().collect())
}
