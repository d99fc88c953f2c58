//! One key for one model: what its requests did, and how it stands.

use super::score;
use super::state::{Phase, Signs};
use super::tuning::{
    ERROR_HALF_LIFE_MS, LATENCY_HALF_LIFE_MS, SPEED_REGAINED, TRAFFIC_HALF_LIFE_MS,
};
use super::window::{Errors, Latency, Reference, Tally, faded};
use super::{InFlight, RouteHealth, State};
use crate::time::Mono;

/// An attempt in flight: give it back when it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Of the key as it was configured then.
    pub(super) serial: u64,
    pub(super) launched: Mono,
}

/// How an attempt ended, as far as health cares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ended {
    /// It served to its end.
    Served {
        /// How long it took.
        took: Took,
        /// Tokens of output, where the provider told.
        output_tokens: Option<u64>,
    },
    /// It failed, for no fault of its caller.
    Failed(Reach),
    /// Nothing is learnt: the caller's fault or own deadline, or the caller left.
    Nothing,
}

/// How long a served attempt took: in real milliseconds, whatever the node's time scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Took {
    /// From its launch to the whole answer.
    Whole {
        /// Real milliseconds.
        ms: f64,
    },
    /// From its launch to the first output of a stream: what follows depends on the caller's reading.
    FirstOutput {
        /// Real milliseconds.
        ms: f64,
    },
}

/// How far a failed attempt got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The provider's host was connected to.
    Connected,
    /// No connection was made.
    NotConnected,
    /// Nobody knows: there was no answer in time.
    Silent,
}

/// A route as the book keeps it.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) phase: Phase,
    pub(super) since: Mono,
    pub(super) held: bool,
    /// Failures of requests launched before count no more: they are of what is over.
    fresh_since: Mono,
    period: Tally,
    /// Failures that may be this node's own network's, since a host was last reached.
    unreached: Unreached,
    pub(super) errors: Errors,
    pub(super) latency: Latency,
    period_latency: Latency,
    usual: Reference,
    pub(super) load: Load,
    /// The load, for who picks keys.
    pub(super) in_flight: InFlight,
    pub(super) requests: u64,
    pub(super) traffic: Traffic,
    pub(super) last_used: Mono,
    /// Ratio of latencies to the peers, and to what is usual, as of the last recompute.
    pub(super) to_peers: f64,
    pub(super) to_usual: f64,
    /// What latency leaves of the weight: lost at once, given back by and by.
    speed: f64,
    /// As requests read it.
    pub(super) health: RouteHealth,
}

#[derive(Clone, Copy, Debug, Default)]
struct Unreached {
    spell: u64,
    failed: u32,
}

/// Requests in flight: now, and on average over the last period.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) in_flight: u32,
    /// Requests times milliseconds in this period.
    area: f64,
    changed: Mono,
    pub(super) mean: f64,
}

/// Requests launched and tokens put out, fading.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    requests: f64,
    tokens: f64,
    /// For how long anything can have been counted, fading alike.
    ms: f64,
    period_requests: u32,
    period_tokens: u64,
}

impl Route {
    pub(super) fn new(now: Mono) -> Self {
        Self {
            phase: Phase::Healthy,
            since: now,
            held: false,
            fresh_since: Mono(0),
            period: Tally::default(),
            unreached: Unreached::default(),
            errors: Errors::default(),
            latency: Latency::default(),
            period_latency: Latency::default(),
            usual: Reference::default(),
            load: Load {
                in_flight: 0,
                area: 0.0,
                changed: now,
                mean: 0.0,
            },
            in_flight: InFlight::default(),
            requests: 0,
            traffic: Traffic::default(),
            last_used: now,
            to_peers: 1.0,
            to_usual: 1.0,
            speed: 1.0,
            health: RouteHealth {
                since: now,
                ..RouteHealth::UNMEASURED
            },
        }
    }

    pub(super) fn launched(&mut self, now: Mono) {
        self.load.advance(now);
        self.load.in_flight += 1;
        self.show_load();
        self.requests += 1;
        self.traffic.period_requests = self.traffic.period_requests.saturating_add(1);
        self.last_used = now;
        self.health.tried = true;
    }

    /// `spell` counts the times that a host was reached after others were not.
    pub(super) fn ended(&mut self, launched: Mono, ended: Ended, spell: u64, now: Mono) {
        self.load.advance(now);
        self.load.in_flight = self.load.in_flight.saturating_sub(1);
        self.last_used = now;
        self.learn(launched, ended, spell);
        self.show_load();
    }

    fn learn(&mut self, launched: Mono, ended: Ended, spell: u64) {
        match ended {
            Ended::Nothing => {}
            Ended::Served {
                took,
                output_tokens,
            } => {
                self.errors.served();
                self.period.served = self.period.served.saturating_add(1);
                match took {
                    Took::Whole { ms } => self.period_latency.add_whole(ms, output_tokens),
                    Took::FirstOutput { ms } => self.period_latency.add_first_output(ms),
                }
                let tokens = output_tokens.unwrap_or(0);
                self.traffic.period_tokens = self.traffic.period_tokens.saturating_add(tokens);
            }
            Ended::Failed(_) if launched < self.fresh_since => {}
            Ended::Failed(reach) => {
                self.errors.failed();
                if reach == Reach::Connected {
                    self.period.failed = self.period.failed.saturating_add(1);
                    return;
                }
                if self.unreached.spell != spell {
                    self.count_unreached();
                    self.unreached.spell = spell;
                }
                self.unreached.failed = self.unreached.failed.saturating_add(1);
            }
        }
    }

    /// For who picks keys: a failure of this period counts as a request in flight, or a key that fails
    /// at once would look idle.
    fn show_load(&self) {
        let failed = self.period.failed.saturating_add(self.unreached.failed);
        self.in_flight
            .set(self.load.in_flight.saturating_add(failed));
    }

    fn count_unreached(&mut self) {
        let failed = std::mem::take(&mut self.unreached.failed);
        self.period.failed = self.period.failed.saturating_add(failed);
    }

    /// Takes the period in. Where this node's own network was out, `outage` is the spell of it.
    ///
    /// The period's tally stays until [`Route::step`] has judged it.
    pub(super) fn fold(&mut self, elapsed_ms: u64, outage: Option<u64>, now: Mono) {
        if outage == Some(self.unreached.spell) {
            if std::mem::take(&mut self.unreached.failed) > 0 {
                self.errors.in_a_row = 0;
            }
        } else {
            self.count_unreached();
        }
        self.errors
            .fold(self.period, faded(elapsed_ms, ERROR_HALF_LIFE_MS));
        let period = std::mem::take(&mut self.period_latency);
        self.latency
            .fold(&period, faded(elapsed_ms, LATENCY_HALF_LIFE_MS));
        self.usual.learn(&self.latency, &period, elapsed_ms);
        self.load.fold(elapsed_ms, now);
        self.traffic.fold(elapsed_ms);
    }

    /// Compares with the peers and the past, and goes on to the next state.
    pub(super) fn step(&mut self, peers: &Reference, now: Mono) {
        let samples = self.latency.samples();
        let to = |reference: &Reference| {
            let ratio = self.latency.ratio(reference).unwrap_or(1.0);
            score::with_evidence(ratio, samples)
        };
        (self.to_peers, self.to_usual) = (to(peers), to(&self.usual));
        let speed = score::of_latency(self.to_peers, self.to_usual);
        self.speed = speed.min(self.speed + SPEED_REGAINED * (speed - self.speed));
        let period = std::mem::take(&mut self.period);
        self.show_load();
        if self.held {
            return;
        }
        let next = self.phase.next(&Signs {
            errors: self.errors,
            period,
            slowness: self.to_peers.max(self.to_usual),
            lasted_ms: now.since_ms(self.since),
        });
        if next.state() != self.phase.state() {
            self.since = now;
            if next.state() == State::Recovering {
                self.start_afresh(now);
            }
        }
        self.phase = next;
    }

    /// Old failures do not count for what comes now.
    fn start_afresh(&mut self, now: Mono) {
        self.errors = Errors::default();
        self.period = Tally::default();
        self.unreached.failed = 0;
        self.fresh_since = now;
    }

    /// Whether a hold covers the route. One that is held, or just was, begins its recovery. True if
    /// that is news.
    pub(super) fn set_held(&mut self, held: bool, now: Mono) -> bool {
        if held == self.held {
            return false;
        }
        self.held = held;
        self.phase = Phase::RECOVERING;
        self.since = now;
        if !held {
            self.start_afresh(now);
        }
        self.weigh(0.0);
        true
    }

    /// What serving here is worth, latency and load aside: from 0 to 1.
    pub(super) fn soundness(&self) -> f64 {
        match self.phase {
            Phase::Healthy | Phase::Degraded => score::of_errors(self.errors.rate()),
            Phase::Recovering { progress } => score::of_ramp(progress),
            Phase::Failed => 0.0,
        }
    }

    /// May be picked.
    pub(super) fn is_usable(&self) -> bool {
        !self.held && self.phase != Phase::Failed
    }

    /// Sets the weight, by a fair share of the requests in flight.
    pub(super) fn weigh(&mut self, fair: f64) {
        let load = score::of_key_load(self.load.mean, fair);
        let quality = self.soundness() * self.speed * load;
        self.health = RouteHealth {
            state: self.phase.state(),
            weight: if self.phase == Phase::Failed {
                0.0
            } else {
                score::weight(quality)
            },
            tried: self.health.tried,
            since: self.since,
        };
    }
}

impl Load {
    #[expect(clippy::cast_precision_loss, reason = "times are far below 2^53 ms")]
    fn advance(&mut self, now: Mono) {
        self.area += f64::from(self.in_flight) * now.since_ms(self.changed) as f64;
        self.changed = now;
    }

    #[expect(clippy::cast_precision_loss, reason = "times are far below 2^53 ms")]
    fn fold(&mut self, elapsed_ms: u64, now: Mono) {
        self.advance(now);
        self.mean = std::mem::take(&mut self.area) / elapsed_ms.max(1) as f64;
    }
}

impl Traffic {
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    fn fold(&mut self, elapsed_ms: u64) {
        let kept = faded(elapsed_ms, TRAFFIC_HALF_LIFE_MS);
        let requests = std::mem::take(&mut self.period_requests);
        let tokens = std::mem::take(&mut self.period_tokens);
        self.requests = self.requests * kept + f64::from(requests);
        self.tokens = self.tokens * kept + tokens as f64;
        self.ms = self.ms * kept + elapsed_ms as f64;
    }

    /// Those since the last fold too: what was launched is counted at once.
    pub(super) fn recent_requests(&self) -> f64 {
        self.requests + f64::from(self.period_requests)
    }

    pub(super) fn requests_per_minute(&self) -> f64 {
        self.per_minute(self.requests)
    }

    pub(super) fn tokens_per_minute(&self) -> f64 {
        self.per_minute(self.tokens)
    }

    fn per_minute(&self, count: f64) -> f64 {
        if self.ms > 0.0 {
            count * 60_000.0 / self.ms
        } else {
            0.0
        }
    }
}
