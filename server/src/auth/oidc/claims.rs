//! What a token says: whether it is meant for us and now, who it is about, and what they may do.

use std::time::Duration;

use axum::http::StatusCode;
use jiff::Timestamp;
use punctual::clock::{add, subtract};
use serde_json::Value;
use subtle::ConstantTimeEq;

use super::{Oidc, refused};
use crate::auth::user::check_name;
use crate::caller::Role;
use crate::problem::{Answer, Problem};

/// How far the clock of the provider may be from ours.
const SKEW: Duration = Duration::from_secs(60);
/// The most bytes of what a provider calls somebody.
const SUBJECT_MAX: usize = 255;
/// The claims somebody may be named by, best first. A name is shown; who it is, the subject says.
const NAMES: [&str; 3] = ["preferred_username", "email", "sub"];

/// What a token has to say.
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    pub(super) nonce: &'a str,
    pub(super) now: Timestamp,
}

/// Somebody the provider knows.
#[derive(Clone, Debug)]
pub(crate) struct Person {
    /// What they are called here.
    pub(crate) name: String,
    /// What they are called by the provider, for ever; with the provider itself.
    pub(crate) subject: String,
    /// What they may do, when anything.
    pub(crate) role: Option<Role>,
}

/// Refuses a token that is another's, old, or meant for somebody else.
pub(super) fn check(said: &Value, expected: &Expected<'_>) -> Answer<()> {
    if said["iss"].as_str() != Some(expected.issuer) {
        return Err(refused("it is of another issuer"));
    }
    let audiences = texts(&said["aud"]);
    if !audiences.contains(&expected.client_id) {
        return Err(refused("it is meant for another audience"));
    }
    let party = said["azp"].as_str();
    if party.is_some_and(|party| party != expected.client_id)
        || (audiences.len() > 1 && party.is_none())
    {
        return Err(refused("it was given to another client"));
    }
    let instant = |name: &str| {
        // Some providers count parts of a second.
        #[allow(clippy::cast_possible_truncation)] // a number beyond its bounds is no instant
        let second = said[name].as_i64().or_else(|| said[name].as_f64().map(|at| at as i64));
        second.and_then(|second| Timestamp::from_second(second).ok())
    };
    if instant("exp").is_none_or(|ends_at| ends_at <= subtract(expected.now, SKEW)) {
        return Err(refused("it has expired"));
    }
    let latest = add(expected.now, SKEW);
    if [instant("iat"), instant("nbf")].into_iter().flatten().any(|from| from > latest) {
        return Err(refused("it is from the future; check the clocks"));
    }
    let nonce = said["nonce"].as_str().unwrap_or_default();
    if !bool::from(nonce.as_bytes().ct_eq(expected.nonce.as_bytes())) {
        return Err(refused("it answers another attempt to sign in"));
    }
    Ok(())
}

/// Who a token is about.
pub(super) fn person(said: &Value, settings: &Oidc) -> Answer<Person> {
    let subject = said["sub"].as_str().filter(|sub| (1..=SUBJECT_MAX).contains(&sub.len()));
    let subject = subject.ok_or_else(|| refused("it does not say whom it is about"))?;
    let mut names = NAMES.iter().filter_map(|claim| said[*claim].as_str());
    let name = names.find(|name| check_name(name).is_ok()).ok_or_else(|| {
        let sentence = "the provider gives no name that a user can have here; let it say preferred_username or email";
        Problem::new(StatusCode::FORBIDDEN, sentence)
    })?;
    let issuer = settings.issuer.trim_end_matches('/');
    Ok(Person {
        name: name.to_owned(),
        subject: format!("{issuer} {subject}"),
        role: role(said, settings),
    })
}

/// What somebody may do: the greatest role of the values that are known, or the default.
fn role(said: &Value, settings: &Oidc) -> Option<Role> {
    let claim = settings.role_claim.as_deref().map(|path| claim(said, path));
    let values = claim.map(texts).unwrap_or_default();
    let known = values.into_iter().filter_map(|value| settings.roles.get(value)).copied();
    known.max().or(settings.role_default)
}

/// A claim by its name, which may hold dots of its own, or by the way to it.
fn claim<'a>(said: &'a Value, path: &str) -> &'a Value {
    let whole = &said[path];
    if whole.is_null() { path.split('.').fold(said, |inner, part| &inner[part]) } else { whole }
}

/// A text, or a list of them.
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
            outgoing: crate::outgoing::Outgoing::default(),
        }
    }

    // spec: C-6
    #[test]
    fn the_greatest_known_value_counts_and_nothing_known_is_the_default() {
        for (said, default, expected) in [
            (json!({ "realm": { "roles": ["ops", "boss"] } }), None, Some(Role::Admin)),
            (json!({ "realm": { "roles": ["ops", "x"] } }), None, Some(Role::Operator)),
            (json!({ "realm.roles": "ops" }), Some(Role::Viewer), Some(Role::Operator)),
            (json!({ "realm": { "roles": ["x"] } }), Some(Role::Viewer), Some(Role::Viewer)),
            (json!({ "realm": { "roles": ["x", 7, null] } }), None, None),
            (json!({ "realm": "ops" }), None, None),
            (json!({ "roles": ["boss"] }), None, None),
        ] {
            assert_eq!(role(&said, &settings(default)), expected, "{said}");
        }
    }

    #[test]
    fn people_are_named_by_the_first_name_a_user_can_have() {
        for (said, expected) in [
            (json!({ "sub": "1", "preferred_username": "ada", "email": "a@b" }), Some("ada")),
            (json!({ "sub": "1", "preferred_username": "a:b", "email": "a@b" }), Some("a@b")),
            (json!({ "sub": "1" }), Some("1")),
            (json!({ "sub": "a:1" }), None),
            (json!({ "email": "a@b" }), None),
            (json!({ "sub": "", "email": "a@b" }), None),
            (json!({ "sub": 7, "email": "a@b" }), None),
        ] {
            let person = person(&said, &settings(None));
            assert_eq!(person.ok().as_ref().map(|one| one.name.as_str()), expected, "{said}");
        }
    }

    // spec: C-6
    #[test]
    fn a_token_for_others_or_from_another_time_is_refused() {
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
            let mut said = good.clone();
            said[claim] = value;
            assert_eq!(check(&said, &expected).is_ok(), is_good, "{said}");
        }
        let mut both = good.clone();
        (both["aud"], both["azp"]) = (json!(["other", "me"]), json!("me"));
        check(&both, &expected).unwrap();
    }
}
