//! TLS of the server: loads the certificate and its key, explains why one cannot be used, and reloads renewed files.

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

/// ALPN protocols.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];
/// Largest number of certificates of a file.
const CERTIFICATES_MAX: usize = 100;

/// TLS acceptor with the configured certificate.
#[derive(Clone)]
pub(crate) struct Tls {
    acceptor: TlsAcceptor,
    files: Arc<CertificateFiles>,
}

/// The certificate in force and its files.
#[derive(Debug)]
struct CertificateFiles {
    config: TlsConfig,
    current: RwLock<Current>,
}

#[derive(Debug)]
struct Current {
    key: Arc<CertifiedKey>,
    versions: FileVersions,
}

/// Modification time and size of the two files.
type FileVersions = [Option<(SystemTime, u64)>; 2];

impl Tls {
    /// Loads the files. An expired certificate is only a warning, because clients may be configured to trust it.
    pub(crate) fn load(config: &TlsConfig, now: Timestamp) -> Result<Self> {
        let versions = versions(config);
        let key = Arc::new(read(config, now)?);
        let current = RwLock::new(Current { key, versions });
        let files = Arc::new(CertificateFiles { config: config.clone(), current });
        let mut server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::internal("TLS cannot be set up").caused_by(error))?
            .with_no_client_auth()
            .with_cert_resolver(files.clone());
        server.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(server)), files })
    }

    /// Performs the TLS handshake of a connection.
    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.acceptor.accept(stream).await
    }

    /// Reloads the files when they changed, or when `forced`. Invalid files are logged, and the certificate stays
    /// in force.
    pub(crate) fn reload(&self, forced: bool, now: Timestamp) {
        let config = &self.files.config;
        let versions = versions(config);
        if !forced && versions == self.files.current().versions {
            return;
        }
        let read = read(config, now);
        let mut current = self.files.current.write().unwrap_or_else(PoisonError::into_inner);
        // Also when they are invalid, so that the same files are not read repeatedly.
        current.versions = versions;
        match read {
            Ok(key) => {
                current.key = Arc::new(key);
                tracing::info!(file = %config.certificate.display(), "the certificate was reloaded");
            }
            Err(error) => {
                tracing::error!(%error, "the new certificate is invalid; the old one stays in force");
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

fn versions(config: &TlsConfig) -> FileVersions {
    [&config.certificate, &config.key].map(|path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    })
}

/// Loads a certificate with its chain and its key.
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
            "contains no certificate; it must contain -----BEGIN CERTIFICATE-----",
        ));
    };
    warn_expired(leaf, file, now)?;
    let key = PrivateKeyDer::from_pem_file(key_file).map_err(|error| match error {
        rustls::pki_types::pem::Error::NoItemsFound => refused(
            "key",
            key_file,
            "contains no private key; it must contain -----BEGIN PRIVATE KEY-----, without a passphrase",
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
            "server.tls.certificate: {file} contains no X.509 certificate: {error}"
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
