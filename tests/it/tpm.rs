//! Token limits: a key that runs dry gets little until it is refilled or released.

use holdline_core::holds::Selector;
use serde_json::{Value, json};

use crate::support::mock::{Call, completion};
use crate::support::{Mock, Play, TestNode, chat, provider};

const DRY: [(&str, &str); 4] = [
    ("content-type", "application/json"),
    ("x-ratelimit-limit-tokens", "30000"),
    ("x-ratelimit-remaining-tokens", "12"),
    ("x-ratelimit-reset-tokens", "4m30.5s"),
];

const AMPLE: [(&str, &str); 3] = [
    ("content-type", "application/json"),
    ("x-ratelimit-limit-tokens", "30000"),
    ("x-ratelimit-remaining-tokens", "29000"),
];

const TO_A: [(&str, &str); 1] = [("x-bf-api-key-id", "k-a")];

fn served(headers: &[(&str, &str)]) -> Play {
    Play::whole(200, headers, completion("hello").to_string().as_bytes())
}

/// k-a answers like this, any other key serves and says nothing of limits.
fn of_a(play: Play) -> impl FnMut(&Call) -> Play {
    move |call| {
        if call.key == "sk-k-a" {
            play.clone()
        } else {
            Play::served("hello")
        }
    }
}

fn token_limit(retry_after: &str) -> Play {
    let error = json!({"error": {"message": "Rate limit reached on tokens per min (TPM)", "type": "tokens", "code": "rate_limit_exceeded"}});
    let headers = [
        ("content-type", "application/json"),
        ("retry-after", retry_after),
    ];
    Play::whole(429, &headers, error.to_string().as_bytes())
}

async fn node_with(mock: &Mock, client: Value) -> TestNode {
    let one = provider(&mock.url(), &["k-a", "k-b"], &json!({}));
    TestNode::start(&json!({"client": client, "providers": {"one": one}})).await
}

/// Until when requests see k-a as dry, in milliseconds from now.
fn dry_ms(node: &TestNode) -> Option<u64> {
    let now = node.node.clock.now();
    let live = node.node.live();
    let key = live.view.provider(&"one".into())?.key(&"k-a".into())?;
    let until = key.dry_until(&"m".into(), now)?;
    Some(until.since_ms(now))
}

async fn ask(node: &TestNode, count: usize) {
    for number in 0..count {
        let answer = node
            .client
            .chat(&format!("r-{number}"), chat("one/m"))
            .await;
        assert_eq!(answer.status, 200);
    }
}

#[tokio::test]
async fn a_key_that_runs_dry_gets_little_until_it_is_refilled() {
    let mock = Mock::start(of_a(served(&DRY))).await;
    let node = node_with(&mock, json!({})).await;
    assert_eq!(dry_ms(&node), None);
    let answer = node.client.chat_with("p-1", &TO_A, chat("one/m")).await;
    assert_eq!(answer.status, 200);
    let left_ms = dry_ms(&node).unwrap();
    assert!((200_000..=270_500).contains(&left_ms), "{left_ms}");
    assert!(node.held().is_empty(), "a dry key is no held one");
    ask(&node, 200).await;
    let used = mock.keys()[1..]
        .iter()
        .filter(|key| *key == "sk-k-a")
        .count();
    assert!(
        (1..=60).contains(&used),
        "{used} of 200; a tenth of the other's is 18"
    );

    mock.play(of_a(served(&AMPLE)));
    node.client.chat_with("p-2", &TO_A, chat("one/m")).await;
    assert_eq!(dry_ms(&node), None, "refilled");
}

#[tokio::test]
async fn a_token_rate_limit_also_backs_off_and_a_release_ends_both() {
    let mock = Mock::start(of_a(token_limit("40"))).await;
    let node = node_with(&mock, json!({})).await;
    node.client.chat_with("p-1", &TO_A, chat("one/m")).await;
    assert_eq!(node.held(), ["k-a"]);
    let left_ms = dry_ms(&node).unwrap();
    assert!((10_000..=40_000).contains(&left_ms), "{left_ms}");
    node.node
        .release(&Selector::Model("one".into(), "k-a".into(), "m".into()))
        .unwrap();
    assert_eq!((node.held().len(), dry_ms(&node)), (0, None));

    // A backoff alone is released too, though no hold is named.
    mock.play(of_a(served(&DRY)));
    node.client.chat_with("p-2", &TO_A, chat("one/m")).await;
    assert!(dry_ms(&node).is_some());
    let released = node.node.release(&Selector::All).unwrap();
    assert_eq!((released.len(), dry_ms(&node)), (0, None));
}

#[tokio::test]
async fn a_check_that_serves_ends_the_backoff() {
    let mock = Mock::start(of_a(token_limit("300"))).await;
    let node = node_with(&mock, json!({})).await;
    node.client.chat_with("p-1", &TO_A, chat("one/m")).await;
    assert!(dry_ms(&node).is_some());
    mock.play(|_| Play::served("hello"));
    node.client.chat_with("p-2", &TO_A, chat("one/m")).await;
    assert_eq!((node.held().len(), dry_ms(&node)), (0, None));
}

#[tokio::test]
async fn other_limits_and_callers_own_keys_back_nothing_off() {
    let mock = Mock::start(of_a(Play::rate_limited("40"))).await;
    let node = node_with(&mock, json!({"allow_direct_keys": true})).await;
    node.client.chat_with("p-1", &TO_A, chat("one/m")).await;
    assert_eq!((node.held(), dry_ms(&node)), (vec!["k-a".to_owned()], None));
    let own = [
        ("x-bf-direct-key", "true"),
        ("authorization", "Bearer sk-callers-own"),
    ];
    mock.play(|_| served(&DRY));
    let answer = node.client.chat_with("p-2", &own, chat("one/m")).await;
    assert_eq!((answer.status, dry_ms(&node)), (200, None));
}

#[tokio::test]
async fn where_adaptive_routing_is_off_nothing_is_remembered() {
    let mock = Mock::start(|_| served(&DRY)).await;
    let one = provider(&mock.url(), &["k-a", "k-b"], &json!({}));
    let off = json!({"load_balancer_config": {"enabled": false}, "providers": {"one": one}});
    let node = TestNode::start(&off).await;
    node.client.chat_with("p-1", &TO_A, chat("one/m")).await;
    assert_eq!(dry_ms(&node), None);
}
