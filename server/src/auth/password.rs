//! Passwords: hashed with argon2id, off the threads that answer requests. Each hash needs a seat (`seats.rs`), so that
//! guesses cannot make the server busy.

use std::sync::{Arc, OnceLock};

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use punctual::{Error, Result};
use tokio::sync::OwnedSemaphorePermit;

use crate::problem::{Answer, Problem};

/// The fewest characters a password may have.
pub(crate) const LENGTH_MIN: usize = 10;
/// The most bytes that are hashed.
const LEN_MAX: usize = 1_024;

/// Hashes and verifies.
#[derive(Clone, Default)]
pub(super) struct Passwords {
    /// What the password of an unknown user is compared with.
    nobody: Arc<OnceLock<String>>,
}

/// Refuses a password that is too easy to guess, or too long to hash.
pub(super) fn judge(password: &str) -> Answer<()> {
    if password.chars().count() < LENGTH_MIN {
        let sentence = format!("the password is too short; it needs {LENGTH_MIN} characters");
        return Err(Problem::refused(sentence).field("password", "too short"));
    }
    if password.len() > LEN_MAX {
        let sentence = format!("the password is too long; it may have {LEN_MAX} bytes");
        return Err(Problem::refused(sentence).field("password", "too long"));
    }
    Ok(())
}

impl Passwords {
    /// Hashes a password on a seat.
    pub(super) async fn hash(
        &self,
        seat: OwnedSemaphorePermit,
        password: String,
    ) -> Result<String> {
        on_seat(seat, move || hash(&password)).await
    }

    /// Returns whether the password belongs to the hash. Without a hash it is compared all the same, and is wrong.
    pub(super) async fn verify(
        &self,
        seat: OwnedSemaphorePermit,
        stored: Option<String>,
        password: String,
    ) -> Result<bool> {
        if password.len() > LEN_MAX {
            return Ok(false);
        }
        let nobody = self.nobody.clone();
        on_seat(seat, move || {
            let is_somebody = stored.is_some();
            let stored = match (stored, nobody.get()) {
                (Some(stored), _) => stored,
                (None, Some(nobody)) => nobody.clone(),
                (None, None) => {
                    let made = hash("nobody at all")?;
                    nobody.get_or_init(|| made).clone()
                }
            };
            let stored = PasswordHash::new(&stored)
                .map_err(|error| Error::internal(format!("a stored hash is broken: {error}")))?;
            let verified = Argon2::default().verify_password(password.as_bytes(), &stored);
            Ok(verified.is_ok() && is_somebody)
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

/// Runs work that keeps its seat until it ends, also when its caller has hung up.
async fn on_seat<T: Send + 'static>(
    seat: OwnedSemaphorePermit,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let work = move || {
        let done = work();
        drop(seat);
        done
    };
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Error::internal("hashing broke off").caused_by(error))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::seats::Seats;

    // spec: C-6
    #[tokio::test]
    async fn a_hash_knows_its_password_and_an_unknown_user_never_has_the_right_one() {
        let (passwords, place) =
            (Passwords::default(), Seats::default().enter(None, false).unwrap());
        let seat = place.seat().await.unwrap();
        let hash = passwords.hash(seat, "correct horse".to_owned()).await.unwrap();
        assert!(hash.starts_with("$argon2id$"), "{hash}");
        for (stored, password, is_right) in [
            (Some(&hash), "correct horse", true),
            (Some(&hash), "wrong horse!!", false),
            (None, "nobody at all", false),
        ] {
            let seat = place.seat().await.unwrap();
            let verified = passwords.verify(seat, stored.cloned(), password.to_owned()).await;
            assert_eq!(verified.unwrap(), is_right, "{password}");
        }
    }

    #[test]
    fn short_and_endless_passwords_are_refused() {
        assert!(judge("ninechars").is_err());
        assert!(judge("ten chars!").is_ok());
        assert!(judge(&"x".repeat(LEN_MAX + 1)).is_err());
    }
}
