//! Throttling without a server.

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn address(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

fn keys(name: &str, last: u8) -> Keys {
    Keys::of_name(name, Some(address(last)))
}

/// Guesses a wrong password; returns whether it was refused unchecked.
fn wrong(throttle: &Arc<Throttle>, name: &str, last: u8, second: i64) -> bool {
    throttle.begin(keys(name, last), at(second)).is_err()
}

// spec: C-6
#[test]
fn the_wait_doubles_and_ends_with_a_right_password() {
    let throttle = Arc::new(Throttle::default());
    let from = 1;
    for _ in 0..5 {
        assert!(!wrong(&throttle, "ada", from, 0));
    }
    assert!(wrong(&throttle, "ada", from, 0));
    assert!(!wrong(&throttle, "ada", from, 1));
    assert!(wrong(&throttle, "ada", from, 2));
    let right = throttle.begin(keys("ada", from), at(3)).unwrap();
    right.was_right();
    assert!(!wrong(&throttle, "ada", from, 3));
}

#[test]
fn guesses_slow_neither_another_network_nor_a_known_browser() {
    let throttle = Arc::new(Throttle::default());
    for second in 0..4_000 {
        wrong(&throttle, "ada", 1, second);
    }
    assert!(throttle.check(&keys("ada", 1), at(3_999)).is_err());
    assert!(throttle.check(&keys("ada", 2), at(3_999)).is_ok());
    assert!(throttle.check(&Keys::of_browser("hash"), at(3_999)).is_ok());
    assert_eq!(throttle.delay("bob"), None);
}

#[test]
fn a_network_that_tries_many_names_waits_and_a_right_password_does_not_clear_it() {
    let throttle = Arc::new(Throttle::default());
    for number in 0..NETWORK_FREE {
        assert!(!wrong(&throttle, &format!("user{number}"), 1, 0));
    }
    assert!(wrong(&throttle, "new", 1, 0));
    assert!(!wrong(&throttle, "new", 2, 0));
    throttle.begin(keys("mine", 1), at(1)).unwrap().was_right();
    assert!(!wrong(&throttle, "new", 1, 1), "a right password is not counted");
    assert!(wrong(&throttle, "new", 1, 2), "and does not reset the others");
}

#[test]
fn a_name_under_attack_from_many_networks_is_only_delayed() {
    let throttle = Arc::new(Throttle::default());
    for number in 0..NAME_FREE {
        assert_eq!(throttle.delay("ada"), None);
        let last = u8::try_from(number).unwrap();
        assert!(!wrong(&throttle, "ada", last, 0));
    }
    assert_eq!(throttle.delay("ada"), Some(NAME_DELAY));
    assert!(throttle.check(&keys("ada", 200), at(0)).is_ok());
}

#[test]
fn an_unchecked_guess_changes_nothing() {
    let throttle = Arc::new(Throttle::default());
    for _ in 0..4 {
        wrong(&throttle, "ada", 1, 0);
    }
    let keys = keys("ada", 1);
    throttle.begin(keys.clone(), at(10)).unwrap().was_not_checked();
    assert_eq!(throttle.lock()[&keys.0[0]].last, at(0));
    assert!(!wrong(&throttle, "ada", 1, 10));
    assert!(wrong(&throttle, "ada", 1, 10));
}

#[test]
fn counts_expire_and_are_bounded() {
    let throttle = Arc::new(Throttle::default());
    for number in 0..(COUNTS_MAX / 2 + 50) {
        // Each is counted by its name, and by its name and network.
        drop(throttle.begin(Keys::of_name(&format!("user{number}"), None), at(0)));
    }
    assert!(throttle.lock().len() <= COUNTS_MAX);
    drop(throttle.begin(Keys::of_name("late", None), at(4_000)));
    assert_eq!(throttle.lock().len(), 2);
}

#[test]
fn the_addresses_of_one_customer_are_one_network() {
    let of = |text: &str| network(text.parse().unwrap()).to_string();
    assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    assert_eq!(of("::ffff:10.0.0.1"), "10.0.0.1");
}
