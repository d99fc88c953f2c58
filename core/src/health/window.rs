//! What is remembered of a route's requests: sums that fade.

use super::tuning::{
    ASSUMED_SERVED, CHANGED, ENOUGH_SAMPLES, FORGOTTEN, LATENCY_GRAIN_MS, MISSING_FAILURES,
    USUAL_HALF_LIFE_MS,
};

/// What is left of a sum after a while.
#[expect(clippy::cast_precision_loss, reason = "times are far below 2^53 ms")]
pub(super) fn faded(elapsed_ms: u64, half_life_ms: u64) -> f64 {
    0.5_f64.powf(elapsed_ms as f64 / half_life_ms as f64)
}

/// How the requests of one period ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) served: u32,
    pub(super) failed: u32,
}

impl Tally {
    pub(super) const fn total(self) -> u32 {
        self.served.saturating_add(self.failed)
    }

    /// The part that failed; 0 of none.
    pub(super) fn rate(self) -> f64 {
        f64::from(self.failed) / f64::from(self.total().max(1))
    }
}

/// Failures among requests, the recent ones first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Errors {
    requests: f64,
    failed: f64,
    /// Served since the last failure.
    clean_run: u32,
    /// Failed since the last that was served.
    pub(super) in_a_row: u32,
}

impl Errors {
    pub(super) const fn served(&mut self) {
        self.in_a_row = 0;
        self.clean_run = self.clean_run.saturating_add(1);
    }

    pub(super) const fn failed(&mut self) {
        self.clean_run = 0;
        self.in_a_row = self.in_a_row.saturating_add(1);
    }

    /// Takes a period in.
    pub(super) fn fold(&mut self, period: Tally, faded: f64) {
        self.requests = self.requests * faded + f64::from(period.total());
        self.failed = self.failed * faded + f64::from(period.failed);
        if f64::from(self.clean_run) * self.rate() >= MISSING_FAILURES {
            self.failed = 0.0;
        }
        if self.requests < FORGOTTEN {
            (self.requests, self.failed) = (0.0, 0.0);
        }
    }

    /// As people read it: failed of all.
    pub(super) fn shown(&self) -> f64 {
        if self.requests > 0.0 {
            self.failed / self.requests
        } else {
            0.0
        }
    }

    /// As decisions read it: few requests say little.
    pub(super) fn rate(&self) -> f64 {
        self.failed / (self.requests + ASSUMED_SERVED)
    }

    /// Decayed number of failures.
    pub(super) const fn failures(&self) -> f64 {
        self.failed
    }
}

/// A fading mean of logarithms: what a typical request took. One that took a minute among many that took
/// a second barely moves it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Typical {
    samples: f64,
    sum: f64,
}

impl Typical {
    fn add(&mut self, ln: f64) {
        self.samples += 1.0;
        self.sum += ln;
    }

    fn fold(&mut self, period: Self, faded: f64) {
        self.samples = self.samples * faded + period.samples;
        self.sum = self.sum * faded + period.sum;
        if self.samples < FORGOTTEN {
            *self = Self::default();
        }
    }

    fn mean(self) -> Option<f64> {
        (self.samples > 0.0).then(|| self.sum / self.samples)
    }
}

/// One value for each way in which latency is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Ways<T> {
    /// The whole answer.
    pub(super) whole: T,
    /// The whole answer, per token of output: a long answer is not a slow one.
    pub(super) per_token: T,
    /// A stream's first output: what comes after depends on the caller's reading.
    pub(super) first_output: T,
}

/// Logarithms of what is typical, by which latencies are compared.
pub(super) type Reference = Ways<Option<f64>>;

/// How long a route's served requests take.
pub(super) type Latency = Ways<Typical>;

impl Latency {
    /// A whole answer. Where the tokens are not known, the time alone counts.
    pub(super) fn add_whole(&mut self, ms: f64, output_tokens: Option<u64>) {
        let ms = ms + LATENCY_GRAIN_MS;
        self.whole.add(ms.ln());
        if let Some(tokens) = output_tokens {
            #[expect(clippy::cast_precision_loss, reason = "an answer has far fewer tokens")]
            let tokens = tokens.max(1) as f64;
            self.per_token.add((ms / tokens).ln());
        }
    }

    pub(super) fn add_first_output(&mut self, ms: f64) {
        self.first_output.add((ms + LATENCY_GRAIN_MS).ln());
    }

    pub(super) fn samples(&self) -> f64 {
        self.whole.samples + self.first_output.samples
    }

    pub(super) fn means(&self) -> Reference {
        Ways {
            whole: self.whole.mean(),
            per_token: self.per_token.mean(),
            first_output: self.first_output.mean(),
        }
    }

    /// How many times slower than the reference; below 1 where faster, `None` where they have nothing in
    /// common. An answer is slow only as far as it is slow in itself and per token.
    pub(super) fn ratio(&self, reference: &Reference) -> Option<f64> {
        let over = |own: Typical, reference: Option<f64>| Some(own.mean()? - reference?);
        let whole = over(self.whole, reference.whole);
        let per_token = over(self.per_token, reference.per_token);
        let whole = match (whole, per_token) {
            (Some(whole), Some(per_token)) => Some(nearer_to_none(whole, per_token)),
            (whole, _) => whole,
        };
        let first_output = over(self.first_output, reference.first_output);
        let ln = match (whole, first_output) {
            (Some(whole), Some(first)) => {
                (whole * self.whole.samples + first * self.first_output.samples) / self.samples()
            }
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return None,
        };
        Some(ln.exp())
    }

    /// Takes a period in. One that is quite different from what came before takes its place.
    pub(super) fn fold(&mut self, period: &Self, faded: f64) {
        let ratio = period.ratio(&self.means());
        let changed = ratio.is_some_and(|ratio| ratio >= CHANGED || ratio <= 1.0 / CHANGED);
        if changed && period.samples() >= ENOUGH_SAMPLES {
            *self = *period;
            return;
        }
        self.whole.fold(period.whole, faded);
        self.per_token.fold(period.per_token, faded);
        self.first_output.fold(period.first_output, faded);
    }

    /// Of several routes as if they were one: their means by weight, the samples of all.
    pub(super) fn mixed(routes: &[(f64, &Self)]) -> Self {
        let mix = |way: fn(&Self) -> Typical| {
            let (mut weights, mut sum, mut samples) = (0.0, 0.0, 0.0);
            for (weight, route) in routes {
                let typical = way(route);
                if let Some(mean) = typical.mean() {
                    weights += weight;
                    sum += weight * mean;
                    samples += typical.samples;
                }
            }
            let sum = if weights > 0.0 {
                samples * sum / weights
            } else {
                0.0
            };
            Typical { samples, sum }
        };
        Self {
            whole: mix(|route| route.whole),
            per_token: mix(|route| route.per_token),
            first_output: mix(|route| route.first_output),
        }
    }

    /// Typical real milliseconds of a request.
    pub(super) fn typical_ms(&self) -> Option<f64> {
        let ln = (self.whole.sum + self.first_output.sum) / self.samples();
        (self.samples() > 0.0).then(|| (ln.exp() - LATENCY_GRAIN_MS).max(0.0))
    }
}

/// Of two ratios' logarithms the smaller deviation, or none where they disagree.
fn nearer_to_none(one: f64, other: f64) -> f64 {
    if one.is_sign_positive() != other.is_sign_positive() {
        0.0
    } else if one.abs() < other.abs() {
        one
    } else {
        other
    }
}

impl Reference {
    /// What is usual moves towards what was measured in a period with traffic.
    pub(super) fn learn(&mut self, latency: &Latency, period: &Latency, elapsed_ms: u64) {
        let kept = faded(elapsed_ms, USUAL_HALF_LIFE_MS);
        let learn = |usual: &mut Option<f64>, now: Typical, period: Typical| {
            let Some(mean) = now.mean().filter(|_| period.samples > 0.0) else {
                return;
            };
            match usual {
                Some(usual) => *usual = *usual * kept + mean * (1.0 - kept),
                None if now.samples >= ENOUGH_SAMPLES => *usual = Some(mean),
                None => {}
            }
        };
        learn(&mut self.whole, latency.whole, period.whole);
        learn(&mut self.per_token, latency.per_token, period.per_token);
        learn(
            &mut self.first_output,
            latency.first_output,
            period.first_output,
        );
    }

    /// The mean of the faster half, for each way in which any of them was measured.
    pub(super) fn of_the_faster_half(routes: &[Self]) -> Self {
        let faster = |way: fn(&Self) -> Option<f64>| {
            let mut means: Vec<f64> = routes.iter().filter_map(way).collect();
            means.sort_by(f64::total_cmp);
            means.truncate(means.len().div_ceil(2));
            #[expect(clippy::cast_precision_loss, reason = "they are as many as keys")]
            let count = means.len() as f64;
            (!means.is_empty()).then(|| means.iter().sum::<f64>() / count)
        };
        Self {
            whole: faster(|route| route.whole),
            per_token: faster(|route| route.per_token),
            first_output: faster(|route| route.first_output),
        }
    }
}

#[cfg(test)]
mod tests;
