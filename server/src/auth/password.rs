//! Passwords: hashed with argon2id on blocking threads. Each hash needs a permit (`hash_limiter.rs`), so that guesses
//! cannot overload the server.

use std::sync::{Arc, OnceLock};

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use punctual::{Error, Result};
use tokio::sync::OwnedSemaphorePermit;

use crate::problem::{ApiResult, Problem};

/// Smallest number of characters of a password.
pub(crate) const CHARS_MIN: usize = 10;
/// Largest number of bytes of a password.
const BYTES_MAX: usize = 1_024;

/// Password of the dummy hash.
const DUMMY_PASSWORD: &str = "unknown user";

/// Hashes and verifies passwords.
#[derive(Clone, Default)]
pub(super) struct Passwords {
    /// Hash that the password of an unknown user is compared with, so that the response takes as long.
    dummy_hash: Arc<OnceLock<String>>,
}

/// Refuses a password that is too short or too long.
pub(super) fn check_strength(password: &str) -> ApiResult<()> {
    if password.chars().count() < CHARS_MIN {
        let sentence = format!("the password is too short; it needs {CHARS_MIN} characters");
        return Err(Problem::refused(sentence).field("password", "too short"));
    }
    if password.len() > BYTES_MAX {
        let sentence = format!("the password is too long; it may have {BYTES_MAX} bytes");
        return Err(Problem::refused(sentence).field("password", "too long"));
    }
    Ok(())
}

impl Passwords {
    /// Hashes a password while holding a permit.
    pub(super) async fn hash(
        &self,
        permit: OwnedSemaphorePermit,
        password: String,
    ) -> Result<String> {
        with_permit(permit, move || hash(&password)).await
    }

    /// Returns whether the password matches the hash. Without a hash it is compared with a dummy, and never matches.
    pub(super) async fn verify(
        &self,
        permit: OwnedSemaphorePermit,
        stored: Option<String>,
        password: String,
    ) -> Result<bool> {
        if password.len() > BYTES_MAX {
            return Ok(false);
        }
        let dummy_hash = self.dummy_hash.clone();
        with_permit(permit, move || {
            let is_known_user = stored.is_some();
            let stored = match (stored, dummy_hash.get()) {
                (Some(stored), _) => stored,
                (None, Some(dummy)) => dummy.clone(),
                (None, None) => {
                    let hash = hash(DUMMY_PASSWORD)?;
                    dummy_hash.get_or_init(|| hash).clone()
                }
            };
            let stored = PasswordHash::new(&stored)
                .map_err(|error| Error::internal(format!("a stored hash is invalid: {error}")))?;
            let verified = Argon2::default().verify_password(password.as_bytes(), &stored);
            Ok(verified.is_ok() && is_known_user)
        })
        .await
    }
}

fn hash(password: &str) -> Result<String> {
    Argon2::default()
        .hash_password(password.as_bytes())
        .map(|hash| hash.to_string())
        .map_err(|error| Error::internal(format!("a password cannot be hashed: {error}")))
}

/// Runs blocking work that holds its permit until it ends, even when its caller has disconnected.
async fn with_permit<T: Send + 'static>(
    permit: OwnedSemaphorePermit,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let work = move || {
        let result = work();
        drop(permit);
        result
    };
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Error::internal("hashing was interrupted").caused_by(error))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::hash_limiter::HashLimiter;

    // spec: C-6
    #[tokio::test]
    async fn a_hash_matches_its_password_and_an_unknown_user_never_matches() {
        let (passwords, slot) =
            (Passwords::default(), HashLimiter::default().enter(None, false).unwrap());
        let permit = slot.permit().await.unwrap();
        let hash = passwords.hash(permit, "correct horse".to_owned()).await.unwrap();
        assert!(hash.starts_with("$argon2id$"), "{hash}");
        for (stored, password, is_valid) in [
            (Some(&hash), "correct horse", true),
            (Some(&hash), "wrong horse!!", false),
            (None, DUMMY_PASSWORD, false),
        ] {
            let permit = slot.permit().await.unwrap();
            let verified = passwords.verify(permit, stored.cloned(), password.to_owned()).await;
            assert_eq!(verified.unwrap(), is_valid, "{password}");
        }
    }

    #[test]
    fn too_short_and_too_long_passwords_are_refused() {
        assert!(check_strength("ninechars").is_err());
        assert!(check_strength("ten chars!").is_ok());
        assert!(check_strength(&"x".repeat(BYTES_MAX + 1)).is_err());
    }
}
