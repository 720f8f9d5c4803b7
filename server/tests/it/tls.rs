//! TLS of the server and of its outgoing calls, with generated certificates.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use punctual::SystemClock;
use punctual::clock::{Clock, add, within};
use punctual_server::config::Sources;
use punctual_server::{Assembly, RunningServer};
use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};

/// Timeout that is long enough on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Private certificate authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Returns its own certificate in PEM.
    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Issues a certificate for this machine; returns it and its key in PEM.
    pub(crate) fn issue(&self, change: impl FnOnce(&mut CertificateParams)) -> (String, String) {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

fn write(folder: &Path, (certificate, key): &(String, String)) {
    std::fs::write(folder.join("cert.pem"), certificate).unwrap();
    std::fs::write(folder.join("key.pem"), key).unwrap();
}

fn assembly(folder: &Path, more: &str) -> Assembly {
    let mut sources = Sources::default();
    sources.flags.push(("--listen", "server.listen", "127.0.0.1:0".to_owned()));
    sources.flags.push(("--storage", "storage.address", "memory:".to_owned()));
    let folder = folder.display();
    let text = format!(
        "[server.tls]\ncertificate = \"{folder}/cert.pem\"\nkey = \"{folder}/key.pem\"\n{more}"
    );
    let loaded = sources.load_text("punctual.toml", &text).unwrap();
    Assembly { loaded, sources, demo: false }
}

async fn start(folder: &Path, more: &str) -> (RunningServer, SocketAddr) {
    let running = assembly(folder, more).start().await.unwrap();
    let address = running.address().unwrap();
    (running, address)
}

fn client(authority: &Authority) -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let trusted = reqwest::Certificate::from_pem(authority.pem().as_bytes()).unwrap();
    reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([trusted])
        .pool_max_idle_per_host(0)
        .build()
        .unwrap()
}

// Finding F16 of the security review.
#[tokio::test]
async fn a_server_with_a_certificate_accepts_only_tls() {
    let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    write(folder.path(), &authority.issue(|_| {}));
    let (running, address) = start(folder.path(), "[auth]\nmode = \"password\"\n").await;
    let user = json!({ "name": "ada", "role": "admin", "password": "correct horse battery" });
    let local = punctual_server::Caller::new("test", punctual_server::Role::Admin);
    let created = in_process(&running, "/api/v1/users", local, &user).await;
    assert_eq!(created, 201);
    let (client, url) = (client(&authority), format!("https://localhost:{}", address.port()));
    let response = client.get(format!("{url}/health/live")).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.version(), reqwest::Version::HTTP_2, "negotiated");
    assert!(response.headers().contains_key("strict-transport-security"));
    let login = json!({ "name": "ada", "password": "correct horse battery" });
    let response = client.post(format!("{url}/api/v1/session")).json(&login).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.version(), reqwest::Version::HTTP_2);
    let cookie = response.headers()["set-cookie"].to_str().unwrap();
    assert!(cookie.ends_with("; Secure"), "{cookie}");
    // A browser that sends only the origin of its page.
    for (origin, status) in [(url.as_str(), 200), ("https://evil.example", 403)] {
        let login = client.post(format!("{url}/api/v1/session")).json(&login);
        let response = login.header("origin", origin).send().await.unwrap();
        assert_eq!(response.status(), status, "{origin}");
    }
    let plain = reqwest::Client::builder().no_proxy().build().unwrap();
    assert!(plain.get(format!("http://{address}/health/live")).send().await.is_err());
    assert!(plain.get(format!("{url}/health/live")).send().await.is_err(), "unknown authority");
    assert!(running.shutdown().await.is_clean());
}

async fn in_process(
    running: &RunningServer,
    path: &str,
    caller: punctual_server::Caller,
    body: &Value,
) -> u16 {
    use tower::ServiceExt as _;
    let request = axum::http::Request::post(path).header("content-type", "application/json");
    let mut request = request.body(axum::body::Body::from(body.to_string())).unwrap();
    request.extensions_mut().insert(caller);
    let router = punctual_server::router(running.app().clone());
    router.oneshot(request).await.unwrap().status().as_u16()
}

#[tokio::test]
async fn a_renewed_certificate_is_loaded_and_an_invalid_one_is_not() {
    let (folder, old, new) = (tempfile::tempdir().unwrap(), Authority::new(), Authority::new());
    write(folder.path(), &old.issue(|_| {}));
    let (running, address) = start(folder.path(), "").await;
    let url = format!("https://localhost:{}/health/live", address.port());
    let (by_old, by_new) = (client(&old), client(&new));
    assert!(by_old.get(&url).send().await.is_ok() && by_new.get(&url).send().await.is_err());
    // The key does not match: the old certificate stays.
    let (certificate, _) = new.issue(|_| {});
    let (_, other_key) = new.issue(|_| {});
    write(folder.path(), &(certificate, other_key));
    let until = add(SystemClock.now(), Duration::from_secs(5));
    while SystemClock.now() < until {
        assert!(by_old.get(&url).send().await.is_ok());
        SystemClock.sleep_until(add(SystemClock.now(), Duration::from_millis(500))).await;
    }
    write(folder.path(), &new.issue(|_| {}));
    let renewed = async {
        while by_new.get(&url).send().await.is_err() {
            SystemClock.sleep_until(add(SystemClock.now(), Duration::from_millis(100))).await;
        }
    };
    within(&SystemClock, add(SystemClock.now(), TIMEOUT), renewed).await.expect("it is renewed");
    // A new client, because the other one would resume its session without a certificate.
    assert!(client(&old).get(&url).send().await.is_err());
    running.shutdown().await;
}

#[tokio::test]
async fn an_invalid_certificate_is_refused_at_the_start_with_a_hint() {
    let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    let refused = async || {
        let Err(error) = assembly(folder.path(), "").start().await else { panic!("it started") };
        error.to_string()
    };
    let error = refused().await;
    assert!(error.starts_with("server.tls.certificate: ") && error.contains("cert.pem"), "{error}");
    let (certificate, key) = authority.issue(|_| {});
    let (_, other_key) = authority.issue(|_| {});
    for (certificate, key, words) in [
        (certificate.clone(), other_key, "is not the key of the certificate in"),
        (String::new(), key.clone(), "contains no certificate"),
        (key.clone(), key.clone(), "contains no certificate"),
        (certificate.clone(), certificate.clone(), "contains no private key"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned(), key, "X.509"),
    ] {
        write(folder.path(), &(certificate, key));
        let error = refused().await;
        assert!(error.contains(words), "{error}");
    }
    // An expired certificate is a warning, and is served.
    write(
        folder.path(),
        &authority.issue(|params| params.not_after = rcgen::date_time_ymd(2020, 1, 1)),
    );
    let (running, _) = start(folder.path(), "").await;
    running.shutdown().await;
}
