//! Connector: opens TCP, TLS if the address requires it, and performs the MQTT handshake.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use punctual::backend::transport::address::{HostAndPort, ServerAddress};
use punctual::clock::{Clock, add, within};
use punctual::{Error, Result};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::codec::{self, ConnAck, ConnectPacket, Incoming, Version};
use crate::error::ConnectionError;

/// A byte stream, encrypted or not.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for S {}

/// Parameters of a connection to the broker.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) address: ServerAddress,
    pub(crate) version: Version,
    pub(crate) keep_alive: Duration,
    /// Limit of one call to the broker.
    pub(crate) timeout: Duration,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tls: Option<TlsConnector>,
}

/// A connection accepted by the broker.
pub(crate) struct EstablishedStream {
    pub(crate) stream: Box<dyn Stream>,
    pub(crate) connack: ConnAck,
    /// Bytes received after the CONNACK packet.
    pub(crate) rest: BytesMut,
}

/// Client identifier and session options of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionOptions<'a> {
    pub(crate) client: &'a str,
    pub(crate) clean: bool,
    pub(crate) session_retention: Duration,
    pub(crate) receive_max: u16,
    pub(crate) will: Option<(&'a str, &'a [u8])>,
}

impl Connector {
    /// Returns host and port, for texts.
    pub(crate) fn server(&self) -> String {
        self.address.to_string()
    }

    /// Connects and performs the handshake, within the timeout.
    pub(crate) async fn open(
        &self,
        options: SessionOptions<'_>,
    ) -> std::result::Result<EstablishedStream, ConnectionError> {
        let until = add(self.clock.now(), self.timeout);
        let opened = within(&*self.clock, until, self.handshake(options)).await;
        opened.unwrap_or_else(|| {
            Err(ConnectionError::Unreachable(format!("no response for {:?}", self.timeout)))
        })
    }

    async fn handshake(
        &self,
        options: SessionOptions<'_>,
    ) -> std::result::Result<EstablishedStream, ConnectionError> {
        let mut stream = self.connect().await?;
        let packet = ConnectPacket {
            client: options.client,
            clean: options.clean,
            session_expiry: u32::try_from(options.session_retention.as_secs()).unwrap_or(u32::MAX),
            keep_alive: u16::try_from(self.keep_alive.as_secs()).unwrap_or(u16::MAX),
            receive_max: options.receive_max,
            user: self.address.user.as_deref(),
            password: self.address.password.as_deref(),
            will: options.will,
        };
        let mut buffer = BytesMut::with_capacity(4_096);
        codec::connect(&mut buffer, self.version, &packet);
        let unreachable = |error: std::io::Error| ConnectionError::Unreachable(error.to_string());
        stream.write_all(&buffer).await.map_err(unreachable)?;
        stream.flush().await.map_err(unreachable)?;
        buffer.clear();
        let first = loop {
            if let Some(received) = codec::next(&mut buffer, self.version)? {
                break received;
            }
            if stream.read_buf(&mut buffer).await.map_err(unreachable)? == 0 {
                return Err(ConnectionError::Unreachable("it closed the connection".to_owned()));
            }
        };
        let Incoming::ConnAck(connack) = first else {
            return Err(ConnectionError::Lost("it did not respond with CONNACK".to_owned()));
        };
        if connack.code != 0 {
            return Err(ConnectionError::ConnectRefused(self.version, connack.code));
        }
        Ok(EstablishedStream { stream, connack, rest: buffer })
    }

    async fn connect(&self) -> std::result::Result<Box<dyn Stream>, ConnectionError> {
        let HostAndPort { host, port } = &self.address.server;
        let stream = TcpStream::connect((host.as_str(), *port)).await;
        let stream = stream.map_err(|error| ConnectionError::Unreachable(error.to_string()))?;
        // Small packets are responses that a caller waits for.
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        let name = ServerName::try_from(host.clone())
            .map_err(|error| ConnectionError::TlsFailed(error.to_string()))?;
        match tls.connect(name, stream).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error)
                if error
                    .get_ref()
                    .is_some_and(<dyn std::error::Error + Send + Sync>::is::<rustls::Error>) =>
            {
                Err(ConnectionError::TlsFailed(error.to_string()))
            }
            Err(error) => Err(ConnectionError::Unreachable(error.to_string())),
        }
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Returns the TLS connector of an address that requires TLS. It verifies against the given certificate, or against
/// the authorities that browsers trust.
pub(crate) fn encryption(
    address: &ServerAddress,
    root: Option<&[u8]>,
) -> Result<Option<TlsConnector>> {
    let server = address;
    if !address.is_encrypted {
        return match root {
            Some(_) => Err(Error::invalid(format!(
                "root_certificate is set but the address of the broker at {server} has no TLS; use mqtts://"
            ))),
            None => Ok(None),
        };
    }
    let refused = |why: &dyn fmt::Display| {
        Error::invalid(format!(
            "the root_certificate of the broker at {server} cannot be used: {why}"
        ))
    };
    let mut roots = RootCertStore::empty();
    match root {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|error| refused(&error))?;
                roots.add(certificate).map_err(|error| refused(&error))?;
            }
            if roots.is_empty() {
                return Err(refused(&"it contains none"));
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
