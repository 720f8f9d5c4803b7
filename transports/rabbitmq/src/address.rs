//! Addresses of a broker: `amqp://user:password@host:5672/vhost`, or `amqps://` for TLS; the client library parses them.

use lapin::uri::AMQPUri;
use punctual::{Error, Result};

/// Parses an address. Errors do not show it, because it may hold a password.
pub(crate) fn parse(text: &str) -> Result<AMQPUri> {
    let form =
        "an address of RabbitMQ is amqp://user:password@host:5672/vhost, or amqps:// with TLS";
    let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
    if scheme != "amqp" && scheme != "amqps" {
        return Err(Error::invalid(format!("the address begins with {scheme:?}; {form}")));
    }
    text.parse().map_err(|_| Error::invalid(format!("the address cannot be read; {form}")))
}
