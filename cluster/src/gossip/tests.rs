//! Chitchat's death, and what is read from keyspaces.

use std::net::Ipv4Addr;
use std::time::Duration;

use chitchat::{DeletionStatus, VersionedValue};
use holdline_core::holds::{
    Body, Details, Incoming, Record, Register, RouteKey, Selector, Subject, SubjectScope,
};
use holdline_core::ids::Fingerprint;
use holdline_core::replica::Document;
use holdline_core::time::{Hlc, WallMs};
use holdline_core::tpm::{Backoff, IncomingSignal, LONGEST_MS, Signal};
use tokio::sync::watch;

use super::*;
use crate::adoption;
use crate::gossip::socket::Wire;
use crate::node::Parts;
use crate::options::{Options, Spread};
use crate::seal::Keyring;
use crate::status::MemberState;
use crate::store::{Snapshot, State, Store, StoreError};

/// A node without table or disk: every record is news to it.
struct Nothing;

impl State for Nothing {
    fn merge_records(&self, incoming: Vec<Incoming>) -> usize {
        incoming.len()
    }
    fn export_records(&self) -> Vec<Incoming> {
        Vec::new()
    }
    fn export_some(&self, _: &[Record]) -> Vec<Incoming> {
        Vec::new()
    }
    fn record_digest(&self) -> u128 {
        0
    }
    fn held_count(&self) -> usize {
        0
    }
    fn merge_documents(&self, _: Vec<Document>) -> usize {
        0
    }
    fn export_documents(&self) -> Vec<Document> {
        Vec::new()
    }
    fn document_digest(&self) -> u64 {
        0
    }
    fn merge_signals(&self, signals: Vec<IncomingSignal>) -> usize {
        signals.len()
    }
    fn wall(&self) -> WallMs {
        WallMs(1_000_000)
    }
}

impl Store for Nothing {
    fn raft_value(&self, _: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(None)
    }
    fn put_raft_value(&self, _: &str, _: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }
    fn append_log(&self, _: &[(u64, Vec<u8>)]) -> Result<(), StoreError> {
        Ok(())
    }
    fn log_range(&self, _: u64, _: u64) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        Ok(Vec::new())
    }
    fn last_log(&self) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        Ok(None)
    }
    fn truncate_log(&self, _: u64) -> Result<(), StoreError> {
        Ok(())
    }
    fn purge_log(&self, _: u64) -> Result<(), StoreError> {
        Ok(())
    }
    fn wipe_raft(&self) -> Result<(), StoreError> {
        Ok(())
    }
    fn save_snapshot(&self, _: &Snapshot, _: &[(&str, Vec<u8>)]) -> Result<(), StoreError> {
        Ok(())
    }
    fn load_snapshot(&self) -> Result<Option<Snapshot>, StoreError> {
        Ok(None)
    }
}

fn node(node_id: &str, seeds: Vec<String>) -> (Arc<Node>, SocketAddr) {
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let options = Options {
        node_id: node_id.into(),
        region: "east".into(),
        cluster_id: "tests".to_owned(),
        generation: 1,
        raft_id: 1,
        gossip_bind: any_port,
        rpc_bind: any_port,
        advertise_host: "127.0.0.1".to_owned(),
        http_address: String::new(),
        seeds,
        secret: None,
        previous_secrets: Vec::new(),
        version: String::new(),
        snapshot_interval: watch::channel(Duration::from_secs(300)).1,
        time_scale: 1.0,
        spread: Spread::default(),
    };
    let keys = Arc::new(Keyring::new(None, &[], "tests"));
    let wire = Wire::bind(any_port, Arc::clone(&keys), Arc::default()).unwrap();
    let address = wire.local_addr().unwrap();
    let node = Node::new(Parts {
        options,
        state: Arc::new(Nothing),
        store: Arc::new(Nothing),
        keys,
        tally: Arc::default(),
        wire: Arc::new(wire),
        gossip_address: address.to_string(),
        rpc_address: "127.0.0.1:1".to_owned(),
    });
    (Arc::new(node), address)
}

fn record(key: &str, seq: u32) -> Record {
    Record {
        subject: Subject {
            provider: "openai".into(),
            key: key.into(),
            fingerprint: Fingerprint(7),
            scope: SubjectScope::Key,
        },
        register: Register {
            release: Hlc::default(),
            seq,
            body: Body::Free { memory: None },
            stamp: Hlc::default(),
        },
        details: Details::default(),
    }
}

fn posted(record: Record) -> Posted {
    Posted {
        settled_at: WallMs(1),
        record,
    }
}

#[tokio::test]
async fn a_dead_chitchat_is_started_again_with_its_keyspace() {
    let (watcher, address) = node("watcher", Vec::new());
    let (mortal, other_address) = node("mortal", vec![address.to_string()]);
    let mut tasks = tokio::task::JoinSet::new();
    for (node, address, dies) in [(&watcher, address, false), (&mortal, other_address, true)] {
        let (intake, heard) = Intake::new();
        let gossip = Gossip::start(node, address, &intake).await.unwrap();
        if dies {
            let mut chitchat = gossip.chitchat.lock().await;
            let (key, value) = entry(&posted(record("k-a", 1))).unwrap();
            chitchat.self_node_state().set(key, value);
            drop(chitchat);
            gossip.handle.abort();
        }
        let (_, sought) = mpsc::channel(1);
        tasks.spawn(run(Arc::clone(node), gossip, Arc::new(intake), sought));
        tasks.spawn(intake::run(Arc::clone(node), heard));
    }
    let mut roster = watcher.roster.subscribe();
    let reborn = roster.wait_for(|roster| {
        let peer = roster.peers.get("mortal");
        peer.is_some_and(|peer| peer.generation == 2 && peer.state == MemberState::Alive)
    });
    let reborn = tokio::time::timeout(Duration::from_secs(20), reborn).await;
    drop(reborn.unwrap().unwrap());
    let arrived = async {
        while watcher.tally.read().records_received_by_gossip == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let arrived = tokio::time::timeout(Duration::from_secs(20), arrived).await;
    arrived.unwrap();
}

/// Another node's keyspace, as it would have arrived.
fn hear(chitchat: &mut Chitchat, node_id: &str, texts: Vec<(String, String)>) {
    let id = ChitchatId::new(node_id, 1, SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
    let values = (1..).zip(texts).map(|(version, (key, value))| {
        let status = DeletionStatus::Set;
        (
            key,
            VersionedValue {
                value,
                version,
                status,
            },
        )
    });
    let values: Vec<_> = values.collect();
    let newest = values.len() as u64;
    chitchat.reset_node_state_if_update(&id, values.into_iter(), newest, 0);
}

#[tokio::test]
async fn only_what_nobody_publishes_is_adopted() {
    let (node, address) = node("leader", Vec::new());
    let (intake, _heard) = Intake::new();
    let gossip = Gossip::start(&node, address, &intake).await.unwrap();
    let mut chitchat = gossip.chitchat.lock().await;
    for (key, value) in [posted(record("k-own", 1)), posted(record("k-pruned", 1))]
        .iter()
        .map(|posted| entry(posted).unwrap())
    {
        chitchat.self_node_state().set(key, value);
    }
    let theirs = [posted(record("k-same", 3)), posted(record("k-older", 3))];
    let theirs = theirs.iter().map(|posted| entry(posted).unwrap());
    hear(&mut chitchat, "other", theirs.collect());

    let table = [("k-own", 1), ("k-same", 3), ("k-older", 4), ("k-orphan", 1)];
    let table = table.map(|(key, seq)| {
        let record = record(key, seq);
        (record_key(&record.subject), Incoming { record, age_ms: 5 })
    });
    let table = table.into_iter().collect();
    let orphans = adoption::orphans(&chitchat, &table);
    let mut orphans: Vec<_> = orphans
        .iter()
        .map(|one| one.record.subject.key.as_str())
        .collect();
    orphans.sort_unstable();
    assert_eq!(orphans, ["k-older", "k-orphan"]);

    adoption::tidy(&mut chitchat, &table);
    let own: Vec<_> = records(chitchat.self_node_state())
        .map(|(key, _)| key.to_owned())
        .collect();
    assert_eq!(
        own,
        [record_key(&record("k-own", 1).subject)],
        "what was pruned goes"
    );
}

#[tokio::test]
async fn of_two_lives_the_newest_with_facts_counts() {
    let (node, address) = node("own", Vec::new());
    let (intake, _heard) = Intake::new();
    let gossip = Gossip::start(&node, address, &intake).await.unwrap();
    let mut chitchat = gossip.chitchat.lock().await;
    let mut live = |generation, http: &str, with_facts: bool| {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let id = ChitchatId::new("twice", generation, address);
        let mut facts = node.facts();
        facts.http_address = http.to_owned();
        let texts = facts.texts().into_iter().filter(|_| with_facts);
        let values = (1..).zip(texts).map(|(version, (key, value))| {
            let status = DeletionStatus::Set;
            (
                key,
                VersionedValue {
                    value,
                    version,
                    status,
                },
            )
        });
        chitchat.reset_node_state_if_update(&id, values, 100, 0);
    };
    live(5, "old", true);
    live(7, "new", true);
    live(6, "between", true);
    live(8, "silent", false);
    let goodbyes = std::collections::BTreeMap::new();
    let roster = Watch::default().look(&chitchat, &goodbyes, Instant::now());
    let found: Vec<_> = roster
        .peers
        .values()
        .map(|peer| &peer.facts.http_address)
        .collect();
    assert_eq!(found, ["new"]);
    assert_eq!(roster.peers["twice"].facts, {
        let mut facts = node.facts();
        "new".clone_into(&mut facts.http_address);
        facts
    });
}

fn backoff(model: &str) -> Signal {
    Signal::Backoff(Backoff {
        route: RouteKey {
            provider: "openai".into(),
            key: "k-a".into(),
            fingerprint: Fingerprint(7),
            model: model.into(),
        },
        stamp: Hlc::default(),
        wait_ms: 20_000,
    })
}

/// What a node in this region would say, as it stands in its keyspace.
fn notice(signal: Signal, region: &str) -> (String, String) {
    let key = keyspace::signal_key(&signal, &region.into()).unwrap();
    let made_at = WallMs(1_000_000);
    let value = to_value(&keyspace::Notice { made_at, signal }).unwrap();
    (key, value)
}

#[tokio::test]
async fn backoffs_are_heard_in_their_region_and_releases_everywhere() {
    let (node, address) = node("own", Vec::new());
    let (intake, mut heard) = Intake::new();
    let gossip = Gossip::start(&node, address, &intake).await.unwrap();
    let mut chitchat = gossip.chitchat.lock().await;
    let clear = Signal::Clear {
        what: Selector::All,
        stamp: Hlc::default(),
    };
    let texts = vec![
        notice(backoff("here"), "east"),
        notice(backoff("there"), "west"),
        // Regions whose names begin alike.
        notice(backoff("beside"), "east/1"),
        notice(backoff("before"), "eas"),
        notice(clear, "west"),
        (
            "t/east/".to_owned() + &"0".repeat(32),
            "no message".to_owned(),
        ),
    ];
    hear(&mut chitchat, "other", texts);
    while heard.try_recv().is_ok() {} // the callbacks may have brought them
    intake.scan(&chitchat, &node.options.region);
    drop(chitchat);
    let mut values = Vec::new();
    while let Ok(one) = heard.try_recv() {
        values.extend(intake::signal(&node, &one));
    }
    let mut models: Vec<_> = values
        .iter()
        .map(|one| match &one.signal {
            Signal::Backoff(backoff) => backoff.route.model.as_str(),
            Signal::Clear { .. } => "released",
        })
        .collect();
    models.sort_unstable();
    assert_eq!(models, ["here", "released"]);
    assert_eq!(
        node.tally.read().datagrams_refused,
        1,
        "what is no message is refused"
    );
}

#[tokio::test]
async fn a_notice_stands_in_the_keyspace_until_it_says_nothing() {
    let (node, address) = node("own", Vec::new());
    let (intake, _heard) = Intake::new();
    let gossip = Gossip::start(&node, address, &intake).await.unwrap();
    let mut chitchat = gossip.chitchat.lock().await;
    let own = chitchat.self_node_state();
    let standing = |own: &NodeState| own.iter_prefix("t/east/").count();
    let now = Instant::now();
    for number in 0..2_000 {
        let model = format!("m-{number}");
        node.notices.post(backoff(&model), WallMs(1), &node.options);
    }
    node.notices.write(own, now);
    let first = standing(own);
    assert!((1..100).contains(&first), "a few at a time: {first}");
    for _ in 0..100 {
        node.notices.write(own, now);
    }
    assert_eq!(standing(own), 512, "what does not fit is left out");
    node.notices
        .write(own, now + Duration::from_millis(LONGEST_MS + 1_000));
    assert_eq!(standing(own), 0);
}
