//! The simulated world: nodes, a bad network, traffic, operators and accidents, all drawn from one seed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;

use holdline_core::failure::Scope;
use holdline_core::holds::ledger::RouteKey;
use holdline_core::holds::view::Standing;
use holdline_core::holds::{
    Answer, CheckGuard, Incoming, Record, Selector, Subject, SubjectScope, Token,
};
use holdline_core::ids::{Fingerprint, KeyId, ModelId, ProviderId};
use holdline_core::time::WallMs;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::chronicle::{Chronicle, Id, Known, Made};
use crate::laws::{self, Broken, Checks};
use crate::node::{Node, Shown, Store};
use crate::provider::Provider;
use crate::rules::Rules;

mod network;
mod traffic;

pub(crate) const KEYS: usize = 2;
pub(crate) const MODELS: usize = 2;
pub(crate) const SCOPES: [Scope; 2] = [Scope::Key, Scope::Model];

pub(crate) fn provider() -> ProviderId {
    ProviderId::from("p")
}

pub(crate) fn key(number: usize) -> KeyId {
    KeyId::from(["k0", "k1"][number])
}

pub(crate) fn model(number: usize) -> ModelId {
    ModelId::from(["m0", "m1"][number])
}

pub(crate) fn pick<T: Copy>(rng: &mut StdRng, from: &[T]) -> T {
    from[rng.random_range(0..from.len())]
}

/// Why a request went to the key it went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Free,
    Check,
    Pinned,
    EveryKeyHeld,
}

/// A request on its way.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) node: usize,
    pub(crate) life: u64,
    pub(crate) why: Why,
    pub(crate) key: usize,
    pub(crate) model: usize,
    /// The key as the node has it configured, whatever the rules make of it.
    pub(crate) configured: Fingerprint,
    pub(crate) route: RouteKey,
    pub(crate) token: Token,
    pub(crate) sent: u64,
    /// What the node showed at launch, and whether its wait was over, per scope.
    pub(crate) launch: [Option<Id>; 2],
    pub(crate) due: [bool; 2],
    /// What the node knew at launch, per scope.
    pub(crate) known: [Known; 2],
    check: Option<CheckGuard>,
    answer: Answer,
}

impl Call {
    pub(crate) fn subject(&self, scope: Scope) -> Subject {
        Subject {
            provider: self.route.provider.clone(),
            key: self.route.key.clone(),
            fingerprint: self.route.fingerprint,
            scope: match scope {
                Scope::Key => SubjectScope::Key,
                Scope::Model => SubjectScope::Model(self.route.model.clone()),
            },
        }
    }
}

#[derive(Clone, Debug)]
enum Event {
    Traffic(usize),
    Arrive(usize),
    Answer(usize),
    Deliver {
        to: usize,
        incoming: Box<Incoming>,
        is_gossip: bool,
    },
    Gossip(usize),
    Save(usize, u64),
    ChangeMind,
    Release,
    Edit,
    Configure(usize, usize, Fingerprint),
    Crash,
    Restart(usize),
    CrashAll,
    Partition,
    Heal,
}

/// Everything there is.
pub(crate) struct World<'a> {
    pub(crate) rules: &'a dyn Rules,
    pub(crate) time: u64,
    pub(crate) nodes: Vec<Node>,
    pub(crate) chronicle: Chronicle,
    pub(crate) provider: Provider,
    pub(crate) checks: Checks,
    /// Releases that an operator was told are done.
    pub(crate) acknowledged: Vec<Id>,
    pub(crate) seen: BTreeMap<&'static str, u64>,
    rng: StdRng,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event>,
    calls: BTreeMap<usize, Call>,
    serial: u64,
    /// Nodes of different sides do not hear each other.
    side: Vec<u8>,
    /// Copies of stores that were replaced since: snapshots that turn up late.
    archive: Vec<Store>,
    edits: u64,
    quiet_from: u64,
    trace: Option<Vec<String>>,
}

/// How a run ended.
pub(crate) struct Run {
    pub(crate) broken: Option<Broken>,
    pub(crate) trace: Vec<String>,
    pub(crate) seen: BTreeMap<&'static str, u64>,
}

/// Runs one seed to its end, or to the first law it breaks.
pub(crate) fn run(seed: u64, rules: &dyn Rules, is_traced: bool) -> Run {
    let mut world = World::new(seed, rules, is_traced);
    let broken = world.live().err();
    if let Some(broken) = &broken {
        let line = broken.to_string();
        world.note(format_args!("{line}"));
    }
    Run {
        broken,
        trace: world.trace.unwrap_or_default(),
        seen: world.seen,
    }
}

impl<'a> World<'a> {
    fn new(seed: u64, rules: &'a dyn Rules, is_traced: bool) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let config = [Fingerprint(10), Fingerprint(11)];
        let count = rng.random_range(2..=5);
        let nodes = (0..count)
            .map(|number| {
                let skew_ms = if rng.random_bool(0.5) {
                    rng.random_range(0..600_000)
                } else {
                    0
                };
                Node::new(number, skew_ms, config)
            })
            .collect();
        let quiet_from = rng.random_range(10..40) * 60_000;
        let mut world = World {
            rules,
            time: 0,
            nodes,
            chronicle: Chronicle::default(),
            provider: Provider::default(),
            checks: Checks::default(),
            acknowledged: Vec::new(),
            seen: BTreeMap::new(),
            rng,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            calls: BTreeMap::new(),
            serial: 0,
            side: vec![0; count],
            archive: Vec::new(),
            edits: 0,
            quiet_from,
            trace: is_traced.then(Vec::new),
        };
        world.plan();
        world
    }

    fn plan(&mut self) {
        for node in 0..self.nodes.len() {
            self.after(1, 20_000, Event::Traffic(node));
            self.after(1, 8_000, Event::Gossip(node));
        }
        let accidents = [
            (Event::ChangeMind, 6..24),
            (Event::Release, 0..5),
            (Event::Edit, 0..3),
            (Event::Crash, 0..4),
            (Event::CrashAll, 0..2),
            (Event::Partition, 0..3),
        ];
        for (event, times) in accidents {
            for _ in 0..self.rng.random_range(times) {
                self.after(0, self.quiet_from, event.clone());
            }
        }
    }

    fn live(&mut self) -> Result<(), Broken> {
        while let Some(Reverse((time, serial))) = self.queue.pop() {
            let Some(event) = self.events.remove(&serial) else {
                continue;
            };
            if time >= self.quiet_from {
                break;
            }
            self.time = time;
            let actor = self.happen(event)?;
            if let Some(node) = actor {
                laws::after_step(self, node)?;
            }
        }
        self.fall_quiet()
    }

    /// One event. Returns the node it happened to.
    fn happen(&mut self, event: Event) -> Result<Option<usize>, Broken> {
        match event {
            Event::Traffic(node) => self.traffic(node)?,
            Event::Arrive(call) => return Ok(self.arrive(call)),
            Event::Answer(call) => return self.answered(call),
            Event::Deliver {
                to,
                incoming,
                is_gossip,
            } => return self.deliver(to, *incoming, is_gossip).map(|()| Some(to)),
            Event::Gossip(node) => self.gossip(node),
            Event::Save(node, life) => self.save(node, life),
            Event::ChangeMind => self.change_mind(),
            Event::Release => return self.release(),
            Event::Edit => self.edit(),
            Event::Configure(node, key, fingerprint) => {
                self.nodes[node].config[key] = fingerprint;
                return Ok(Some(node));
            }
            Event::Crash => {
                let node = self.any_node();
                self.crash(node);
            }
            Event::CrashAll => {
                self.count("whole fleet crashed");
                for node in 0..self.nodes.len() {
                    self.crash(node);
                }
            }
            Event::Restart(node) => return self.restart(node).map(|()| Some(node)),
            Event::Partition => {
                self.count("partition");
                for node in 0..self.side.len() {
                    self.side[node] = u8::from(self.rng.random_bool(0.5));
                }
                self.after(1_000, 300_000, Event::Heal);
            }
            Event::Heal => self.side.fill(0),
        }
        Ok(None)
    }

    fn change_mind(&mut self) {
        let (node, key) = (self.any_node(), self.rng.random_range(0..KEYS));
        let key = self.nodes[node].config[key];
        if self.rng.random_bool(0.3) {
            self.provider.forgive(key);
        } else {
            self.provider.change_mind(key, &mut self.rng);
        }
        self.note(format_args!("the provider changes its mind about {key:?}"));
    }

    fn release(&mut self) -> Result<Option<usize>, Broken> {
        let (node, number) = (self.any_node(), self.rng.random_range(0..KEYS));
        if !self.nodes[node].is_up {
            return Ok(None);
        }
        let what = match self.rng.random_range(0..3) {
            0 => Selector::All,
            1 => Selector::Key(provider(), key(number)),
            _ => Selector::Model(provider(), key(number), model(number)),
        };
        let clocks = self.nodes[node].clocks(self.time);
        let ledger = &mut self.nodes[node].ledger;
        let freed = self.rules.release(ledger, &what, clocks);
        self.note(format_args!("an operator at n{node} releases {what:?}"));
        for record in &freed {
            self.count("released by an operator");
            let known = self.nodes[node].knows(&record.subject);
            let id = self.made(node, record, known)?;
            if self.rules.stores_releases_first() {
                let incoming = Incoming {
                    record: record.clone(),
                    age_ms: 0,
                };
                self.nodes[node].save(vec![incoming], self.time);
            }
            self.acknowledged.push(id);
            self.push(node, record);
        }
        if !freed.is_empty() && self.rng.random_bool(0.15) {
            self.after(0, 3, Event::CrashAll);
        }
        Ok(Some(node))
    }

    fn edit(&mut self) {
        self.edits += 1;
        let key = self.rng.random_range(0..KEYS);
        let fingerprint = Fingerprint(100 * self.edits + key as u64);
        self.count("key edited");
        for node in 0..self.nodes.len() {
            self.after(0, 30_000, Event::Configure(node, key, fingerprint));
        }
    }

    fn crash(&mut self, node: usize) {
        if self.nodes[node].is_up {
            self.count("crashed");
            self.note(format_args!("n{node} crashes"));
            self.nodes[node].crash();
            self.after(1_000, 120_000, Event::Restart(node));
        }
    }

    fn restart(&mut self, node: usize) -> Result<(), Broken> {
        if self.nodes[node].is_up {
            return Ok(());
        }
        self.nodes[node].start(self.time);
        self.note(format_args!("n{node} starts"));
        let mut stores = vec![self.nodes[node].store.clone()];
        if self.rng.random_bool(0.3) && !self.archive.is_empty() {
            self.count("stale snapshot");
            let stale = self.rng.random_range(0..self.archive.len());
            stores.insert(0, self.archive[stale].clone());
        }
        for store in stores {
            self.restore(node, store)?;
        }
        let giver = self.any_node();
        if giver != node && self.nodes[giver].is_up && self.side[giver] == self.side[node] {
            self.hand_over(giver, node)?;
        }
        Ok(())
    }

    /// Everything heals, everyone is back, every table is exchanged with every other.
    fn fall_quiet(&mut self) -> Result<(), Broken> {
        self.time = self.quiet_from;
        self.side.fill(0);
        self.calls.clear();
        for node in 0..self.nodes.len() {
            self.restart(node)?;
        }
        let last = self.nodes.len() - 1;
        for node in (0..last).chain((0..last).rev()) {
            self.hand_over(node, node + 1)?;
        }
        for node in 0..self.nodes.len() {
            laws::after_step(self, node)?;
        }
        laws::at_the_end(self)
    }

    fn any_node(&mut self) -> usize {
        self.rng.random_range(0..self.nodes.len())
    }

    fn after(&mut self, soonest_ms: u64, latest_ms: u64, event: Event) {
        let time = self.time + self.rng.random_range(soonest_ms..=latest_ms);
        self.queue.push(Reverse((time, self.serial)));
        self.events.insert(self.serial, event);
        self.serial += 1;
    }

    /// Counts something worth having been seen.
    pub(crate) fn count(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn note(&mut self, what: fmt::Arguments<'_>) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>9} {what}", self.time));
        }
    }
}
