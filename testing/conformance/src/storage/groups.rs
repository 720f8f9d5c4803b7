//! Groups: registered receivers of topics, visible to every node and after a restart.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use punctual::ErrorKind;
use punctual::backend::storage::GROUPS_MAX;
use punctual::model::Topic;

use super::Fixture;
use super::fixture::{at, together};

behaviours! {
    a_registered_group_is_visible_to_every_node,
    registering_again_changes_nothing,
    topics_and_groups_are_distinct_and_in_order,
    of_many_that_register_at_once_none_is_lost,
    groups_survive_a_restart_of_a_durable_storage,
    one_group_too_many_is_refused_and_the_others_stay,
}

fn topic(name: &str) -> Topic {
    Topic::new(name).unwrap()
}

async fn groups(f: &Fixture) -> Vec<(String, String)> {
    let groups = f.storage.groups().await.unwrap();
    groups.into_iter().map(|(topic, group)| (topic.to_string(), group)).collect()
}

fn pair(topic: &str, group: &str) -> (String, String) {
    (topic.to_owned(), group.to_owned())
}

pub async fn a_registered_group_is_visible_to_every_node(f: Fixture) {
    let other = f.another_node().await;
    assert!(groups(&other).await.is_empty());
    f.storage.register_group(&topic("mail"), "office", at(0)).await.unwrap();
    assert_eq!(groups(&other).await, [pair("mail", "office")]);
    other.storage.register_group(&topic("mail"), "archive", at(1)).await.unwrap();
    assert_eq!(groups(&f).await, [pair("mail", "archive"), pair("mail", "office")]);
}

pub async fn registering_again_changes_nothing(f: Fixture) {
    for second in 0..3 {
        f.storage.register_group(&topic("mail"), "office", at(second)).await.unwrap();
    }
    assert_eq!(groups(&f).await, [pair("mail", "office")]);
}

pub async fn topics_and_groups_are_distinct_and_in_order(f: Fixture) {
    let long = "ż".repeat(200);
    let mut expected = Vec::new();
    for name in ["mail", "Mail", "mail.sent"] {
        for group in ["office", "Office", "office ", "a'b\"c", &long] {
            f.storage.register_group(&topic(name), group, at(0)).await.unwrap();
            expected.push(pair(name, group));
        }
    }
    expected.sort();
    assert_eq!(groups(&f).await, expected);
}

pub async fn of_many_that_register_at_once_none_is_lost(f: Fixture) {
    let nodes = f.nodes(4).await.into_iter().cycle().take(12).collect();
    let next = AtomicUsize::new(0);
    together(nodes, |node| {
        let number = next.fetch_add(1, Ordering::Relaxed);
        async move {
            for group in ["shared".to_owned(), format!("own-{number:02}")] {
                node.storage.register_group(&topic("mail"), &group, at(0)).await.unwrap();
            }
        }
    })
    .await;
    let known = groups(&f).await;
    assert_eq!(known.len(), 13, "{known:?}");
    assert!(known.contains(&pair("mail", "shared")) && known.contains(&pair("mail", "own-11")));
}

pub async fn groups_survive_a_restart_of_a_durable_storage(f: Fixture) {
    f.storage.register_group(&topic("mail"), "office", at(0)).await.unwrap();
    let f = if f.storage.is_durable() { f.reopen().await } else { f };
    assert_eq!(groups(&f).await, [pair("mail", "office")]);
}

pub async fn one_group_too_many_is_refused_and_the_others_stay(f: Fixture) {
    let next = Arc::new(AtomicUsize::new(0));
    together(vec![f.clone(); 50], |node| {
        let next = Arc::clone(&next);
        async move {
            for _ in 0..GROUPS_MAX / 50 {
                let group = next.fetch_add(1, Ordering::Relaxed).to_string();
                node.storage.register_group(&topic("mail"), &group, at(0)).await.unwrap();
            }
        }
    })
    .await;
    let error = f.storage.register_group(&topic("mail"), "one more", at(0)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("one more"), "{error}");
    f.storage.register_group(&topic("mail"), "7", at(1)).await.unwrap();
    assert_eq!(groups(&f).await.len(), GROUPS_MAX);
}
