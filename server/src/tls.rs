//! TLS of the server: reads the certificate and its key, refuses what cannot work with the way out, and takes over
//! files that were renewed without a restart.

use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use jiff::Timestamp;
use punctual::{Error, Result};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

use crate::config::TlsConfig;

/// The protocols that clients are offered.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];
/// The most certificates of a file.
const CERTIFICATES_MAX: usize = 100;

/// Speaks TLS with the certificate of the configuration.
#[derive(Clone)]
pub(crate) struct Tls {
    acceptor: TlsAcceptor,
    files: Arc<CertificateFiles>,
}

/// The certificate in force, and where it comes from.
#[derive(Debug)]
struct CertificateFiles {
    config: TlsConfig,
    current: RwLock<Current>,
}

#[derive(Debug)]
struct Current {
    key: Arc<CertifiedKey>,
    seen: Seen,
}

/// What tells one version of the files from another.
type Seen = [Option<(SystemTime, u64)>; 2];

impl Tls {
    /// Reads the files. An expired certificate is a warning, because clients may be told to trust it.
    pub(crate) fn load(config: &TlsConfig, now: Timestamp) -> Result<Self> {
        let seen = seen(config);
        let key = Arc::new(read(config, now)?);
        let current = RwLock::new(Current { key, seen });
        let files = Arc::new(CertificateFiles { config: config.clone(), current });
        let mut server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::internal("TLS cannot be set up").caused_by(error))?
            .with_no_client_auth()
            .with_cert_resolver(files.clone());
        server.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(server)), files })
    }

    /// Makes a connection an encrypted one.
    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.acceptor.accept(stream).await
    }

    /// Reads the files again when they changed, or when `forced`. Files that are wrong are reported, and the
    /// certificate in force stays.
    pub(crate) fn reload(&self, forced: bool, now: Timestamp) {
        let config = &self.files.config;
        let seen = seen(config);
        if !forced && seen == self.files.current().seen {
            return;
        }
        let read = read(config, now);
        let mut current = self.files.current.write().unwrap_or_else(PoisonError::into_inner);
        // Also when they are wrong: the same files are not read again and again.
        current.seen = seen;
        match read {
            Ok(key) => {
                current.key = Arc::new(key);
                tracing::info!(file = %config.certificate.display(), "the certificate was read again");
            }
            Err(error) => {
                tracing::error!(%error, "the new certificate is wrong; the old one stays");
            }
        }
    }
}

impl CertificateFiles {
    fn current(&self) -> std::sync::RwLockReadGuard<'_, Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ResolvesServerCert for CertificateFiles {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current().key.clone())
    }
}

fn seen(config: &TlsConfig) -> Seen {
    [&config.certificate, &config.key].map(|path| {
        let facts = std::fs::metadata(path).ok()?;
        Some((facts.modified().ok()?, facts.len()))
    })
}

/// Reads a certificate with its chain, and its key.
fn read(config: &TlsConfig, now: Timestamp) -> Result<CertifiedKey> {
    let TlsConfig { certificate: file, key: key_file } = config;
    let refused = |key: &str, path: &Path, why: &str| {
        Error::invalid(format!("server.tls.{key}: {} {why}", path.display()))
    };
    let unreadable = |key: &str, path: &Path, error: &dyn std::error::Error| {
        refused(key, path, &format!("cannot be read as PEM: {error}"))
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(file)
        .map_err(|error| unreadable("certificate", file, &error))?
        .take(CERTIFICATES_MAX)
        .collect::<std::result::Result<_, _>>()
        .map_err(|error| unreadable("certificate", file, &error))?;
    let Some(leaf) = chain.first() else {
        return Err(refused(
            "certificate",
            file,
            "holds no certificate; it has to contain -----BEGIN CERTIFICATE-----",
        ));
    };
    warn_expired(leaf, file, now)?;
    let key = PrivateKeyDer::from_pem_file(key_file).map_err(|error| match error {
        rustls::pki_types::pem::Error::NoItemsFound => refused(
            "key",
            key_file,
            "holds no private key; it has to contain -----BEGIN PRIVATE KEY-----, without a passphrase",
        ),
        error => unreadable("key", key_file, &error),
    })?;
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => refused(
            "key",
            key_file,
            &format!("is not the key of the certificate in {}", file.display()),
        ),
        error => refused("key", key_file, &format!("cannot be used: {error}")),
    })
}

/// Warns when a certificate is not valid now.
fn warn_expired(leaf: &CertificateDer<'_>, file: &Path, now: Timestamp) -> Result<()> {
    let parsed = Certificate::from_der(leaf).map_err(|error| {
        let file = file.display();
        Error::invalid(format!(
            "server.tls.certificate: {file} holds no X.509 certificate: {error}"
        ))
    })?;
    let validity = parsed.tbs_certificate.validity;
    let seconds = u64::try_from(now.as_second()).unwrap_or_default();
    let file = file.display();
    if validity.not_after.to_unix_duration().as_secs() < seconds {
        tracing::warn!(%file, not_after = %validity.not_after, "the certificate has expired; clients will refuse it");
    } else if validity.not_before.to_unix_duration().as_secs() > seconds {
        tracing::warn!(%file, not_before = %validity.not_before, "the certificate is not valid yet; clients will refuse it");
    }
    Ok(())
}
