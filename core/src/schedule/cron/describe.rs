//! An expression in words.

use super::expression::Cron;

pub(super) fn describe(cron: &Cron) -> String {
    cron.to_string()
}
