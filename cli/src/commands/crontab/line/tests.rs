//! Single lines of crontabs.

use super::*;

fn read(system: bool, text: &str) -> Crontab {
    let mut reader = CrontabReader::new(system, Some("Europe/Warsaw".to_owned()));
    for (index, line) in text.lines().enumerate() {
        reader.line(index + 1, line);
    }
    reader.finish()
}

#[test]
fn variables_comments_and_input_are_converted() {
    let text = "\
# the whole shop
PATH=/usr/bin:/bin
GREETING = \"hello there\"
# Nightly backup
30 2 * * * /opt/shop/backup.sh --keep 7\\%
CRON_TZ=UTC
@daily mail ops%First line%Second \\% line
";
    let found = read(false, text);
    assert!(found.rejected.is_empty() && found.notes.is_empty(), "{found:?}");
    let [backup, mail] = &found.jobs[..] else { panic!("{found:?}") };
    assert_eq!((backup.name.as_str(), backup.cron.as_str()), ("backup", "30 2 * * *"));
    assert_eq!(backup.description, "Nightly backup");
    assert_eq!(backup.command, "/opt/shop/backup.sh --keep 7%");
    assert_eq!(backup.zone.as_deref(), Some("Europe/Warsaw"));
    assert_eq!(backup.env["GREETING"], "hello there");
    assert_eq!(mail.zone.as_deref(), Some("UTC"));
    assert_eq!(mail.command, "mail ops");
    assert_eq!(mail.input.as_deref(), Some("First line\nSecond % line\n"));
    assert!(!mail.env.contains_key("CRON_TZ"));
    assert_eq!(mail.description, "From line 7 of the crontab");
}

#[test]
fn a_system_crontab_names_users() {
    let found =
        read(true, "17 * * * * root cd / && run-parts /etc/cron.hourly\n5 5 * * * root b\n");
    assert_eq!(found.jobs[0].command, "cd / && run-parts /etc/cron.hourly");
    assert_eq!(found.jobs[0].name, "line-1");
    assert_eq!(found.notes.len(), 1, "reported once: {:?}", found.notes);
    assert!(found.notes[0].contains("not as root"));
}

#[test]
fn names_are_not_used_twice() {
    let found = read(false, "1 * * * * /a/x.sh\n2 * * * * /b/x.sh\n3 3 1 * 5 x\n");
    let names: Vec<&str> = found.jobs.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["x", "x-2", "x-3", "x-4"]);
    assert!(found.notes[0].contains("two jobs that share no day"), "{:?}", found.notes);
}

#[test]
fn lines_that_cannot_be_converted_are_reported() {
    let table = [
        ("@reboot /opt/start", "service manager"),
        ("61 * * * * x", "61"),
        ("* * * x", "five fields"),
        ("* * * * * %", "no command"),
        ("* * * * * echo {{ x }}", "template"),
        ("0 0 1~5 * 1 x", "1~5"),
        ("@sometimes x", "@sometimes"),
    ];
    for (line, words) in table {
        let found = read(false, line);
        assert!(found.jobs.is_empty(), "{line}");
        assert_eq!(found.lines, 1, "{line}");
        assert!(found.rejected[0].contains(words), "{line}: {}", found.rejected[0]);
    }
    let found = read(false, "MAILTO=ops@example.com\nRANDOM_DELAY=5\n");
    assert_eq!((found.notes.len(), found.lines), (2, 0));
}

// Finding P16 of the newcomer's review: a line that never runs was converted without a warning.
#[test]
fn a_line_that_never_runs_is_warned_about() {
    let found = read(false, "0 0 31 2 * x\n");
    let [warning] = &found.warnings[..] else { panic!("{found:?}") };
    assert!(
        warning.starts_with("line 1: 0 0 31 2 *: the day does not exist in that month"),
        "{warning}"
    );
    assert_eq!(found.jobs.len(), 1);
    // Either day field is enough, and one of them matches.
    let found = read(false, "0 0 31 2 5 x\n");
    assert!(found.warnings.is_empty() && found.notes.is_empty(), "{found:?}");
    let [job] = &found.jobs[..] else { panic!("{found:?}") };
    assert_eq!(job.cron, "0 0 1-30 2 5");
}
