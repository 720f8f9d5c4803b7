//! TLS of connections. The crypto provider is chosen here and never installed globally, so that an application
//! with another provider is not affected.

use std::path::PathBuf;
use std::sync::Arc;

use punctual::{Error, Result};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Authorities against which the server's certificate is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// None: encrypted against eavesdropping only, as `sslmode=require` means in every client.
    AnyCertificate,
    /// Authorities that browsers trust.
    WebRoots,
    /// Authorities in a file.
    File(PathBuf),
}

/// Creates the TLS connector.
pub(crate) fn connector(trust: &Trust) -> Result<MakeRustlsConnect> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::internal(format!("TLS cannot be set up: {error}")))?;
    let config = match trust {
        Trust::AnyCertificate => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Unverified(provider)))
            .with_no_client_auth(),
        Trust::WebRoots => {
            let roots = webpki_roots::TLS_SERVER_ROOTS.to_vec();
            builder.with_root_certificates(RootCertStore { roots }).with_no_client_auth()
        }
        Trust::File(path) => {
            builder.with_root_certificates(read_roots(path)?).with_no_client_auth()
        }
    };
    Ok(MakeRustlsConnect::new(config))
}

fn read_roots(path: &PathBuf) -> Result<RootCertStore> {
    let refused = |why: String| {
        Error::invalid(format!(
            "sslrootcert {} contains no valid certificates: {why}",
            path.display()
        ))
    };
    let mut store = RootCertStore::empty();
    let found = CertificateDer::pem_file_iter(path).map_err(|error| refused(error.to_string()))?;
    for certificate in found {
        let certificate = certificate.map_err(|error| refused(error.to_string()))?;
        store.add(certificate).map_err(|error| refused(error.to_string()))?;
    }
    if store.is_empty() {
        return Err(refused("the file is empty".to_owned()));
    }
    Ok(store)
}

/// Accepts every certificate, but only from a server with its private key.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
