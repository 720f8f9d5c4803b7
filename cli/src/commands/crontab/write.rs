//! The configuration that does what a crontab did.

use std::fmt::Write;

use toml::Value;

use super::line::{Entry, Found};

/// A run that is later than this is missed, and not made up for: long enough for a busy machine, short
/// enough that nothing runs minutes after its time.
const THRESHOLD: &str = "10s";

/// The whole text.
pub(super) fn configuration(found: &Found, from: &str) -> String {
    let mut text = format!(
        "# Made from {} by `punctual import crontab`. Run it with `punctual serve --config FILE`.\n\
         # Each job does as cron does: what was missed is not made up for, a run that fails is not tried\n\
         # again, nor is one that a crash or a stop of the server has cut off, and a run may begin while the\n\
         # one before still runs. Change misfire, retry, when_interrupted and overlap where you want better.\n\n[command]\n# Jobs may run programs only when this says so.\nenabled = true\n",
        one_line(from)
    );
    for refused in &found.refused {
        let _ = write!(text, "\n# Not converted: {}\n", one_line(refused));
    }
    for job in &found.jobs {
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
