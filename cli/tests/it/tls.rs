//! Tests of TLS with a private certificate authority, and of the warnings about readable files.

use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::server_process::{Server, output, punctual, text};

// Finding F16 of the security review.
#[test]
fn the_certificate_authority_comes_from_a_flag_or_a_variable() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    std::fs::write(file("ca.pem"), issuer.pem()).unwrap();
    std::fs::write(file("cert.pem"), certificate.pem()).unwrap();
    std::fs::write(file("key.pem"), key.serialize_pem()).unwrap();
    let config = "[server.tls]\ncertificate = \"cert.pem\"\nkey = \"key.pem\"\n\
                  [jobs.one]\nevery = \"1h\"\ntopic = \"t\"\n";
    std::fs::write(file("punctual.toml"), config).unwrap();
    let server = Server::start(folder.path(), &["--storage", "memory:"]);
    let url = format!("https://localhost:{}", server.address.port());
    let list = ["jobs", "list", "--server", &url];
    let refused = output(folder.path(), &list);
    assert!(text(&refused.stderr).contains("certificate"), "{}", text(&refused.stderr));
    let listed = output(folder.path(), &[&list[..], &["--ca-file", "ca.pem"]].concat());
    assert!(text(&listed.stdout).contains("one"), "{}", text(&listed.stderr));
    let mut command = punctual(folder.path(), &list);
    let listed = command.env("PUNCTUAL_CA_FILE", file("ca.pem")).output().unwrap();
    assert!(listed.status.success(), "{}", text(&listed.stderr));
    let wrong = output(folder.path(), &[&list[..], &["--ca-file", "key.pem"]].concat());
    assert!(text(&wrong.stderr).contains("holds no certificates"), "{}", text(&wrong.stderr));
    assert_eq!(server.stop(), Some(0));
}

// Findings F12, F16 and F29 of the security review.
#[test]
fn the_doctor_warns_about_files_that_other_users_can_read() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.db");
    let migrated = output(folder.path(), &["migrate", "--storage", "sqlite:a.db"]);
    assert!(migrated.status.success(), "{}", text(&migrated.stderr));
    let checked = output(folder.path(), &["doctor", "--storage", "sqlite:a.db"]);
    assert!(checked.status.success(), "{}", text(&checked.stdout));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let checked = output(folder.path(), &["doctor", "--storage", "sqlite:a.db"]);
    let printed = text(&checked.stdout);
    assert!(!checked.status.success() && printed.contains("chmod o-rwx"), "{printed}");
    let config = "[server]\nlisten = \"0.0.0.0:8080\"\n[auth]\nmode = \"password\"\n\
                  [storage]\naddress = \"postgres://ada:s3cret@name.invalid/shop\"\n";
    std::fs::write(folder.path().join("open.toml"), config).unwrap();
    let checked = output(folder.path(), &["doctor", "--config", "open.toml"]);
    let printed = text(&checked.stdout);
    for words in
        ["passwords and tokens are sent unencrypted to 0.0.0.0:8080", "sslmode=verify-full"]
    {
        assert!(printed.contains(words), "{printed}");
    }
    assert!(!printed.contains("s3cret"), "{printed}");
    let key = folder.path().join("key.pem");
    std::fs::write(&key, "a key").unwrap();
    let config = "[server.tls]\ncertificate = \"cert.pem\"\nkey = \"key.pem\"\n[storage]\naddress = \"sqlite:a.db\"\n";
    std::fs::write(folder.path().join("tls.toml"), config).unwrap();
    for (mode, is_named) in [(0o644, true), (0o600, false)] {
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
        let checked = output(folder.path(), &["doctor", "--config", "tls.toml"]);
        let printed = text(&checked.stdout);
        assert_eq!(printed.contains("key.pem (mode 644)"), is_named, "{printed}");
        assert_eq!(printed.contains("chmod o-rwx key.pem"), is_named, "{printed}");
    }
}
