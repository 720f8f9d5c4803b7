//! Order: messages arrive in the declared order.

use std::collections::BTreeMap;

use punctual::backend::transport::Ordering;
use punctual::model::{Key, Message};

use super::Fixture;
use super::fixture::{ack, text_of};

behaviours! {
    messages_come_in_the_order_that_is_declared,
    the_order_holds_across_batches,
}

pub async fn messages_come_in_the_order_that_is_declared(f: Fixture) {
    let mut office = f.subscribe("office").await;
    f.publish(keyed(&f, 0..60)).await;
    check(&f, &mut office, 60).await;
}

pub async fn the_order_holds_across_batches(f: Fixture) {
    let mut office = f.subscribe("office").await;
    for batch in 0..10 {
        f.publish(keyed(&f, batch * 6..batch * 6 + 6)).await;
    }
    check(&f, &mut office, 60).await;
}

/// Returns numbered messages with three alternating keys.
fn keyed(f: &Fixture, numbers: std::ops::Range<u32>) -> Vec<Message> {
    let messages = numbers.map(|number| Message {
        key: Some(Key::new(format!("key-{}", number % 3)).unwrap()),
        ..f.message(&number.to_string())
    });
    messages.collect()
}

async fn check(f: &Fixture, office: &mut super::TestConsumer, count: usize) {
    let mut order: Vec<u32> = Vec::new();
    for _ in 0..count {
        let delivery = office.next().await;
        order.push(text_of(&delivery).parse().unwrap());
        ack(delivery).await;
    }
    office.expect_nothing().await;
    let mut per_key: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for number in &order {
        per_key.entry(number % 3).or_default().push(*number);
    }
    match f.capabilities.ordering {
        Ordering::Total => assert!(order.is_sorted(), "{order:?}"),
        Ordering::PerKey => {
            assert!(per_key.values().all(|numbers| numbers.is_sorted()), "{per_key:?}");
        }
        Ordering::None => f.refused("it declares no order; all messages arrived"),
    }
    order.sort_unstable();
    assert!(order.into_iter().eq(0..60));
}
