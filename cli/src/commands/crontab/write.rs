//! Configuration written from a crontab.

use std::fmt::Write;

use toml::Value;

use super::line::{Crontab, Entry};

/// Lateness after which an occurrence is missed and skipped: long enough for a busy machine, short enough that no job
/// runs minutes late.
const THRESHOLD: &str = "10s";

/// Returns the text of the configuration.
pub(super) fn configuration(crontab: &Crontab, from: &str) -> String {
    let mut text = format!(
        "# Generated from {} by `punctual import crontab`. Run it with `punctual serve --config FILE`.\n\
         # Each job behaves as under cron: missed occurrences are skipped, failed and interrupted runs are not retried,\n\
         # and runs may overlap. Change misfire, retry, when_interrupted and overlap to improve that.\n\n[command]\n# Jobs may run programs only when this is true.\nenabled = true\n",
        one_line(from)
    );
    for rejected in &crontab.rejected {
        let _ = write!(text, "\n# Not converted: {}\n", one_line(rejected));
    }
    for job in &crontab.jobs {
        let _ = write!(text, "\n{}", table(job));
    }
    text
}

fn one_line(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).collect()
}

fn table(job: &Entry) -> String {
    let mut text = format!("[jobs.{}]\n", job.name);
    let mut put = |key: &str, value: &str| {
        let _ = writeln!(text, "{key} = {}", quoted(value));
    };
    put("description", &job.description);
    put("cron", &job.cron);
    if let Some(zone) = &job.zone {
        put("zone", zone);
    }
    put("overlap", "allow");
    let _ =
        writeln!(text, "misfire = {{ policy = \"skip_to_next\", threshold = \"{THRESHOLD}\" }}");
    let _ = writeln!(text, "retry = 0\nwhen_interrupted = \"lost\"\n\n[jobs.{}.command]", job.name);
    let mut put = |key: &str, value: String| {
        let _ = writeln!(text, "{key} = {value}");
    };
    match &job.shell {
        None => {
            put("program", quoted(&job.command));
            put("shell", "true".to_owned());
        }
        Some(shell) => {
            put("program", quoted(shell));
            put("args", format!("[\"-c\", {}]", quoted(&job.command)));
        }
    }
    if let Some(directory) = &job.directory {
        put("directory", quoted(directory));
    }
    if let Some(input) = &job.input {
        put("input", quoted(input));
    }
    if !job.env.is_empty() {
        let pairs: Vec<String> =
            job.env.iter().map(|(name, value)| format!("{name} = {}", quoted(value))).collect();
        put("env", format!("{{ {} }}", pairs.join(", ")));
    }
    text
}

fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}
