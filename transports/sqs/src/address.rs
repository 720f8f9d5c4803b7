//! Address of the queues: `sqs://eu-west-1` for Amazon's endpoint of a region, or the URL of an endpoint, such
//! as `http://key:secret@127.0.0.1:5000/?region=us-east-1`, also as `sqs+http://`. The secret is never shown.

use std::fmt;

use percent_encoding::percent_decode_str;
use punctual::{Error, Result};
use url::Url;

const FORM: &str = "expected sqs://eu-west-1, or https://key:secret@host:port/?region=eu-west-1";
/// Region of emulators, unless the address names one.
const REGION_DEFAULT: &str = "us-east-1";

/// Parsed address.
#[derive(Clone)]
pub(crate) struct Address {
    /// URL of the endpoint; none for Amazon's endpoint of the region.
    pub(crate) endpoint: Option<String>,
    /// Region; none for that of the environment.
    pub(crate) region: Option<String>,
    /// Access key and secret; none for those of the environment.
    pub(crate) credentials: Option<(String, String)>,
    /// Endpoint for messages, without the secret.
    pub(crate) display: String,
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let broken = |why: &str| Error::invalid(format!("the address of SQS {why}; {FORM}"));
        let text = text.trim();
        // Prefix that names the product where the scheme alone does not.
        let text = text.strip_prefix("sqs+").unwrap_or(text);
        let url = Url::parse(text).map_err(|error| broken(&error.to_string()))?;
        let credentials = credentials(&url).map_err(broken)?;
        let host = url.host_str().unwrap_or_default();
        let mut region = None;
        for (name, value) in url.query_pairs() {
            match &*name {
                "region" => region = Some(value.into_owned()),
                other => return Err(broken(&format!("has the unknown setting {other:?}"))),
            }
        }
        match url.scheme() {
            "sqs" => {
                let region = region.or_else(|| (!host.is_empty()).then(|| host.to_owned()));
                let display =
                    region.as_deref().unwrap_or("the region of the environment").to_owned();
                Ok(Self { endpoint: None, region, credentials, display })
            }
            "http" | "https" if !host.is_empty() => {
                let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
                let display = format!("{host}{port}");
                let endpoint = Some(format!("{}://{display}{}", url.scheme(), url.path()));
                let known = || region_of(host).unwrap_or(REGION_DEFAULT).to_owned();
                let region = Some(region.unwrap_or_else(known));
                Ok(Self { endpoint, region, credentials, display })
            }
            scheme => Err(broken(&format!("cannot begin with {scheme}://"))),
        }
    }

    /// Returns whether the connection is not encrypted.
    pub(crate) fn is_plain(&self) -> bool {
        self.endpoint.as_deref().is_some_and(|endpoint| endpoint.starts_with("http://"))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Address").field(&self.display).finish()
    }
}

/// Returns access key and secret of an address, if it has both; fails if it has only one.
fn credentials(url: &Url) -> std::result::Result<Option<(String, String)>, &'static str> {
    let text = |part| {
        let text = percent_decode_str(part).decode_utf8();
        text.map(String::from).map_err(|_| "has a key or a secret that is not text")
    };
    match (url.username(), url.password()) {
        ("", None) => Ok(None),
        (key, Some(secret)) if !key.is_empty() => Ok(Some((text(key)?, text(secret)?))),
        _ => Err("has a key without a secret, or a secret without a key"),
    }
}

/// Returns the region in a host name of Amazon, such as `sqs.eu-west-1.amazonaws.com`.
fn region_of(host: &str) -> Option<&str> {
    let mut parts = host.strip_prefix("sqs.")?.split('.');
    let region = parts.next()?;
    (parts.next()? == "amazonaws").then_some(region)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_endpoint_region_and_credentials() {
        let amazon = Address::parse("sqs://eu-west-1").unwrap();
        assert_eq!((amazon.endpoint, amazon.region.as_deref()), (None, Some("eu-west-1")));
        let named = Address::parse("https://sqs.eu-north-1.amazonaws.com").unwrap();
        assert_eq!(named.region.as_deref(), Some("eu-north-1"));
        assert!(!named.is_plain());
        let local = Address::parse("http://me:a%2Fb@127.0.0.1:5000/?region=x").unwrap();
        assert_eq!(local.credentials, Some(("me".to_owned(), "a/b".to_owned())));
        assert_eq!(local.endpoint.as_deref(), Some("http://127.0.0.1:5000/"));
        assert_eq!(
            (local.region.as_deref(), local.display.as_str()),
            (Some("x"), "127.0.0.1:5000")
        );
        assert!(local.is_plain());
        let named = Address::parse("sqs+http://me:a%2Fb@127.0.0.1:5000/?region=x").unwrap();
        assert_eq!(
            (named.endpoint, named.credentials),
            (local.endpoint.clone(), local.credentials.clone())
        );
        assert!(!format!("{local:?}").contains("a/b"));
    }

    #[test]
    fn a_broken_address_is_refused_without_its_secret() {
        for address in
            ["", "nonsense", "ftp://me:hush@h", "http://me@h", "http://me:hush@h/?regoin=hush"]
        {
            let error = Address::parse(address).unwrap_err().to_string();
            assert!(error.contains("sqs://eu-west-1") && !error.contains(":hush"), "{error}");
        }
    }
}
