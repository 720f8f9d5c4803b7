//! Which programs jobs may run, and which variables they may set. A list of programs is no sandbox: what a listed
//! program does with its arguments is up to the program.

use std::path::Path;

use punctual::{Error, Result};

use crate::config::CommandConfig;
use crate::spec::CommandTarget;

/// The shell of a target with `shell`.
const SHELL: &str = "sh";
/// Variables by which a program finds or loads other code, by name or by beginning. A job that may set them runs
/// programs that are not listed.
const LOADING: [&str; 18] = [
    "PATH",
    "LD_*",
    "DYLD_*",
    "ENV",
    "BASH_ENV",
    "SHELLOPTS",
    "BASHOPTS",
    "IFS",
    "PYTHON*",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PERL5*",
    "PERLLIB",
    "RUBY*",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "GIT_*",
    "GCONV_PATH",
];

/// The program that a target runs; an error when the configuration does not allow it, or a variable it sets.
pub(crate) fn allowed<'a>(config: &'a CommandConfig, target: &'a CommandTarget) -> Result<&'a str> {
    if !config.enabled {
        return Err(Error::invalid(
            "this server runs no programs; set command.enabled = true in its configuration",
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
    let is_allowed = |name: &str| config.job_env.iter().any(|allowed| allowed == name);
    match target.env.keys().find(|name| loads_code(name) && !is_allowed(name)) {
        None => Ok(program),
        Some(name) => Err(Error::invalid(format!(
            "the variable {name:?} would make {named:?} load other code; leave it out, or list it in command.job_env of the configuration"
        ))),
    }
}

/// Whether a job means a listed program: by its path, or by its name alone.
fn is_named(listed: &str, named: &str) -> bool {
    listed == named || Path::new(listed).file_name().is_some_and(|name| name == named)
}

fn loads_code(name: &str) -> bool {
    LOADING.iter().any(|loading| match loading.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == *loading,
    })
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
    fn a_listed_program_is_run_by_its_path_and_loads_nothing_else() {
        let config = listed(&["/usr/bin/date"]);
        let run = |value| allowed(&config, &target(value)).map(ToOwned::to_owned);
        assert_eq!(run(json!({"program": "date"})).unwrap(), "/usr/bin/date");
        assert_eq!(run(json!({"program": "/usr/bin/date"})).unwrap(), "/usr/bin/date");
        for program in ["/tmp/date", "./date", "../bin/date", "dat", "sh"] {
            assert!(run(json!({"program": program})).is_err(), "{program}");
        }
        assert!(run(json!({"program": "date", "shell": true})).is_err(), "a shell is not listed");
        for name in ["PATH", "LD_PRELOAD", "BASH_ENV", "PYTHONPATH", "NODE_OPTIONS", "GIT_SSH"] {
            let error = run(json!({"program": "date", "env": {name: "x"}})).unwrap_err();
            assert!(error.to_string().contains("command.job_env"), "{error}");
        }
        assert!(run(json!({"program": "date", "env": {"KIND": "daily"}})).is_ok());
    }

    #[test]
    fn variables_may_be_allowed_and_without_a_list_everything_is() {
        let value = json!({"program": "date", "env": {"PYTHONPATH": "/srv/lib"}});
        let config =
            CommandConfig { job_env: vec!["PYTHONPATH".to_owned()], ..listed(&["/usr/bin/date"]) };
        assert!(allowed(&config, &target(value.clone())).is_ok());
        assert_eq!(allowed(&listed(&[]), &target(value)).unwrap(), "date");
        let shell = target(json!({"program": "date", "shell": true}));
        assert_eq!(allowed(&listed(&[]), &shell).unwrap(), "sh");
        assert_eq!(allowed(&listed(&["/bin/sh"]), &shell).unwrap(), "/bin/sh");
    }
}
