//! The topics that groups have subscribed to: what their members say of themselves is kept by the broker,
//! with the topic in its name.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual::clock::{add, within};
use punctual::model::Topic;

use crate::adoption::client;
use crate::dial::{Dial, Who};
use crate::fault::Trouble;
use crate::link::Link;
use crate::names::{everybody, inbox, topic_of};
use crate::wire::Parcel;

/// Lists them, in order. The broker sends what it keeps when we subscribe, and what we say to ourselves
/// behind it.
pub(crate) async fn list(dial: &Dial, prefix: &str, id: &str) -> Result<Vec<Topic>, Trouble> {
    let client = client(prefix, id);
    let who = Who {
        client: &client,
        clean: true,
        keep_for: Duration::ZERO,
        receive_max: u16::MAX,
        will: None,
    };
    let (link, mut arriving) = Link::open(dial, who).await?;
    let inbox = inbox(prefix, id);
    link.subscribe(&[(&everybody(prefix), false), (&inbox, false)]).await?;
    link.publish(&[Parcel { retained: false, ..Parcel::note(&inbox, b"end") }]).await?;
    let mut topics = BTreeSet::new();
    loop {
        let until = add(dial.clock.now(), dial.timeout);
        let next = within(&*dial.clock, until, arriving.recv()).await;
        match next.ok_or(Trouble::Silent(dial.timeout))? {
            None => return Err(link.trouble()),
            Some(publish) if publish.topic == inbox => break,
            Some(publish) if publish.payload.is_empty() => {}
            Some(publish) => topics.extend(topic_of(prefix, &publish.topic)),
        }
    }
    link.end().await;
    Ok(topics.into_iter().collect())
}
