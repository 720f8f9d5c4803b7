//! Invalid configurations and their problems.

use super::*;
use crate::config::{AuthMode, EXAMPLE, LogFormat, ServerRole};

fn refused(text: &str) -> Vec<String> {
    let problems = Sources::default().read("punctual.toml", text).unwrap_err();
    problems.0.iter().map(ToString::to_string).collect()
}

fn with_variables(text: &str, variables: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
    let variables =
        variables.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Sources { variables, ..Sources::default() }.read("punctual.toml", text)
}

#[test]
fn an_empty_file_is_a_configuration() {
    let config = Sources::default().read("punctual.toml", "").unwrap();
    assert_eq!(config, Config::default());
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.storage.address.plain(), Some("sqlite:punctual.db"));
}

#[test]
fn the_example_passes_its_own_check() {
    let config = Sources::default().read("example.toml", EXAMPLE).unwrap();
    assert_eq!(config.jobs.len(), 4);
    // What is shown is a configuration again.
    let shown = config.show().unwrap();
    let again = Sources::default().read("shown.toml", &shown).unwrap();
    assert_eq!(again, config.hidden());
}

#[test]
fn each_problem_names_its_line_its_key_and_the_fix() {
    for (text, line, key, words) in [
        ("[server]\nlisten = \"here\"", 2, "server.listen", "such as \"127.0.0.1:8080\""),
        ("[server]\n\nlisten = \"0.0.0.0:80\"", 3, "server.listen", "set auth.mode"),
        ("[server]\nlisten = 8080", 2, "server.listen", "8080"),
        ("[server]\nroles = [\"api\", \"cook\"]", 2, "server.roles.1", "`cook`"),
        ("[server]\nroles = []", 2, "server.roles", "use one or more of"),
        ("[server]\nurl_prefix = \"x\"", 2, "server.url_prefix", "begin with a slash"),
        ("[serber]\n", 1, "serber", "did you mean server?"),
        ("[storage]\nadress = \"memory:\"", 2, "storage.adress", "did you mean address?"),
        ("[storage]\naddress = \"data.db\"", 2, "storage.address", "write \"sqlite:data.db\""),
        ("[storage]\naddress = { envv = \"A\" }", 2, "storage.address.envv", "did you mean env?"),
        ("[auth]\nmode = \"magic\"", 2, "auth.mode", "`magic`"),
        ("[auth]\nmode = \"proxy\"", 1, "auth.proxy_trusted", "list it"),
        ("[auth]\nsession_ttl = \"12\"", 2, "auth.session_ttl", "has no unit"),
        ("[transports.a]\n", 1, "transports.a", "address is missing; set address ="),
        ("[transports.a]\naddress = \"x\"", 2, "transports.a.address", "has no scheme"),
        ("[queues.default]\nconcurrency = 0", 2, "queues.default.concurrency", "1 or more"),
        ("[queues.default]\nconcurrency = -1", 2, "queues.default.concurrency", "-1"),
        ("[retention]\nhistory = \"1y\"", 2, "retention.history", "months or years"),
        ("[log]\nformat = \"xml\"", 2, "log.format", "`xml`"),
        ("[http]\nallow = [\"10.0.0.0/64\"]", 2, "http.allow", "not a network"),
        ("[jobs.a]\ncron = \"x\"\ntopic = \"t\"", 2, "jobs.a.cron", "\"x\""),
        ("[jobs.a]\nevery = \"5m\"", 1, "jobs.a.target", "set one of http"),
        ("[jobs.a]\ntopic = \"t\"", 1, "jobs.a.schedule", "set one of cron"),
        ("[jobs.a]\nevery = \"5m\"\ntopic = \"t\"\nretry = -2", 4, "jobs.a.retry", "-2"),
        (
            "[jobs.a]\nevery = \"5m\"\n[jobs.a.http]\nurl = \"http://a\"\nmethd = \"GET\"",
            5,
            "jobs.a.http.methd",
            "did you mean method?",
        ),
        (
            "[jobs.a]\nevery = \"5m\"\ncommand = { program = \"ls\" }",
            3,
            "jobs.a.command",
            "command.enabled = true",
        ),
        (
            "[jobs.a]\nevery = \"5m\"\n\npublish = { topic = \"t\", transport = \"x\" }",
            4,
            "jobs.a.publish.transport",
            "add [transports.x]",
        ),
        ("[secrets]\nenv = [\"A\"]", 2, "secrets.env", "{ env = \"NAME\", jobs ="),
        (
            "[secrets.a]\nenv = \"A\"\nfile = \"b\"\njobs = [\"x\"]",
            1,
            "secrets.a",
            "set one of env and file",
        ),
        ("[command]\nprograms = [\"date\"]", 2, "command.programs", "such as /usr/bin/date"),
        ("a = \n", 1, "", "must be TOML"),
        ("[log]\nlevel = \"info\"\nlevel = \"warn\"", 3, "", "must be TOML"),
    ] {
        let problems = refused(text);
        let start = format!("punctual.toml:{line}: {key}");
        assert!(problems[0].starts_with(&start), "{text}: {problems:?}");
        assert!(problems[0].contains(words), "{text}: {problems:?}");
        assert_eq!(problems.len(), 1, "{text}: {problems:?}");
    }
}

#[test]
fn problems_of_the_network_name_the_fix() {
    for (text, line, key, words) in [
        (
            "[server.connections]\nlimit_per_address = 0",
            2,
            "server.connections.limit_per_address",
            "refuses every client",
        ),
        (
            "[server.connections]\nrequests_per_caller = 0",
            2,
            "server.connections.requests_per_caller",
            "refuses every client",
        ),
        ("[server.tls]\ncertificate = \"a.pem\"", 1, "server.tls", "key is missing"),
        ("[outgoing]\nproxy = \"proxy:3128\"", 2, "outgoing.proxy", "http or https"),
    ] {
        let problems = refused(text);
        assert!(problems[0].starts_with(&format!("punctual.toml:{line}: {key}")), "{problems:?}");
        assert!(problems[0].contains(words) && problems.len() == 1, "{text}: {problems:?}");
    }
}

#[test]
fn unencrypted_passwords_are_warned_about() {
    let open = "[server]\nlisten = \"0.0.0.0:8080\"\n";
    let warns = |text: &str| {
        let config = Sources::default().read("punctual.toml", text).unwrap();
        config.plain_passwords().is_some()
    };
    let password = "[auth]\nmode = \"password\"\n";
    assert!(warns(&format!("{open}{password}")));
    assert!(!warns(password), "loopback");
    let tls = "[server.tls]\ncertificate = \"a.pem\"\nkey = \"b.pem\"\n";
    assert!(!warns(&format!("{open}{tls}{password}")));
    let proxied = "public_url = \"https://punctual.example.com\"\n";
    assert!(!warns(&format!("{open}{proxied}{password}")));
    assert!(!warns(&format!("{open}roles = [\"worker\"]\n{password}")), "no socket");
}

#[test]
fn all_problems_are_reported_together() {
    let text = "[server]\nlisten = 1\nrols = []\n\n[log]\nlevl = \"x\"\n\n[jobs.a]\ncron = \"x\"\n\
                zone = \"Nowhere\"\ntopic = \"t\"\n";
    let problems = refused(text);
    let lines: Vec<&str> = problems.iter().map(|one| one.split(": ").next().unwrap()).collect();
    for line in [2, 3, 6, 9, 10] {
        assert!(lines.contains(&&*format!("punctual.toml:{line}")), "{line}: {problems:?}");
    }
    assert_eq!(lines.len(), 5, "{problems:?}");
}

#[test]
fn variables_override_the_file_and_flags_override_both() {
    let text = "[server]\nlisten = \"127.0.0.1:1\"\n\n[jobs.nightly-report]\nevery = \"5m\"\ntopic = \"t\"";
    let variables = [
        ("PUNCTUAL__SERVER__LISTEN", "127.0.0.1:2"),
        ("PUNCTUAL__SERVER__NAME", "123"),
        ("PUNCTUAL__SERVER__ROLES", "api,worker"),
        ("PUNCTUAL__LOG__FORMAT", "json"),
        ("PUNCTUAL__AUTH__MODE", "password"),
        ("PUNCTUAL__QUEUES__DEFAULT__CONCURRENCY", "7"),
        ("PUNCTUAL__COMMAND__ENABLED", "true"),
        ("PUNCTUAL__JOBS__NIGHTLY_REPORT__EVERY", "9m"),
        ("SOMETHING_ELSE", "x"),
    ];
    let config = with_variables(text, &variables).unwrap();
    assert_eq!(config.server.listen.port(), 2);
    assert_eq!(config.server.name.as_deref(), Some("123"));
    assert_eq!(config.server.roles, [ServerRole::Api, ServerRole::Worker]);
    assert_eq!((config.log.format, config.auth.mode), (LogFormat::Json, AuthMode::Password));
    assert_eq!(config.queues["default"].concurrency, Some(7));
    assert!(config.command.enabled);
    assert_eq!(config.jobs["nightly-report"].every.as_deref(), Some("9m"));
    let flags = vec![("--listen", "server.listen", "127.0.0.1:3".to_owned())];
    let sources = Sources { flags, ..Sources::default() };
    assert_eq!(sources.read("punctual.toml", text).unwrap().server.listen.port(), 3);
}

#[test]
fn a_problem_in_a_variable_or_flag_names_it() {
    let error = with_variables("", &[("PUNCTUAL__SERVER__LISTN", "x")]).unwrap_err().to_string();
    assert!(error.starts_with("the variable PUNCTUAL__SERVER__LISTN: server.listn: "), "{error}");
    assert!(error.contains("did you mean listen?"), "{error}");
    let error = with_variables("", &[("PUNCTUAL__QUEUES__A__CONCURRENCY", "many")]);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("the variable PUNCTUAL__QUEUES__A__CONCURRENCY"), "{error}");
    let flags = vec![("--listen", "server.listen", "0.0.0.0:80".to_owned())];
    let error = Sources { flags, ..Sources::default() }.read("punctual.toml", "").unwrap_err();
    assert!(error.to_string().starts_with("the flag --listen: server.listen: "), "{error}");
}

#[test]
fn secrets_are_never_shown() {
    let text = "[storage]\naddress = \"postgres://ada:s3cret@db/shop?password=s3cret\"\n\
        [outgoing]\nproxy = \"http://ada:s3cret@proxy:3128\"\n\
        [transports.t]\naddress = \"postgres://u:s3cret@host/db\"\n\
        [auth]\noidc_client_secret = \"s3cret\"\n\
        [telemetry]\nheaders = { X = \"s3cret\" }\n\
        [jobs.a]\nevery = \"5m\"\n\
        http = { url = \"https://a\", headers = { X = \"s3cret\" }, signature = { secret = \"s3cret\" } }";
    let config = Sources::default().read("punctual.toml", text).unwrap();
    let shown = config.show().unwrap();
    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(shown.contains("postgres://(hidden)@db/shop?(hidden)"), "{shown}");
    assert!(shown.contains("http://(hidden)@proxy:3128"), "{shown}");
    assert!(!format!("{config:?}").contains("s3cret"));
}

#[cfg(feature = "oidc")]
#[test]
fn oidc_needs_a_provider_and_a_role_mapping() {
    let text = "[server]\npublic_url = \"https://a.example.com\"\n[auth]\nmode = \"oidc\"\n\
        oidc_issuer = \"https://login.example.com\"\noidc_client_id = \"punctual\"\n";
    for (change, key, words) in [
        ("", "auth.oidc_roles", "no user could sign in"),
        ("oidc_roles = { a = \"admin\" }", "auth.oidc_role_claim", "name the claim"),
        ("oidc_role_claim = \"g\"\noidc_roles = { a = \"boss\" }", "auth.oidc_roles.a", "`boss`"),
        ("oidc_role_default = \"guest\"", "auth.oidc_role_default", "has no access"),
    ] {
        let problems = refused(&format!("{text}{change}"));
        assert!(problems[0].contains(&format!(" {key}: ")), "{change}: {problems:?}");
        assert!(problems[0].contains(words) && problems.len() == 1, "{change}: {problems:?}");
    }
    let good = format!("{text}oidc_role_default = \"viewer\"");
    Sources::default().read("punctual.toml", &good).unwrap();
    let plain = good.replace("https://login", "http://login");
    assert!(refused(&plain)[0].contains("https URL"), "{:?}", refused(&plain));
    let plain = good.replace("https://a.example", "http://a.example");
    assert!(refused(&plain)[0].contains("server.public_url"), "{:?}", refused(&plain));
    let prefixed = good.replace("[server]", "[server]\nurl_prefix = \"/ops\"");
    assert!(refused(&prefixed)[0].contains("example.com/ops\""), "{:?}", refused(&prefixed));
    assert_eq!(refused("[auth]\nmode = \"oidc\"\noidc_role_default = \"viewer\"").len(), 3);
}

#[cfg(not(feature = "oidc"))]
#[test]
fn a_build_without_oidc_names_the_feature() {
    let text = "[server]\npublic_url = \"https://a.example.com\"\n[auth]\nmode = \"oidc\"\n\
        oidc_issuer = \"https://login.example.com\"\noidc_client_id = \"punctual\"\n\
        oidc_role_default = \"viewer\"\n";
    let problems = refused(text);
    assert!(problems[0].contains("the cargo feature `oidc`"), "{problems:?}");
}

#[cfg(feature = "otlp")]
#[test]
fn telemetry_reads_the_standard_variables_and_ours_override_them() {
    let text = "[telemetry]\notlp = \"http://file:4318\"";
    let usual = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://usual:4318");
    let named = ("OTEL_SERVICE_NAME", "shop");
    let config = with_variables(text, &[usual, named]).unwrap().telemetry;
    assert_eq!(config.otlp.as_deref(), Some("http://usual:4318"));
    assert_eq!(config.service_name, "shop");
    let ours = ("PUNCTUAL__TELEMETRY__OTLP", "http://ours:4318");
    let config = with_variables(text, &[ours, usual]).unwrap().telemetry;
    assert_eq!(config.otlp.as_deref(), Some("http://ours:4318"));
    for wrong in ["collector:4318", "ftp://a", "http://u:p@a", ""] {
        let problems = refused(&format!("[telemetry]\notlp = \"{wrong}\""));
        assert!(problems[0].contains("telemetry.otlp"), "{problems:?}");
    }
}

#[cfg(not(feature = "otlp"))]
#[test]
fn a_build_without_telemetry_names_the_feature() {
    let problems = refused("[telemetry]\notlp = \"http://127.0.0.1:4318\"");
    assert!(problems[0].contains("the cargo feature `otlp`"), "{problems:?}");
    // Standard variables for every program on the machine are not a problem.
    with_variables("", &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a")]).unwrap();
}

#[test]
fn a_missing_file_and_a_binary_file_are_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("none.toml");
    let sources = Sources { file: Some(file.clone()), ..Sources::default() };
    let error = sources.load().unwrap_err().to_string();
    assert!(error.contains("does not exist"), "{error}");
    std::fs::write(&file, [0xff, 0xfe]).unwrap();
    let error = sources.load().unwrap_err().to_string();
    assert!(error.contains("UTF-8"), "{error}");
}

#[test]
fn a_forwarder_is_listed_by_its_address() {
    let read = |list: &str| {
        let text = format!("[server]\ntrusted_forwarders = {list}");
        Sources::default().read("punctual.toml", &text)
    };
    assert!(read("[\"10.0.0.0/8\", \"fd00::1\"]").is_ok());
    let refused = read("[\"10.0.0.1\", \"proxy\"]").unwrap_err().to_string();
    assert!(refused.contains("server.trusted_forwarders"), "{refused}");
    assert!(refused.contains("\"proxy\" is a name"), "{refused}");
}

// Finding P16 of the newcomer's review: jobs without a target or with two schedules were reported only after
// everything else was fixed.
#[test]
fn missing_and_duplicate_keys_are_reported_with_the_rest() {
    let text = "[server]\nlisten = 1\n[auth]\nmode = \"proxy\"\n[log]\nlevel = \"loud\"\n\
        [jobs.none]\n[jobs.two]\nevery = \"5m\"\ncron = \"* * * * *\"\ntopic = \"t\"\n\
        [jobs.wrong]\ncron = 5\nevery = \"5m\"\nzone = \"UTC\"\ntopic = \"\"\npublish = 1\n\
        [jobs.program]\nevery = \"5m\"\ncommand = { program = \"ls\", sheel = true }\n";
    let problems = refused(text);
    let keys: Vec<&str> = problems.iter().map(|one| one.split(": ").nth(1).unwrap()).collect();
    let wanted = [
        "auth.proxy_trusted",
        "jobs.none.schedule",
        "jobs.none.target",
        "jobs.program.command",
        "jobs.program.command.sheel",
        "jobs.two.schedule",
        "jobs.wrong.cron",
        "jobs.wrong.publish",
        "jobs.wrong.schedule",
        "jobs.wrong.target",
        "jobs.wrong.topic",
        "log.level",
        "server.listen",
    ];
    assert_eq!(BTreeSet::from_iter(keys), BTreeSet::from(wanted), "{problems:#?}");
    assert_eq!(problems.len(), wanted.len(), "{problems:#?}");
}

// Finding P16 of the newcomer's review: an invalid value was reported again as missing, or hid missing keys
// elsewhere.
#[test]
fn an_invalid_value_is_not_reported_as_missing() {
    for text in [
        "[server]\nlisten = \"0.0.0.0:80\"\n[auth]\nmode = \"magic\"",
        "[auth]\nmode = \"proxy\"\nproxy_trusted = 5",
        "[command]\nenabled = \"yes\"\n[jobs.a]\nevery = \"5m\"\ncommand = { program = \"ls\" }",
        "[transports.x]\n[jobs.a]\nevery = \"5m\"\npublish = { topic = \"t\", transport = \"x\" }",
        "[secrets.a]\nenv = 5\njobs = [\"x\"]",
        "[jobs.a]\ncron = 5\nzone = \"UTC\"\ntopic = \"t\"",
        "[jobs.a]\nevery = 5\nanchor = \"last run\"\nhttp = { method = \"GET\" }\n[jobs.a.command]\n",
    ] {
        let problems = refused(text);
        let wanted = if text.contains("anchor") { 4 } else { 1 };
        assert_eq!(problems.len(), wanted, "{text}: {problems:#?}");
    }
}

// Finding P16 of the newcomer's review: a syntax error hid all other problems.
#[test]
fn syntax_errors_are_reported_with_the_rest() {
    for (text, wanted) in [
        ("[log]\nlevel = loud\n[jobs.a]\ncron = \"61 * * * *\"\ntopic = \"t\"", vec![2, 4]),
        ("[jobs.a]\ncron = \"0 2 * * *\ntopic = \"t\"\nretry = -2", vec![2, 4]),
        ("[server]\nlisten = \"127.0.0.1:1\"\nlisten = 2\nrols = []", vec![3, 4]),
        ("a = \nb = \n", vec![1, 2]),
    ] {
        let problems = refused(text);
        let line = |one: &String| one.split(": ").next().unwrap().replace("punctual.toml:", "");
        let lines: Vec<String> = problems.iter().map(line).collect();
        let wanted: Vec<String> = wanted.iter().map(ToString::to_string).collect();
        assert_eq!(lines, wanted, "{text}: {problems:#?}");
    }
}
