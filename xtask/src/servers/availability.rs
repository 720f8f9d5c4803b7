//! Availability of the programs with which tests start their own server.
//!
//! When a product is not installed, or was left out by name, its tests are *ignored*; when it is required
//! by name, they *fail*. They never pass without having run.

use super::Server;

/// Required back-ends, separated by commas.
const REQUIRED: &str = "PUNCTUAL_REQUIRE";
/// Back-ends to leave out, separated by commas.
pub const LEFT_OUT: &str = "PUNCTUAL_WITHOUT";

/// Decision about a test whose product may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// Run.
    Available,
    /// Report them as ignored, with the reason.
    Ignored(&'static str),
    /// Fail with the reason.
    Missing(&'static str),
}

impl Availability {
    /// Returns the decision about a product, from its installation and the environment.
    pub fn of(server: &dyn Server) -> Self {
        let names = |variable: &str| {
            let text = std::env::var(variable).unwrap_or_default();
            text.split(',').any(|name| name.trim() == server.name())
        };
        decide(server.is_installed(), names(REQUIRED), names(LEFT_OUT))
    }

    /// Returns the reason why it cannot be run, if any.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Available => None,
            Self::Ignored(reason) | Self::Missing(reason) => Some(reason),
        }
    }
}

fn decide(is_installed: bool, is_required: bool, is_left_out: bool) -> Availability {
    match (is_installed, is_required, is_left_out) {
        (true, true, _) | (true, _, false) => Availability::Available,
        (false, true, _) => {
            Availability::Missing("it is required and not installed on this machine")
        }
        (true, false, true) => Availability::Ignored("it was left out on purpose"),
        (false, false, _) => Availability::Ignored("it is not installed on this machine"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_required_and_missing_products_fail() {
        assert_eq!(decide(true, false, false), Availability::Available);
        assert_eq!(decide(true, true, true), Availability::Available);
        assert!(matches!(decide(true, false, true), Availability::Ignored(_)));
        assert!(matches!(decide(false, false, false), Availability::Ignored(_)));
        assert!(matches!(decide(false, true, false), Availability::Missing(_)));
    }
}
