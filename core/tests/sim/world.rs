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

    fn traffic(&mut self, node: usize) -> Result<(), Broken> {
        self.after(
            self.quiet_from / 500,
            self.quiet_from / 35,
            Event::Traffic(node),
        );
        if !self.nodes[node].is_up {
            return Ok(());
        }
        for _ in 0..self.rng.random_range(1..4) {
            self.send(node)?;
        }
        Ok(())
    }

    fn send(&mut self, node: usize) -> Result<(), Broken> {
        let model = self.rng.random_range(0..MODELS);
        let first = self.rng.random_range(0..KEYS);
        let (key, why, check) = if self.rng.random_bool(0.15) {
            (first, Why::Pinned, None)
        } else {
            self.choose(node, model, first)
        };
        if let Some(check) = check {
            if self.rng.random_bool(0.05) {
                self.count("failed before it was sent");
                self.rules.fail_unsent(check);
                return laws::after_step(self, node);
            }
            return self.call(node, key, model, why, Some(check));
        }
        self.call(node, key, model, why, None)
    }

    /// A due key first, then one that is free, then the one due soonest.
    fn choose(&self, node: usize, number: usize, first: usize) -> (usize, Why, Option<CheckGuard>) {
        let now = self.nodes[node].clocks(self.time).now;
        let routes: Vec<_> = [first, 1 - first]
            .map(|key| (key, self.nodes[node].holds(self.rules, key)))
            .into();
        let model = model(number);
        for (key, holds) in &routes {
            if let Some(check) = self.rules.try_check(holds, &model, now) {
                return (*key, Why::Check, Some(check));
            }
        }
        let standing = |at: usize| routes[at].1.standing(&model, now);
        if let Some(at) = (0..KEYS).find(|at| standing(*at) == Standing::Free) {
            return (routes[at].0, Why::Free, None);
        }
        let due = |at: usize| match standing(at) {
            Standing::Held { due } => due.0,
            Standing::Free | Standing::Due | Standing::Checking => 0,
        };
        let soonest = if due(0) <= due(1) { 0 } else { 1 };
        (routes[soonest].0, Why::EveryKeyHeld, None)
    }

    fn call(
        &mut self,
        node: usize,
        key: usize,
        number: usize,
        why: Why,
        check: Option<CheckGuard>,
    ) -> Result<(), Broken> {
        let here = &self.nodes[node];
        let now = here.clocks(self.time).now;
        let holds = here.holds(self.rules, key);
        let route = RouteKey {
            provider: provider(),
            key: self::key(key),
            fingerprint: self.rules.fingerprint(here.config[key]),
            model: model(number),
        };
        let due = [holds.key.as_ref(), holds.models.get(&route.model)]
            .map(|hold| hold.is_some_and(|hold| hold.register.is_held() && hold.due <= now));
        let mut call = Call {
            node,
            life: here.life,
            why,
            key,
            model: number,
            configured: here.config[key],
            token: self.rules.token(&holds, &route.model, now),
            route,
            sent: self.time,
            launch: [None; 2],
            due,
            known: [Known::default(), Known::default()],
            check,
            answer: Answer::Cancelled,
        };
        for (at, scope) in SCOPES.into_iter().enumerate() {
            let subject = call.subject(scope);
            call.launch[at] = here.shown_id(&subject);
            call.known[at] = here.knows(&subject);
        }
        let number = usize::try_from(self.serial).expect("few events");
        self.note(format_args!(
            "n{node} sends #{number} to {:?} {} ({why:?})",
            call.route.key, call.route.model
        ));
        laws::at_call(self, number, &call)?;
        self.calls.insert(number, call);
        let delay = if self.rng.random_bool(0.1) {
            500_000
        } else {
            3_000
        };
        self.after(1, delay, Event::Arrive(number));
        Ok(())
    }

    fn arrive(&mut self, number: usize) -> Option<usize> {
        let call = self.calls.get_mut(&number)?;
        call.answer = self
            .provider
            .answer(call.configured, call.model, &mut self.rng);
        if self.rng.random_bool(0.06) {
            call.answer = Answer::Cancelled;
        }
        self.after(1, 3_000, Event::Answer(number));
        None
    }

    fn answered(&mut self, number: usize) -> Result<Option<usize>, Broken> {
        let Some(mut call) = self.calls.remove(&number) else {
            return Ok(None);
        };
        let node = call.node;
        let check = call.check.take();
        if !self.nodes[node].is_up || self.nodes[node].life != call.life {
            return Ok(None);
        }
        let clocks = self.nodes[node].clocks(self.time);
        self.note(format_args!("n{node} hears {:?} to #{number}", call.answer));
        let answer = call.answer.clone();
        let before = laws::Before::of(self, &call);
        let ledger = &mut self.nodes[node].ledger;
        let made = self
            .rules
            .settle(ledger, &call.route, &call.token, &answer, clocks);
        let launch = call.known.clone();
        for record in &made {
            let scope = record.subject.scope.kind();
            let known = launch[usize::from(scope == Scope::Model)].clone();
            self.made(node, record, known)?;
        }
        laws::at_answer(self, &call, &answer, &before, &made)?;
        let now = clocks.now;
        let until = (answer == Answer::Cancelled && check.is_some()).then(|| {
            let holds = self.nodes[node].holds(self.rules, call.key);
            holds.abandon_until(&call.route.model, now)
        });
        match (check, until) {
            (Some(check), Some(until)) => {
                self.count("check cancelled");
                let until_true = self.nodes[node].true_time(until);
                self.checks.end(number, Some(until_true));
                check.abandon(until);
            }
            (check, _) => {
                self.checks.end(number, None);
                drop(check);
            }
        }
        for record in &made {
            self.push(node, record);
        }
        Ok(Some(node))
    }

    /// Writes a new record into the chronicle and tells its maker.
    fn made(&mut self, node: usize, record: &Record, launch: Known) -> Result<Id, Broken> {
        let here = &mut self.nodes[node];
        let known = here.known.entry(record.subject.clone()).or_default();
        let id = self.chronicle.add(Made {
            record: record.clone(),
            past: known.clone(),
            launch,
        });
        known.add(id);
        let shown = Shown {
            id,
            at: self.time,
            age_ms: 0,
        };
        here.shown.insert(record.subject.clone(), shown);
        self.note(format_args!(
            "n{node} makes r{id}: {:?} {:?}",
            record.subject, record.register
        ));
        laws::at_making(self, node, id)?;
        self.save_soon(node);
        Ok(id)
    }

    fn push(&mut self, node: usize, record: &Record) {
        let now = self.nodes[node].clocks(self.time).now;
        let Some(incoming) = self.nodes[node].ledger.export_one(&record.subject, now) else {
            return;
        };
        for to in 0..self.nodes.len() {
            if to != node {
                self.transmit(node, to, incoming.clone(), false);
            }
        }
    }

    fn gossip(&mut self, node: usize) {
        self.after(1_000, 25_000, Event::Gossip(node));
        let to = self.any_node();
        if !self.nodes[node].is_up || to == node {
            return;
        }
        let now = self.nodes[node].clocks(self.time).now;
        for incoming in self.nodes[node].ledger.export(now) {
            self.transmit(node, to, incoming, true);
        }
    }

    fn transmit(&mut self, from: usize, to: usize, incoming: Incoming, is_gossip: bool) {
        let copies = match self.rng.random_range(0..10) {
            0 | 1 => 0,
            2 => 2,
            _ => 1,
        };
        if self.side[from] != self.side[to] || copies == 0 {
            self.count("message lost");
            return;
        }
        for _ in 0..copies {
            let longest = if self.rng.random_bool(0.03) {
                400_000
            } else {
                1_500
            };
            let event = Event::Deliver {
                to,
                incoming: Box::new(incoming.clone()),
                is_gossip,
            };
            self.after(1, longest, event);
        }
    }

    fn deliver(
        &mut self,
        to: usize,
        mut incoming: Incoming,
        is_gossip: bool,
    ) -> Result<(), Broken> {
        if !self.nodes[to].is_up {
            return Ok(());
        }
        if is_gossip {
            let wall = self.nodes[to].wall(self.time);
            incoming.age_ms = wall.0.saturating_sub(incoming.record.details.settled_at.0);
        }
        if self.take(to, incoming)? && is_gossip {
            self.count("repaired by gossip");
        }
        Ok(())
    }

    /// Merges one record into a node and keeps the books.
    fn take(&mut self, to: usize, incoming: Incoming) -> Result<bool, Broken> {
        let Some(id) = self.chronicle.id(&incoming.record) else {
            return Err(Broken::new(
                "H1",
                format!("nobody made {:?}", incoming.record),
            ));
        };
        let subject = incoming.record.subject.clone();
        let age_ms = incoming.age_ms;
        let now = self.nodes[to].clocks(self.time).now;
        let is_changed = self.rules.merge(&mut self.nodes[to].ledger, incoming, now);
        let closure = self.chronicle.closure(id);
        let here = &mut self.nodes[to];
        here.known
            .entry(subject.clone())
            .or_default()
            .add_all(&closure);
        if is_changed {
            let shown = Shown {
                id,
                at: self.time,
                age_ms,
            };
            here.shown.insert(subject, shown);
            self.note(format_args!("n{to} takes in r{id}, {age_ms} ms old"));
            self.save_soon(to);
        }
        Ok(is_changed)
    }

    fn save_soon(&mut self, node: usize) {
        let here = &mut self.nodes[node];
        if !here.save_is_due {
            here.save_is_due = true;
            let event = Event::Save(node, here.life);
            self.after(500, 1_000, event);
        }
    }

    fn save(&mut self, node: usize, life: u64) {
        if self.nodes[node].is_up && self.nodes[node].life == life {
            self.archive.push(self.nodes[node].store.clone());
            self.nodes[node].save_all(self.time);
            self.nodes[node].save_is_due = false;
        }
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

    fn restore(&mut self, node: usize, store: Store) -> Result<(), Broken> {
        let WallMs(wall) = self.nodes[node].wall(self.time);
        for saved in store.into_values() {
            let mut incoming = saved.incoming;
            incoming.age_ms += wall.saturating_sub(saved.wall.0);
            self.take(node, incoming)?;
        }
        Ok(())
    }

    /// Both exchange their whole tables.
    fn hand_over(&mut self, giver: usize, joiner: usize) -> Result<(), Broken> {
        self.count("hand-over");
        for (from, to) in [(giver, joiner), (joiner, giver)] {
            let now = self.nodes[from].clocks(self.time).now;
            for incoming in self.nodes[from].ledger.export(now) {
                self.take(to, incoming)?;
            }
        }
        laws::at_hand_over(self, giver, joiner)
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
