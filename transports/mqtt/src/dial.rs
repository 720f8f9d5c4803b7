//! Making connections: TCP, TLS where the address says so, and the first words of MQTT.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use punctual::clock::{Clock, add, within};
use punctual::{Error, Result};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::address::Address;
use crate::codec::{self, Hello, Incoming, Version, Welcome};
use crate::fault::Trouble;

/// A connection, encrypted or not.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for S {}

/// How to reach the broker.
#[derive(Clone)]
pub(crate) struct Dial {
    pub(crate) address: Address,
    pub(crate) version: Version,
    pub(crate) keep_alive: Duration,
    /// How long the broker may take to answer.
    pub(crate) timeout: Duration,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tls: Option<TlsConnector>,
}

/// A connection on which the broker has welcomed us.
pub(crate) struct Dialled {
    pub(crate) stream: Box<dyn Stream>,
    pub(crate) welcome: Welcome,
    /// What came right behind the welcome.
    pub(crate) rest: BytesMut,
}

/// Who connects, and what the broker keeps of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who<'a> {
    pub(crate) client: &'a str,
    pub(crate) clean: bool,
    pub(crate) keep_for: Duration,
    pub(crate) receive_max: u16,
    pub(crate) will: Option<(&'a str, &'a [u8])>,
}

impl Dial {
    /// Host and port, for people.
    pub(crate) fn place(&self) -> String {
        self.address.place()
    }

    /// Connects; ends within the timeout, one way or the other.
    pub(crate) async fn open(&self, who: Who<'_>) -> std::result::Result<Dialled, Trouble> {
        let until = add(self.clock.now(), self.timeout);
        let opened = within(&*self.clock, until, self.greet(who)).await;
        opened.unwrap_or_else(|| {
            Err(Trouble::Unreachable(format!("no answer for {:?}", self.timeout)))
        })
    }

    async fn greet(&self, who: Who<'_>) -> std::result::Result<Dialled, Trouble> {
        let mut stream = self.connect().await?;
        let hello = Hello {
            client: who.client,
            clean: who.clean,
            keep: u32::try_from(who.keep_for.as_secs()).unwrap_or(u32::MAX),
            keep_alive: u16::try_from(self.keep_alive.as_secs()).unwrap_or(u16::MAX),
            receive_max: who.receive_max,
            user: self.address.user.as_deref(),
            password: self.address.password.as_deref(),
            will: who.will,
        };
        let mut buffer = BytesMut::with_capacity(4_096);
        codec::connect(&mut buffer, self.version, &hello);
        let unreachable = |error: std::io::Error| Trouble::Unreachable(error.to_string());
        stream.write_all(&buffer).await.map_err(unreachable)?;
        stream.flush().await.map_err(unreachable)?;
        buffer.clear();
        let first = loop {
            if let Some(packet) = codec::next(&mut buffer, self.version)? {
                break packet;
            }
            if stream.read_buf(&mut buffer).await.map_err(unreachable)? == 0 {
                return Err(Trouble::Unreachable("it closed the connection".to_owned()));
            }
        };
        let Incoming::Welcome(welcome) = first else {
            return Err(Trouble::Lost("it did not answer as MQTT brokers do".to_owned()));
        };
        if welcome.code != 0 {
            return Err(Trouble::Unwelcome(self.version, welcome.code));
        }
        Ok(Dialled { stream, welcome, rest: buffer })
    }

    async fn connect(&self) -> std::result::Result<Box<dyn Stream>, Trouble> {
        let Address { host, port, .. } = &self.address;
        let stream = TcpStream::connect((host.as_str(), *port)).await;
        let stream = stream.map_err(|error| Trouble::Unreachable(error.to_string()))?;
        // Small packets are answers that somebody waits for.
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        let name = ServerName::try_from(host.clone())
            .map_err(|error| Trouble::Untrusted(error.to_string()))?;
        match tls.connect(name, stream).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error)
                if error
                    .get_ref()
                    .is_some_and(<dyn std::error::Error + Send + Sync>::is::<rustls::Error>) =>
            {
                Err(Trouble::Untrusted(error.to_string()))
            }
            Err(error) => Err(Trouble::Unreachable(error.to_string())),
        }
    }
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dial").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Encryption for an address that wants it, checked against the certificate given or against the
/// authorities that browsers trust.
pub(crate) fn encryption(address: &Address, root: Option<&[u8]>) -> Result<Option<TlsConnector>> {
    let place = address.place();
    if !address.is_encrypted {
        return match root {
            Some(_) => Err(Error::invalid(format!(
                "the broker at {place} has a root certificate and no TLS; begin its address with mqtts://"
            ))),
            None => Ok(None),
        };
    }
    let refused = |why: &dyn fmt::Display| {
        Error::invalid(format!("the broker at {place} cannot be used with this certificate: {why}"))
    };
    let mut roots = RootCertStore::empty();
    match root {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|error| refused(&error))?;
                roots.add(certificate).map_err(|error| refused(&error))?;
            }
            if roots.is_empty() {
                return Err(refused(&"there is none in it"));
            }
        }
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(&error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Some(TlsConnector::from(Arc::new(config))))
}
