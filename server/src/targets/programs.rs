//! Allowed programs and variables of jobs. A list of programs is not a sandbox: what a listed program does with
//! its arguments is up to the program. With a list of programs, variables are restricted too, because most
//! programs load code or configuration by some variable, and no list of those is complete.

use std::path::Path;

use punctual::{Error, Result};

use crate::config::CommandConfig;
use crate::spec::CommandTarget;

/// The shell of a target with `shell`.
const SHELL: &str = "sh";

/// Returns the program of a target; fails when the configuration does not allow it, or a variable it sets.
pub(crate) fn allowed<'a>(config: &'a CommandConfig, target: &'a CommandTarget) -> Result<&'a str> {
    if !config.enabled {
        return Err(Error::invalid(
            "running programs is disabled; set command.enabled = true in the configuration",
        ));
    }
    let named = if target.shell { SHELL } else { target.program.as_str() };
    if config.programs.is_empty() {
        return Ok(named);
    }
    let Some(program) = config.programs.iter().find(|listed| is_named(listed, named)) else {
        return Err(Error::invalid(format!(
            "{named:?} is not in command.programs of the configuration; add its absolute path there"
        )));
    };
    let is_allowed = |name: &str| config.job_env.iter().any(|allowed| covers(allowed, name));
    match target.env.keys().find(|name| !is_allowed(name)) {
        None => Ok(program),
        Some(name) => Err(Error::invalid(format!(
            "the variable {name:?} is not in command.job_env of the configuration, which lists the variables that jobs may set with \
             command.programs; add it there unless {named:?} loads code or configuration by it"
        ))),
    }
}

/// Returns whether a name refers to a listed program, by path or by file name.
fn is_named(listed: &str, named: &str) -> bool {
    listed == named || Path::new(listed).file_name().is_some_and(|name| name == named)
}

/// Returns whether an entry of the list matches a variable; `REPORT_*` is a prefix.
fn covers(allowed: &str, name: &str) -> bool {
    match allowed.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == allowed,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn target(value: serde_json::Value) -> CommandTarget {
        serde_json::from_value(value).unwrap()
    }

    fn listed(programs: &[&str]) -> CommandConfig {
        let programs = programs.iter().map(|program| (*program).to_owned()).collect();
        CommandConfig { enabled: true, programs, ..CommandConfig::default() }
    }

    // Finding F9 of the security review.
    #[test]
    fn a_listed_program_is_run_by_its_path() {
        let config = listed(&["/usr/bin/date"]);
        let run = |value| allowed(&config, &target(value)).map(ToOwned::to_owned);
        assert_eq!(run(json!({"program": "date"})).unwrap(), "/usr/bin/date");
        assert_eq!(run(json!({"program": "/usr/bin/date"})).unwrap(), "/usr/bin/date");
        for program in ["/tmp/date", "./date", "../bin/date", "dat", "sh"] {
            assert!(run(json!({"program": program})).is_err(), "{program}");
        }
        assert!(run(json!({"program": "date", "shell": true})).is_err(), "a shell is not listed");
    }

    // Finding F9 of the security review: no list of variables that load code is complete.
    #[test]
    fn a_job_of_a_listed_program_sets_only_the_variables_that_are_listed() {
        let config = listed(&["/usr/bin/date"]);
        let run = |value| allowed(&config, &target(value)).map(ToOwned::to_owned);
        let loading = "PATH LD_PRELOAD BASH_ENV PYTHONPATH NODE_OPTIONS GIT_SSH OPENSSL_CONF OPENSSL_MODULES \
            OPENSSL_ENGINES LUA_INIT LUA_INIT_5_4 LUA_PATH LUA_CPATH PHPRC PHP_INI_SCAN_DIR JDK_JAVA_OPTIONS CLASSPATH \
            R_PROFILE_USER R_LIBS DOTNET_STARTUP_HOOKS HOME XDG_CONFIG_HOME CURL_HOME";
        for name in loading.split_whitespace().chain(["KIND"]) {
            let error = run(json!({"program": "date", "env": {name: "x"}})).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(name) && text.contains("command.job_env"), "{text}");
        }
        assert!(run(json!({"program": "date"})).is_ok());
    }

    #[test]
    fn variables_may_be_allowed_and_without_a_list_all_are() {
        let value = json!({"program": "date", "env": {"PYTHONPATH": "/srv/lib"}});
        let config =
            CommandConfig { job_env: vec!["PYTHONPATH".to_owned()], ..listed(&["/usr/bin/date"]) };
        assert!(allowed(&config, &target(value.clone())).is_ok());
        let begun = CommandConfig { job_env: vec!["REPORT_*".to_owned()], ..config };
        let with = |name: &str| target(json!({"program": "date", "env": {name: "daily"}}));
        assert!(allowed(&begun, &with("REPORT_KIND")).is_ok());
        assert!(allowed(&begun, &with("LD_PRELOAD")).is_err());
        assert_eq!(allowed(&listed(&[]), &target(value)).unwrap(), "date");
        let shell = target(json!({"program": "date", "shell": true}));
        assert_eq!(allowed(&listed(&[]), &shell).unwrap(), "sh");
        assert_eq!(allowed(&listed(&["/bin/sh"]), &shell).unwrap(), "/bin/sh");
    }
}
