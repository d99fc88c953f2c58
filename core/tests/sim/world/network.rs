//! How records travel and are kept: push, gossip, stores, hand-over; and the books about it.

use super::*;

impl World<'_> {
    /// Writes a new record into the chronicle and tells its maker.
    pub(super) fn made(
        &mut self,
        node: usize,
        record: &Record,
        launch: Known,
    ) -> Result<Id, Broken> {
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

    pub(super) fn push(&mut self, node: usize, record: &Record) {
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

    pub(super) fn gossip(&mut self, node: usize) {
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

    pub(super) fn transmit(&mut self, from: usize, to: usize, incoming: Incoming, is_gossip: bool) {
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

    pub(super) fn deliver(
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
    pub(super) fn take(&mut self, to: usize, incoming: Incoming) -> Result<bool, Broken> {
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

    pub(super) fn save_soon(&mut self, node: usize) {
        let here = &mut self.nodes[node];
        if !here.save_is_due {
            here.save_is_due = true;
            let event = Event::Save(node, here.life);
            self.after(500, 1_000, event);
        }
    }

    pub(super) fn save(&mut self, node: usize, life: u64) {
        if self.nodes[node].is_up && self.nodes[node].life == life {
            self.archive.push(self.nodes[node].store.clone());
            self.nodes[node].save_all(self.time);
            self.nodes[node].save_is_due = false;
        }
    }

    pub(super) fn restore(&mut self, node: usize, store: Store) -> Result<(), Broken> {
        let WallMs(wall) = self.nodes[node].wall(self.time);
        for saved in store.into_values() {
            let mut incoming = saved.incoming;
            incoming.age_ms += wall.saturating_sub(saved.wall.0);
            self.take(node, incoming)?;
        }
        Ok(())
    }

    /// Both exchange their whole tables.
    pub(super) fn hand_over(&mut self, giver: usize, joiner: usize) -> Result<(), Broken> {
        self.count("hand-over");
        for (from, to) in [(giver, joiner), (joiner, giver)] {
            let now = self.nodes[from].clocks(self.time).now;
            for incoming in self.nodes[from].ledger.export(now) {
                self.take(to, incoming)?;
            }
        }
        laws::at_hand_over(self, giver, joiner)
    }
}
