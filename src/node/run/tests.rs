//! What requests see must be what the ledger knows, whoever changed it.

use holdline_core::failure::Reason;
use holdline_core::holds::ledger::KEEP_MS;
use holdline_core::holds::{Answer, Incoming, Refusal, RouteKey, Selector};
use holdline_core::ids::{KeyId, ModelId, ProviderId};

use super::super::Overrides;
use super::*;

const CONFIG: &str = r#"{"providers": {"openai": {"keys": [
    {"id": "k-a", "name": "k-a", "value": "sk-a", "models": ["*"]},
    {"id": "k-b", "name": "k-b", "value": "sk-b", "models": ["*"]}
]}}}"#;

fn node(folder: &Path) -> Node {
    let config = Config::parse(CONFIG, &|_| None).unwrap().config;
    let place = Place::resolve(&config.cluster, Overrides::default()).unwrap();
    let store = Arc::new(Store::open(folder, &StoreOptions::of(&config, 1.0)).unwrap());
    Node::restore(config, place, Clock::start(1.0), store).unwrap()
}

fn route(node: &Node, key: &str) -> RouteKey {
    let (provider, key) = (ProviderId::from("openai"), KeyId::from(key));
    let fingerprint = node.live().key(&provider, &key).unwrap().spec.fingerprint;
    RouteKey {
        provider,
        key,
        fingerprint,
        model: ModelId::from("gpt-4o"),
    }
}

fn refuse(node: &Node, key: &str, reason: Reason) {
    let route = route(node, key);
    let live = Arc::clone(&node.live());
    let view = live.view.providers[&route.provider].keys.iter();
    let holds = &view.clone().find(|k| k.spec.id == route.key).unwrap().holds;
    let token = holds.token(&route.model, node.clock.now());
    let refusal = Answer::Refused(Refusal {
        reason,
        stated_ms: None,
        words: "no".to_owned(),
        status: 401,
    });
    assert_eq!(node.settle(&route, &token, &refusal).len(), 1);
}

/// The registers that requests read are those of the ledger.
fn assert_in_step(node: &Node) {
    let live = Arc::clone(&node.live());
    let state = node.lock();
    for provider in live.view.providers.values() {
        for key in &provider.keys {
            let known = state
                .ledger
                .key_holds(&provider.id, &key.spec.id, key.spec.fingerprint);
            assert_eq!(
                format!("{:?}", key.holds),
                format!("{known:?}"),
                "requests see something else of {}",
                key.spec.id
            );
        }
    }
}

#[test]
fn requests_see_every_change_of_the_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let node = node(folder.path());
    assert_in_step(&node);

    refuse(&node, "k-a", Reason::Credential);
    refuse(&node, "k-b", Reason::RateLimit);
    assert_in_step(&node);
    assert_eq!((node.held().len(), node.held_count()), (2, 2));

    node.release(&Selector::Key("openai".into(), "k-a".into()))
        .unwrap();
    assert_in_step(&node);
    assert_eq!((node.held().len(), node.held_count()), (1, 1));

    let mut elsewhere = node.lock().ledger.export(node.clock.now());
    elsewhere.retain(|one| one.record.register.is_held());
    let mut told: Incoming = elsewhere.remove(0);
    told.record.register.seq += 1;
    assert_eq!(node.take_in(vec![told]), 1);
    assert_in_step(&node);

    let dropped = node.prune(node.clock.now().plus_ms(2 * KEEP_MS));
    assert_eq!(dropped.len(), 2);
    assert_in_step(&node);
    assert_eq!(node.held_count(), 0);
}

#[test]
fn a_release_that_cannot_be_kept_is_no_release() {
    let folder = tempfile::tempdir().unwrap();
    let node = node(folder.path());
    refuse(&node, "k-a", Reason::Credential);
    node.store.close();
    assert!(node.release(&Selector::All).is_err());
    assert_eq!(node.held_count(), 1);
    assert_in_step(&node);
}

#[test]
fn a_hold_of_a_key_that_is_edited_is_shown_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let node = node(folder.path());
    refuse(&node, "k-a", Reason::Credential);
    let edited = r#"{"id": "k-a", "name": "k-a", "value": "sk-new", "models": ["*"]}"#;
    let name = crate::config::catalog::key_document(&"openai".into(), &"k-a".into());
    node.write_documents(vec![(name, Some(edited.to_owned()))])
        .unwrap();
    assert_in_step(&node);
    assert_eq!((node.held().len(), node.held_count()), (0, 0));
}
