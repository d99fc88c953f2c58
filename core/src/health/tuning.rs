//! The numbers behind health, each with its reason. All waits are in the node's own (scaled) time.
//!
//! None can be configured: they only make sense together, and are tuned together.

/// How often weights and states are computed anew. Short enough that a failing key is out after a few
/// seconds, long enough that a period holds evidence.
pub const RECOMPUTE_MS: u64 = 5_000;

/// A failure counts half after this long: two recomputes, so that one bad moment is soon forgotten.
pub(super) const ERROR_HALF_LIFE_MS: u64 = 10_000;

/// Served requests that every route is taken to have behind it: a first failure is no failure rate of
/// 100 %.
pub(super) const ASSUMED_SERVED: f64 = 10.0;

/// Of a remembered failure rate, this many failures did not come in the clean run since the last one:
/// chance explains that in 2 % of cases, a repair explains it in all.
pub(super) const MISSING_FAILURES: f64 = 4.0;

/// Below this sum of decayed requests nothing is left to speak of a rate.
pub(super) const FORGOTTEN: f64 = 0.01;

/// Latency counts half after this long. Longer than errors: a slow key's few requests must be enough to
/// remember it by.
pub(super) const LATENCY_HALF_LIFE_MS: u64 = 15_000;

/// What is usual for a route is learnt this slowly, so that a slow hour shows and a new normal is
/// accepted within about two.
pub(super) const USUAL_HALF_LIFE_MS: u64 = 600_000;

/// So many samples say what is usual, and what a period was like.
pub(super) const ENOUGH_SAMPLES: f64 = 8.0;

/// A period this many times faster or slower than what was measured before is a change, not noise:
/// what was measured before is dropped.
pub(super) const CHANGED: f64 = 1.5;

/// Added to each latency before latencies are compared, in real milliseconds: smaller differences are
/// the network's and our own.
pub(super) const LATENCY_GRAIN_MS: f64 = 25.0;

/// A sample weighs against this many assumed to be as fast as the peers': old evidence fades to none.
pub(super) const ASSUMED_FAST: f64 = 1.0;

/// The weight of a healthy route. Weights are relative to each other.
pub const FULL_WEIGHT: f64 = 1_000.0;

/// The least weight of a usable route: 1 % of a full one. High enough that a recovery is noticed, low
/// enough that one slow key of three does not reach the 99th percentile of all requests.
pub const LEAST_WEIGHT: f64 = 10.0;

/// Errors first: every percent of failures takes 11 % of the weight, 20 % leave a tenth.
pub(super) const ERROR_STEEPNESS: f64 = 12.0;

/// Up to this ratio, slower and busier is chance.
pub(super) const TOLERATED: f64 = 1.08;

/// Latency second: the weight falls with this power of the ratio. Twice as slow leaves a quarter, six
/// times as slow the least weight.
pub(super) const LATENCY_POWER: f64 = 3.0;

/// Being slower than its own past counts with the root: a fast key that became as slow as its peers
/// should not fall far behind them.
pub(super) const USUAL_POWER: f64 = 0.5;

/// Of a weight lost to latency, this part of the rest comes back with each recompute: a key that is
/// slow because it got too much would be flooded again at once, and its pool would swing.
pub(super) const SPEED_REGAINED: f64 = 0.3;

/// Load third: it takes no more than this from a key, whatever it carries.
pub(super) const LEAST_LOAD_FACTOR: f64 = 0.4;

/// Of two keys drawn by weight the second is taken if the first has more than this times its requests in
/// flight, each by its weight: what a recompute is too slow to see. Below, it is chance.
pub(crate) const BUSIER: f64 = 1.1;

/// … and only if their weights are this near: a key with little weight must get its little share, and no
/// more.
pub(crate) const ALIKE: f64 = 2.0;

/// Between providers load only decides among equals: traffic must not swing between two of them.
pub(super) const LEAST_PROVIDER_LOAD_FACTOR: f64 = 0.9;

/// Requests in flight that every route is taken to have: one against none is no load.
pub(super) const ASSUMED_IN_FLIGHT: f64 = 4.0;

/// Degraded from this failure rate on: well above the background of a healthy provider.
pub(super) const DEGRADED_RATE: f64 = 0.05;

/// A single failure degrades nothing.
pub(super) const DEGRADED_FAILURES: f64 = 1.5;

/// Degraded from this ratio to peers or its own past on.
pub(super) const DEGRADED_SLOWNESS: f64 = 3.0;

/// Settled below these: far enough from where Degraded begins that a route does not flicker.
pub(super) const SETTLED_RATE: f64 = 0.015;
/// See [`SETTLED_RATE`].
pub(super) const SETTLED_FAILURES: f64 = 0.5;
/// See [`SETTLED_RATE`].
pub(super) const SETTLED_SLOWNESS: f64 = 2.0;

/// Degraded lasts at least two recomputes.
pub(super) const DEGRADED_LEAST_MS: u64 = 2 * RECOMPUTE_MS;

/// Failed from this rate on: two of five fail, and have for a while.
pub(super) const FAILED_RATE: f64 = 0.4;

/// Failed after so many failures in a row, whatever was before: a burst. Of a key that fails one in ten,
/// one recompute in 100,000 sees that by chance.
pub(super) const BURST_IN_A_ROW: u32 = 5;

/// Failed when in one period at least so many requests ended and this part of them failed.
pub(super) const BURST_REQUESTS: u32 = 10;
/// See [`BURST_REQUESTS`].
pub(super) const BURST_RATE: f64 = 0.5;

/// How long a Failed route that is not held rests. With one recompute to notice, and two to ramp, a
/// route is back 25 s after it was healed.
pub(super) const REST_MS: u64 = 2 * RECOMPUTE_MS;

/// A Recovering route that fails this part of a period's requests is Failed again. A lone failure is
/// all of them.
pub(super) const RELAPSE_RATE: f64 = 0.2;

/// Share of a full weight at the start of the ramp.
pub(super) const RAMP_START: f64 = 0.1;

/// A period with served requests and next to no failures: two of them, and the route is Healthy.
pub(super) const RAMP_STEP: f64 = 0.5;

/// A period without any request, so that a rarely used route gets to prove itself …
pub(super) const RAMP_IDLE_STEP: f64 = 1.0 / 24.0;
/// … but never by waiting alone.
pub(super) const RAMP_IDLE_MOST: f64 = 0.5;

/// Models tracked per key; beyond, the one idle for longest is forgotten.
pub const MODELS_PER_KEY: usize = 64;

/// A route without any request for so long is forgotten.
pub(super) const IDLE_FORGOTTEN_MS: u64 = 6 * 3_600_000;

/// Throughput and actual shares are of about this long.
pub(super) const TRAFFIC_HALF_LIFE_MS: u64 = 30_000;

/// Providers of at least so many hosts must fail to connect before it is this node's own network.
pub(super) const HOSTS_OF_AN_OUTAGE: usize = 2;
