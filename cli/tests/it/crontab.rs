//! Tests of `punctual import crontab`, `completions` and `man`.

use std::path::Path;
use std::process::{Command, Output, Stdio};

const CRONTAB: &str = "\
SHELL=/bin/bash
PATH=/usr/bin:/bin
MAILTO=ops@example.com

# Say hello
0 9 * * 1-5 echo 'hello there' >> /tmp/hello
@hourly /opt/shop/rates.sh
0 4 1,15 * 5 /opt/shop/backup --all
@reboot /opt/shop/start
";

fn punctual(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(args).current_dir(folder).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_crontab_becomes_a_valid_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("tab"), CRONTAB).unwrap();
    let args = ["import", "crontab", "tab", "--zone", "Europe/Warsaw", "--output", "punctual.toml"];
    let output = punctual(folder, &args);
    assert_eq!(
        text(&output.stderr),
        "\
note: line 3: MAILTO: no mail is sent; the output is in the log of each execution, and a webhook can report failures
note: line 8: cron runs when either day field matches, so the line became two jobs that share no day
Converted 3 of 4 lines.
not converted: line 9: @reboot /opt/shop/start: @reboot has no time; start the command from the service manager instead
error: 1 line could not be converted
hint: they are comments in the configuration; convert them by hand
"
    );
    assert_eq!(output.status.code(), Some(1));
    let config = std::fs::read_to_string(folder.join("punctual.toml")).unwrap();
    assert!(config.contains("# Not converted: line 9: @reboot"), "{config}");
    assert!(config.contains("cron = \"0 4 2-14,16-31 * 5\""), "{config}");
    let misfire = "misfire = { policy = \"skip_to_next\", threshold = \"10s\" }";
    assert!(config.contains(misfire), "missed occurrences are skipped: {config}");
    // Finding P9 of the newcomer's review: an interrupted program was started again.
    assert_eq!(config.matches("retry = 0\nwhen_interrupted = \"lost\"\n").count(), 4, "{config}");
    let checked = punctual(folder, &["config", "check"]);
    assert!(checked.status.success(), "{}{config}", text(&checked.stderr));
    assert!(text(&checked.stdout).contains("jobs: 4"));
    // Finding P16 of the newcomer's review: the check must not warn about what the import writes.
    assert_eq!(text(&checked.stderr), "");
    assert_eq!(
        punctual(folder, &args).status.code(),
        Some(1),
        "an existing file is not overwritten"
    );
    assert_eq!(punctual(folder, &["import", "crontab", "none"]).status.code(), Some(3));
}

#[test]
fn completions_contain_every_command() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = punctual(folder.path(), &["completions", shell]);
        assert!(output.status.success(), "{shell}");
        assert!(text(&output.stdout).contains("backfill"), "{shell}");
    }
    assert_eq!(punctual(folder.path(), &["completions", "sh5"]).status.code(), Some(2));
}

#[test]
fn the_manual_has_a_page_for_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let output = punctual(folder.path(), &["man", "pages"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for name in ["punctual", "punctual-jobs", "punctual-jobs-backfill", "punctual-import-crontab"] {
        let page = std::fs::read_to_string(folder.path().join(format!("pages/{name}.1"))).unwrap();
        assert!(page.contains(&format!(".TH {name} 1")), "{name}: {page:.200}");
    }
    let first = text(&punctual(folder.path(), &["man"]).stdout);
    assert!(first.contains("Exit codes"), "the manual lists the exit codes");
}
