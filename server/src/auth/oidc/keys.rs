//! Keys of the provider and verification of token signatures. Only asymmetric signatures are accepted: an
//! unsigned token, or one signed with a shared secret, is refused.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, EcdsaVerificationAlgorithm,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::Value;

use super::refused;
use crate::problem::ApiResult;

/// Largest number of keys that are kept.
const KEYS_MAX: usize = 100;
/// Largest size of a token in bytes.
const TOKEN_MAX: usize = 64 * 1024;

/// A key that a provider publishes.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    crv: Option<String>,
    #[serde(default)]
    n: String,
    #[serde(default)]
    e: String,
    #[serde(default)]
    x: String,
    #[serde(default)]
    y: String,
}

/// The key set document. Keys of unknown types are skipped.
#[derive(Deserialize)]
pub(super) struct Jwks {
    keys: Vec<Value>,
}

pub(super) fn read(document: Jwks) -> Vec<Jwk> {
    let keys = document.keys.into_iter().take(KEYS_MAX);
    keys.filter_map(|key| serde_json::from_value(key).ok()).collect()
}

/// Result of verifying a token.
pub(super) enum Verification {
    /// Signed by the provider; its claims.
    Signed(Value),
    /// Signed with a key that is not in the set.
    UnknownKey,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

/// Signature algorithm.
enum Method {
    Rsa(&'static RsaParameters),
    Curve(&'static str, &'static EcdsaVerificationAlgorithm),
}

impl Method {
    fn named(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rsa(&RSA_PKCS1_2048_8192_SHA256)),
            "RS384" => Some(Self::Rsa(&RSA_PKCS1_2048_8192_SHA384)),
            "RS512" => Some(Self::Rsa(&RSA_PKCS1_2048_8192_SHA512)),
            "ES256" => Some(Self::Curve("P-256", &ECDSA_P256_SHA256_FIXED)),
            "ES384" => Some(Self::Curve("P-384", &ECDSA_P384_SHA384_FIXED)),
            _ => None,
        }
    }
}

/// Verifies the signature of a token and returns its claims.
pub(super) fn verify(token: &str, keys: &[Jwk]) -> ApiResult<Verification> {
    let unreadable = || refused("the token cannot be read");
    let signed = token.rsplit_once('.').filter(|_| token.len() <= TOKEN_MAX);
    let (message, signature) = signed.ok_or_else(unreadable)?;
    let (header, claims) = message.split_once('.').ok_or_else(unreadable)?;
    let signature = bytes(signature).ok_or_else(unreadable)?;
    let header: Header = json(header).ok_or_else(unreadable)?;
    if header.crit.is_some() {
        return Err(refused("the token has an unsupported critical header"));
    }
    let method = Method::named(&header.alg).ok_or_else(|| {
        let alg: String = header.alg.chars().take(20).collect();
        refused(&format!(
            "its signature algorithm {alg:?} is not supported; use RS256, RS384, RS512, ES256 or ES384"
        ))
    })?;
    let mut fitting = keys.iter().filter(|key| key.fits(&method, &header)).peekable();
    if fitting.peek().is_none() {
        return Ok(Verification::UnknownKey);
    }
    if !fitting.any(|key| key.verifies(&method, message.as_bytes(), &signature)) {
        // Without a key id it may be signed with a new key.
        return match header.kid {
            Some(_) => Err(refused("its signature is wrong")),
            None => Ok(Verification::UnknownKey),
        };
    }
    json(claims).map(Verification::Signed).ok_or_else(unreadable)
}

impl Jwk {
    fn fits(&self, method: &Method, header: &Header) -> bool {
        let is_kind = match method {
            Method::Rsa(_) => self.kty == "RSA",
            Method::Curve(curve, _) => self.kty == "EC" && self.crv.as_deref() == Some(curve),
        };
        is_kind
            && self.alg.as_ref().is_none_or(|alg| *alg == header.alg)
            && self.purpose.as_deref().is_none_or(|purpose| purpose == "sig")
            && (header.kid.is_none() || self.kid == header.kid)
    }

    fn verifies(&self, method: &Method, message: &[u8], signature: &[u8]) -> bool {
        match method {
            Method::Rsa(parameters) => {
                let (Some(n), Some(e)) = (bytes(&self.n), bytes(&self.e)) else { return false };
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature).is_ok()
            }
            Method::Curve(_, algorithm) => {
                let (Some(x), Some(y)) = (bytes(&self.x), bytes(&self.y)) else { return false };
                // An uncompressed point.
                let point = [&[4][..], &x, &y].concat();
                UnparsedPublicKey::new(*algorithm, point).verify(message, signature).is_ok()
            }
        }
    }
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

fn json<T: serde::de::DeserializeOwned>(part: &str) -> Option<T> {
    serde_json::from_slice(&bytes(part)?).ok()
}
