//! User mapping: a person who signed in at the provider becomes a user here, without a password, whose role is
//! updated from the claims at each sign-in.

use std::net::IpAddr;

use axum::http::StatusCode;

use super::{Attempt, Person};
use crate::auth::throttle::Keys;
use crate::auth::{Auth, User};
use crate::caller::Role;
use crate::problem::{ApiResult, Problem};

impl Auth {
    /// Returns the person of a sign-in code. Refused codes are throttled by address.
    pub(crate) async fn identify_by_provider(
        &self,
        code: &str,
        attempt: &Attempt,
        from: Option<IpAddr>,
    ) -> ApiResult<Person> {
        let provider = self.provider()?;
        // Not by name, which is not known yet.
        let keys = Keys::of_sign_in(from);
        let login_attempt = self.throttle.begin(keys, self.clock.now())?;
        let person = provider.person(code, attempt).await;
        match &person {
            Ok(_) => login_attempt.was_right(),
            // Counted as a failed attempt by the throttle.
            Err(problem) if problem.status() == StatusCode::UNAUTHORIZED => drop(login_attempt),
            // A failure of the provider does not count as an attempt.
            Err(_) => login_attempt.was_not_checked(),
        }
        person
    }

    /// Returns the user of a person, created or with the role updated; refuses one without a role.
    pub(crate) async fn sign_in_user(&self, person: &Person) -> ApiResult<User> {
        let now = self.clock.now();
        let found = self.users.find(&person.name).await?;
        if let Some(user) = &found
            && user.subject.as_ref() != Some(&person.subject)
        {
            let sentence = format!(
                "the name {0:?} belongs to another user here; an admin can delete that user with `punctual users delete {0}`",
                person.name
            );
            return Err(refused(&sentence));
        }
        let Some(role) = person.role else {
            if found.is_some() {
                self.demote(&person.name).await?;
            }
            return Err(refused(&format!(
                "{:?} has no role here: no claim is mapped to one; see auth.oidc_roles and auth.oidc_role_default",
                person.name
            )));
        };
        match found {
            Some(user) if user.disabled => {
                Err(refused(&format!("the user {:?} is disabled here", user.name)))
            }
            Some(_) => {
                let change = |user: &mut User| {
                    user.role = role;
                    user.last_login_at = Some(now);
                };
                Ok(self.users.change(&person.name, change).await?.1)
            }
            None => {
                let user = User {
                    last_login_at: Some(now),
                    subject: Some(person.subject.clone()),
                    ..User::new(person.name.clone(), role, String::new(), now)
                };
                self.users.create(&user).await?;
                Ok(user)
            }
        }
    }

    /// Sets the role of a user to guest and ends their sessions; their tokens lose their rights with the role.
    async fn demote(&self, name: &str) -> ApiResult<()> {
        let change = |user: &mut User| {
            user.role = Role::Guest;
            user.generation += 1;
        };
        self.users.change(name, change).await?;
        Ok(())
    }
}

fn refused(sentence: &str) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, sentence)
}
