//! Passwords: hashed with argon2id, off the threads that answer, two at a time, so that nobody can make the
//! server busy by guessing.

use std::sync::Arc;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use punctual::{Error, Result};
use tokio::sync::{OnceCell, Semaphore};

use crate::problem::{Answer, Problem};

/// How many are hashed at once; each takes 19 MiB for a moment.
const AT_ONCE: usize = 2;
/// The fewest characters a password may have.
pub(crate) const LENGTH_MIN: usize = 10;
/// The most bytes that are hashed.
const LENGTH_MAX: usize = 1_024;

/// Hashes and verifies.
#[derive(Clone)]
pub(super) struct Passwords {
    seats: Arc<Semaphore>,
    /// What the password of an unknown user is compared with.
    nobody: Arc<OnceCell<String>>,
}

impl Default for Passwords {
    fn default() -> Self {
        Self { seats: Arc::new(Semaphore::new(AT_ONCE)), nobody: Arc::default() }
    }
}

/// Refuses a password that is too easy to guess, or too long to hash.
pub(super) fn judge(password: &str) -> Answer<()> {
    if password.chars().count() < LENGTH_MIN {
        let sentence = format!("the password is too short; it needs {LENGTH_MIN} characters");
        return Err(Problem::refused(sentence).field("password", "too short"));
    }
    if password.len() > LENGTH_MAX {
        let sentence = format!("the password is too long; it may have {LENGTH_MAX} bytes");
        return Err(Problem::refused(sentence).field("password", "too long"));
    }
    Ok(())
}

impl Passwords {
    pub(super) async fn hash(&self, password: String) -> Result<String> {
        self.on_a_seat(move || {
            Argon2::default()
                .hash_password(password.as_bytes())
                .map(|hash| hash.to_string())
                .map_err(|error| Error::internal(format!("a password cannot be hashed: {error}")))
        })
        .await
    }

    /// Whether the password belongs to the hash. Without one it is compared all the same, and is wrong.
    pub(super) async fn verify(&self, hash: Option<String>, password: String) -> Result<bool> {
        let is_somebody = hash.is_some();
        let hash = if let Some(hash) = hash {
            hash
        } else {
            let made = self.nobody.get_or_try_init(|| self.hash("nobody at all".to_owned()));
            made.await?.clone()
        };
        if password.len() > LENGTH_MAX {
            return Ok(false);
        }
        let is_right = self
            .on_a_seat(move || {
                let hash = PasswordHash::new(&hash).map_err(|error| {
                    Error::internal(format!("a stored hash is broken: {error}"))
                })?;
                Ok(Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
            })
            .await?;
        Ok(is_right && is_somebody)
    }

    async fn on_a_seat<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let _seat = self.seats.acquire().await.map_err(|_| Error::unavailable("shutting down"))?;
        tokio::task::spawn_blocking(work)
            .await
            .map_err(|error| Error::internal("hashing broke off").caused_by(error))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: C-6
    #[tokio::test]
    async fn a_hash_knows_its_password_and_an_unknown_user_never_has_the_right_one() {
        let passwords = Passwords::default();
        let hash = passwords.hash("correct horse".to_owned()).await.unwrap();
        assert!(hash.starts_with("$argon2id$"), "{hash}");
        let verify = |hash: Option<&String>, password: &str| {
            passwords.verify(hash.cloned(), password.to_owned())
        };
        assert!(verify(Some(&hash), "correct horse").await.unwrap());
        assert!(!verify(Some(&hash), "wrong horse!!").await.unwrap());
        assert!(!verify(None, "nobody at all").await.unwrap());
    }

    #[test]
    fn short_and_endless_passwords_are_refused() {
        assert!(judge("ninechars").is_err());
        assert!(judge("ten chars!").is_ok());
        assert!(judge(&"x".repeat(LENGTH_MAX + 1)).is_err());
    }
}
