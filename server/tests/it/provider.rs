//! Identity provider of `OpenID` Connect for tests: serves its metadata and keys, and exchanges codes for tokens. Each
//! test chooses what is invalid.

use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
    RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RsaEncoding, RsaKeyPair,
    RsaPublicKeyComponents,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub(crate) const CLIENT: &str = "punctual";
pub(crate) const SECRET: &str = "a secret & more";
/// RSA key for tests only; ring cannot generate one.
const RSA_KEY: &str = include_str!("rsa_key.txt");

/// Key that signs the tokens.
#[derive(Clone)]
pub(crate) enum Signer {
    /// With the name of its algorithm.
    Rsa(Arc<RsaKeyPair>, &'static str),
    /// With the name of its algorithm.
    Curve(Arc<EcdsaKeyPair>, &'static str),
    /// No signature at all.
    None,
    /// A signature with a shared secret.
    Shared,
}

impl Signer {
    /// Returns a key for each accepted algorithm.
    pub(crate) fn accepted() -> [Self; 5] {
        let [rsa_384, rsa_512] = ["RS384", "RS512"].map(Self::rsa_by);
        [Self::rsa(), rsa_384, rsa_512, Self::curve(), Self::curve_by("ES384")]
    }

    pub(crate) fn rsa() -> Self {
        Self::rsa_by("RS256")
    }

    fn rsa_by(name: &'static str) -> Self {
        let text: String = RSA_KEY.split_whitespace().collect();
        let der = STANDARD.decode(text).unwrap();
        Self::Rsa(Arc::new(RsaKeyPair::from_pkcs8(&der).unwrap()), name)
    }

    pub(crate) fn curve() -> Self {
        Self::curve_by("ES256")
    }

    fn curve_by(name: &'static str) -> Self {
        let method = match name {
            "ES384" => &ECDSA_P384_SHA384_FIXED_SIGNING,
            _ => &ECDSA_P256_SHA256_FIXED_SIGNING,
        };
        let random = SystemRandom::new();
        let der = EcdsaKeyPair::generate_pkcs8(method, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(method, der.as_ref(), &random).unwrap();
        Self::Curve(Arc::new(key), name)
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Rsa(_, name) | Self::Curve(_, name) => name,
            Self::None => "none",
            Self::Shared => "HS256",
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(key, name) => {
                let method: &dyn RsaEncoding = match *name {
                    "RS384" => &RSA_PKCS1_SHA384,
                    "RS512" => &RSA_PKCS1_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(method, &random, message, &mut signature).unwrap();
                signature
            }
            Self::Curve(key, _) => key.sign(&random, message).unwrap().as_ref().to_vec(),
            Self::None => Vec::new(),
            Self::Shared => {
                let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, SECRET.as_bytes());
                ring::hmac::sign(&key, message).as_ref().to_vec()
            }
        }
    }

    /// Returns the public key as it is published.
    fn published(&self, kid: &str) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match self {
            Self::Rsa(key, _) => {
                let RsaPublicKeyComponents { n, e } =
                    RsaPublicKeyComponents::<Vec<u8>>::from(key.public());
                json!({ "kty": "RSA", "kid": kid, "use": "sig", "n": text(&n), "e": text(&e) })
            }
            Self::Curve(key, name) => {
                let point = &key.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                let curve = if *name == "ES384" { "P-384" } else { "P-256" };
                json!({ "kty": "EC", "kid": kid, "crv": curve, "x": text(x), "y": text(y) })
            }
            _ => json!({ "kty": "oct", "kid": kid, "k": text(SECRET.as_bytes()) }),
        }
    }
}

/// Current behaviour of the provider.
struct Behaviour {
    signer: Signer,
    kid: &'static str,
    published: Vec<Value>,
    claims: Value,
    nonce: String,
    challenge: String,
    down: bool,
    keys_asked: u32,
}

/// A running provider.
#[derive(Clone)]
pub(crate) struct Provider {
    pub(crate) issuer: String,
    behaviour: Arc<Mutex<Behaviour>>,
}

impl Provider {
    /// Starts a provider with the user ada in the group of operators, which signs with a published key.
    pub(crate) async fn start(signer: Signer, now: Timestamp) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let claims = json!({
            "iss": issuer, "aud": CLIENT, "sub": "1815", "preferred_username": "ada",
            "groups": ["staff", "on-call"], "iat": now.as_second(), "exp": now.as_second() + 300,
        });
        let behaviour = Behaviour {
            published: vec![signer.published("first")],
            signer,
            kid: "first",
            claims,
            nonce: String::new(),
            challenge: String::new(),
            down: false,
            keys_asked: 0,
        };
        let provider = Self { issuer, behaviour: Arc::new(Mutex::new(behaviour)) };
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(describe))
            .route("/keys", get(keys))
            .route("/token", post(token))
            .with_state(provider.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        provider
    }

    /// Changes a claim of later tokens.
    pub(crate) fn says(&self, claim: &str, value: Value) {
        self.behaviour.lock().unwrap().claims[claim] = value;
    }

    /// Changes the signing key of later tokens.
    pub(crate) fn signs(&self, signer: Signer, kid: &'static str, is_published: bool) {
        let mut behaviour = self.behaviour.lock().unwrap();
        if is_published {
            behaviour.published = vec![signer.published(kid)];
        }
        (behaviour.signer, behaviour.kid) = (signer, kid);
    }

    /// Makes every request fail, or succeed again.
    pub(crate) fn is_down(&self, down: bool) {
        self.behaviour.lock().unwrap().down = down;
    }

    /// Returns how often the keys were requested.
    pub(crate) fn keys_asked(&self) -> u32 {
        self.behaviour.lock().unwrap().keys_asked
    }

    /// Accepts a sign-in, as the page of the provider does.
    pub(crate) fn lets_in(&self, nonce: String, challenge: String) {
        let mut behaviour = self.behaviour.lock().unwrap();
        (behaviour.nonce, behaviour.challenge) = (nonce, challenge);
    }
}

async fn describe(State(provider): State<Provider>) -> Response {
    if provider.behaviour.lock().unwrap().down {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    let issuer = &provider.issuer;
    Json(json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize?tenant=a"),
        "token_endpoint": format!("{issuer}/token"),
        "jwks_uri": format!("{issuer}/keys"),
    }))
    .into_response()
}

async fn keys(State(provider): State<Provider>) -> Json<Value> {
    let mut behaviour = provider.behaviour.lock().unwrap();
    behaviour.keys_asked += 1;
    Json(json!({ "keys": behaviour.published }))
}

/// Returns a token for the code `good`, when the client secret and the verifier are right.
async fn token(State(provider): State<Provider>, headers: HeaderMap, body: String) -> Response {
    let behaviour = provider.behaviour.lock().unwrap();
    let form: std::collections::BTreeMap<String, String> =
        url::form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    let encoded =
        |text: &str| -> String { url::form_urlencoded::byte_serialize(text.as_bytes()).collect() };
    let pair = format!("{}:{}", encoded(CLIENT), encoded(SECRET));
    let refused =
        |error: &str| (StatusCode::BAD_REQUEST, Json(json!({ "error": error }))).into_response();
    if headers[AUTHORIZATION] != format!("Basic {}", STANDARD.encode(pair)) {
        return refused("invalid_client");
    }
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(form["code_verifier"].as_bytes()));
    if form["code"] != "good" || challenge != behaviour.challenge {
        return refused("invalid_grant");
    }
    let mut claims = behaviour.claims.clone();
    if claims["nonce"].is_null() {
        claims["nonce"] = json!(behaviour.nonce);
    }
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let header = json!({ "alg": behaviour.signer.name(), "kid": behaviour.kid });
    let message = format!("{}.{}", part(&header), part(&claims));
    let signature = URL_SAFE_NO_PAD.encode(behaviour.signer.sign(message.as_bytes()));
    Json(json!({ "access_token": "x", "id_token": format!("{message}.{signature}") }))
        .into_response()
}
