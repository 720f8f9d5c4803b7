//! Somebody whom the provider knows becomes a user of ours: kept like the others, but without a password, and
//! with the role that the provider's word comes to each time.

use std::net::IpAddr;

use axum::http::StatusCode;

use super::{Attempt, Person};
use crate::auth::throttle::Keys;
use crate::auth::{Auth, User};
use crate::caller::Role;
use crate::problem::{Answer, Problem};

impl Auth {
    /// Who came back with this code. What is refused makes the next wait longer, by address.
    pub(crate) async fn known_by_provider(
        &self,
        code: &str,
        attempt: &Attempt,
        from: Option<IpAddr>,
    ) -> Answer<Person> {
        let provider = self.provider()?;
        // Not by name: nobody is known yet.
        let keys = Keys::of_sign_in(from);
        let guess = self.throttle.begin(keys, self.clock.now())?;
        let known = provider.person(code, attempt).await;
        match &known {
            Ok(_) => guess.was_right(),
            // Counted already.
            Err(problem) if problem.status() == StatusCode::UNAUTHORIZED => drop(guess),
            // That the provider is away is nobody's fault.
            Err(_) => guess.was_not_judged(),
        }
        known
    }

    /// The user that somebody is here, with the role they have now.
    pub(crate) async fn welcome(&self, person: &Person) -> Answer<User> {
        let now = self.clock.now();
        let found = self.users.find(&person.name).await?;
        if let Some(user) = &found
            && user.subject.as_ref() != Some(&person.subject)
        {
            let sentence = format!(
                "the name {0:?} is another user's here; delete that user first, as an admin, with `punctual users delete {0}`",
                person.name
            );
            return Err(refused(&sentence));
        }
        let Some(role) = person.role else {
            if found.is_some() {
                self.demote(&person.name).await?;
            }
            return Err(refused(&format!(
                "the provider knows {:?}, but nothing it says gives a role here; see auth.oidc_roles and auth.oidc_role_default",
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

    /// Who has no role any more loses what they began with one: their sessions, and what their tokens may.
    async fn demote(&self, name: &str) -> Answer<()> {
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
