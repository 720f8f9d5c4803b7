//! Sending: messages now and later. A [`Publisher`] sets the identity, due time and correlation;
//! [`dispatch`] hands it to a transport or to the storage.

mod batch;
mod dispatch;
mod follow_ups;
mod middleware_chain;
mod outbound;
mod publish;
mod publisher;
mod relations;
mod request;
mod requests;
mod routing;
mod sender;

pub use batch::{Batch, BatchResult};
pub(crate) use follow_ups::follow_ups;
pub use outbound::Sending;
pub(crate) use outbound::{Outbound, OutboundSettings};
pub(crate) use publish::Draft;
pub use publish::{Publish, PublishResult};
pub use publisher::Publisher;
pub(crate) use relations::topic_key;
pub use request::{Reply, Request};
pub(crate) use sender::Sender;
