//! Claims of an ID token: checks that it is valid for this server and now, and reads the user and the role.

use std::time::Duration;

use axum::http::StatusCode;
use jiff::Timestamp;
use punctual::clock::{add, subtract};
use serde_json::Value;
use subtle::ConstantTimeEq;

use super::{Oidc, refused};
use crate::auth::user::check_name;
use crate::caller::Role;
use crate::problem::{ApiResult, Problem};

/// Largest accepted difference to the clock of the provider.
const SKEW: Duration = Duration::from_secs(60);
/// Largest length of a subject in bytes.
const SUBJECT_MAX: usize = 255;
/// Claims used as the display name, best first. The identity is the subject.
const NAMES: [&str; 3] = ["preferred_username", "email", "sub"];

/// Claims that a token must have.
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    pub(super) nonce: &'a str,
    pub(super) now: Timestamp,
}

/// A person who signed in at the provider.
#[derive(Clone, Debug)]
pub(crate) struct Person {
    /// The name of the user here.
    pub(crate) name: String,
    /// The issuer and the subject, which never change.
    pub(crate) subject: String,
    /// The role that the claims map to, if any.
    pub(crate) role: Option<Role>,
}

/// Refuses a token of another issuer, audience or attempt, and one that is expired or not valid yet.
pub(super) fn check(claims: &Value, expected: &Expected<'_>) -> ApiResult<()> {
    if claims["iss"].as_str() != Some(expected.issuer) {
        return Err(refused("it was issued by another issuer"));
    }
    let audiences = texts(&claims["aud"]);
    if !audiences.contains(&expected.client_id) {
        return Err(refused("it is for another audience"));
    }
    let party = claims["azp"].as_str();
    if party.is_some_and(|party| party != expected.client_id)
        || (audiences.len() > 1 && party.is_none())
    {
        return Err(refused("it was issued to another client"));
    }
    let instant = |name: &str| {
        // Some providers send fractions of a second.
        #[allow(clippy::cast_possible_truncation)] // an out of range number is not an instant
        let second = claims[name].as_i64().or_else(|| claims[name].as_f64().map(|at| at as i64));
        second.and_then(|second| Timestamp::from_second(second).ok())
    };
    if instant("exp").is_none_or(|ends_at| ends_at <= subtract(expected.now, SKEW)) {
        return Err(refused("it has expired"));
    }
    let latest = add(expected.now, SKEW);
    if [instant("iat"), instant("nbf")].into_iter().flatten().any(|from| from > latest) {
        return Err(refused("it is not valid yet; check the clocks"));
    }
    let nonce = claims["nonce"].as_str().unwrap_or_default();
    if !bool::from(nonce.as_bytes().ct_eq(expected.nonce.as_bytes())) {
        return Err(refused("it belongs to another sign-in attempt"));
    }
    Ok(())
}

/// Returns the person of a token.
pub(super) fn person(claims: &Value, settings: &Oidc) -> ApiResult<Person> {
    let subject = claims["sub"].as_str().filter(|sub| (1..=SUBJECT_MAX).contains(&sub.len()));
    let subject = subject.ok_or_else(|| refused("it has no subject"))?;
    let mut names = NAMES.iter().filter_map(|claim| claims[*claim].as_str());
    let name = names.find(|name| check_name(name).is_ok()).ok_or_else(|| {
        let sentence = "the provider sends no valid user name; configure it to send preferred_username or email";
        Problem::new(StatusCode::FORBIDDEN, sentence)
    })?;
    let issuer = settings.issuer.trim_end_matches('/');
    Ok(Person {
        name: name.to_owned(),
        subject: format!("{issuer} {subject}"),
        role: role(claims, settings),
    })
}

/// Returns the highest role that the values of the role claim map to, or the default.
fn role(claims: &Value, settings: &Oidc) -> Option<Role> {
    let claim = settings.role_claim.as_deref().map(|path| claim(claims, path));
    let values = claim.map(texts).unwrap_or_default();
    let known = values.into_iter().filter_map(|value| settings.roles.get(value)).copied();
    known.max().or(settings.role_default)
}

/// Returns a claim by its name, which may contain dots, or by its path.
fn claim<'a>(claims: &'a Value, path: &str) -> &'a Value {
    let whole = &claims[path];
    if whole.is_null() { path.split('.').fold(claims, |inner, part| &inner[part]) } else { whole }
}

/// Returns the strings of a string or list.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn settings(default: Option<Role>) -> Oidc {
        Oidc {
            issuer: "https://login.example.com/".to_owned(),
            client_id: "punctual".to_owned(),
            client_secret: None,
            public_url: "https://punctual.example.com".to_owned(),
            scopes: Vec::new(),
            name: "Example".to_owned(),
            role_claim: Some("realm.roles".to_owned()),
            roles: [("boss".to_owned(), Role::Admin), ("ops".to_owned(), Role::Operator)].into(),
            role_default: default,
            outgoing: crate::outgoing::OutgoingCalls::default(),
        }
    }

    // spec: C-6
    #[test]
    fn the_highest_mapped_role_counts_and_unmapped_values_give_the_default() {
        for (claims, default, expected) in [
            (json!({ "realm": { "roles": ["ops", "boss"] } }), None, Some(Role::Admin)),
            (json!({ "realm": { "roles": ["ops", "x"] } }), None, Some(Role::Operator)),
            (json!({ "realm.roles": "ops" }), Some(Role::Viewer), Some(Role::Operator)),
            (json!({ "realm": { "roles": ["x"] } }), Some(Role::Viewer), Some(Role::Viewer)),
            (json!({ "realm": { "roles": ["x", 7, null] } }), None, None),
            (json!({ "realm": "ops" }), None, None),
            (json!({ "roles": ["boss"] }), None, None),
        ] {
            assert_eq!(role(&claims, &settings(default)), expected, "{claims}");
        }
    }

    #[test]
    fn users_get_the_first_valid_name() {
        for (claims, expected) in [
            (json!({ "sub": "1", "preferred_username": "ada", "email": "a@b" }), Some("ada")),
            (json!({ "sub": "1", "preferred_username": "a:b", "email": "a@b" }), Some("a@b")),
            (json!({ "sub": "1" }), Some("1")),
            (json!({ "sub": "a:1" }), None),
            (json!({ "email": "a@b" }), None),
            (json!({ "sub": "", "email": "a@b" }), None),
            (json!({ "sub": 7, "email": "a@b" }), None),
        ] {
            let person = person(&claims, &settings(None));
            assert_eq!(person.ok().as_ref().map(|one| one.name.as_str()), expected, "{claims}");
        }
    }

    // spec: C-6
    #[test]
    fn a_token_of_others_or_of_another_time_is_refused() {
        let now = Timestamp::from_second(10_000).unwrap();
        let expected = Expected { issuer: "https://i", client_id: "me", nonce: "n", now };
        let good =
            json!({ "iss": "https://i", "aud": "me", "exp": 10_100, "iat": 9_999, "nonce": "n" });
        check(&good, &expected).unwrap();
        for (claim, value, is_good) in [
            ("aud", json!(["other", "me"]), false),
            ("aud", json!(["me"]), true),
            ("aud", json!("other"), false),
            ("azp", json!("me"), true),
            ("azp", json!("other"), false),
            ("iss", json!("https://i/"), false),
            ("exp", json!(9_941), true),
            ("exp", json!(9_940), false),
            ("exp", json!(10_000.5), true),
            ("exp", json!("soon"), false),
            ("exp", json!(null), false),
            ("iat", json!(10_061), false),
            ("nbf", json!(10_061), false),
            ("nbf", json!(10_060), true),
            ("nonce", json!("m"), false),
            ("nonce", json!(null), false),
        ] {
            let mut claims = good.clone();
            claims[claim] = value;
            assert_eq!(check(&claims, &expected).is_ok(), is_good, "{claims}");
        }
        let mut both = good.clone();
        (both["aud"], both["azp"]) = (json!(["other", "me"]), json!("me"));
        check(&both, &expected).unwrap();
    }
}
