//! Presence of the programs that tests need to start a server of their own.
//!
//! A product that is not installed, or was left out by name, makes them *ignored*; when it is required
//! by name, it makes them *fail*. They never pass without having run.

use super::Server;

/// Back-ends that must take part, separated by commas.
const REQUIRED: &str = "PUNCTUAL_REQUIRE";
/// Back-ends that were left out on purpose, separated by commas.
pub const LEFT_OUT: &str = "PUNCTUAL_WITHOUT";

/// What a test does when a product may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Run.
    Here,
    /// Say that they were ignored, and why.
    Ignored(&'static str),
    /// Fail, and say why.
    Missing(&'static str),
}

impl Presence {
    /// Decides about a product from what is installed and from the environment.
    pub fn of(server: &dyn Server) -> Self {
        let names = |variable: &str| {
            let text = std::env::var(variable).unwrap_or_default();
            text.split(',').any(|name| name.trim() == server.name())
        };
        decide(server.is_installed(), names(REQUIRED), names(LEFT_OUT))
    }

    /// Why it cannot be run, when it cannot.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Here => None,
            Self::Ignored(reason) | Self::Missing(reason) => Some(reason),
        }
    }
}

fn decide(is_installed: bool, is_required: bool, is_left_out: bool) -> Presence {
    match (is_installed, is_required, is_left_out) {
        (true, true, _) | (true, _, false) => Presence::Here,
        (false, true, _) => Presence::Missing("it is required and not installed on this machine"),
        (true, false, true) => Presence::Ignored("it was left out on purpose"),
        (false, false, _) => Presence::Ignored("it is not installed on this machine"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_required_and_missing_fails() {
        assert_eq!(decide(true, false, false), Presence::Here);
        assert_eq!(decide(true, true, true), Presence::Here);
        assert!(matches!(decide(true, false, true), Presence::Ignored(_)));
        assert!(matches!(decide(false, false, false), Presence::Ignored(_)));
        assert!(matches!(decide(false, true, false), Presence::Missing(_)));
    }
}
