//! How this server calls others over HTTP: by one kind of client, which follows no redirects by itself, asks no
//! proxy of the environment, and says who calls.

use punctual::{Error, Result};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};

/// A client as all of ours are, after `more` was said of it.
pub(crate) fn client(more: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Result<Client> {
    // The first one who asks decides for the process; who was first does not matter.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder()
        .redirect(Policy::none())
        .no_proxy()
        .user_agent(concat!("punctual/", env!("CARGO_PKG_VERSION")));
    let made = more(builder).build();
    made.map_err(|error| Error::internal("a client for HTTP cannot be made").caused_by(error))
}
