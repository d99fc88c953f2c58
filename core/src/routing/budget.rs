//! A provider's retry budget: retries in proportion to its recent requests, so that a brown-out is
//! never answered with a multiple of the traffic.
//!
//! [`Bucket`] is a value that is told the time. Requests to a provider share one behind
//! [`RetryBudget`]; who owns the node's state decides how.

use std::fmt::Debug;

use crate::time::Mono;

/// How many retries a provider gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetRule {
    /// Retries per thousand requests of the last ten seconds.
    pub ratio_permille: u32,
    /// Retries per second beside them, however few the requests. What is not used is not saved up.
    pub min_per_second: u32,
}

/// Retries that requests earned, and that time earned.
///
/// Over any `t` seconds with `n` requests it grants at most `ratio x n + min x (t + 1)` retries, and
/// what the requests of the ten seconds before had left over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    rule: BudgetRule,
    /// Thousandths of retries that the requests of each second have left. Second `s` is at `s % WINDOW_S`.
    earned: [u64; WINDOW_S],
    /// The newest second.
    second: u64,
    /// Thousandths of retries that time has left.
    reserve: u64,
    refilled: Mono,
}

/// The bucket of one provider, shared by all its requests. Neither call waits for anything but another
/// call of the same kind.
pub trait RetryBudget: Debug + Send + Sync {
    /// What it was made with.
    fn rule(&self) -> BudgetRule;
    /// See [`Bucket::earn`].
    fn earn(&self, now: Mono);
    /// See [`Bucket::spend`].
    fn spend(&self, now: Mono) -> bool;
}

/// How long a request's share may be used.
const WINDOW_S: usize = 10;
/// One retry, in thousandths.
const ONE: u64 = 1_000;

impl Bucket {
    /// With a full second's worth of retries.
    #[must_use]
    pub fn new(rule: BudgetRule) -> Self {
        Self {
            rule,
            earned: [0; WINDOW_S],
            second: 0,
            reserve: u64::from(rule.min_per_second) * ONE,
            refilled: Mono(0),
        }
    }

    /// A request goes to the provider: its first attempt there.
    pub fn earn(&mut self, now: Mono) {
        self.advance(now);
        self.earned[place(self.second)] += u64::from(self.rule.ratio_permille);
    }

    /// Takes one retry. False where there is none: then nothing is taken.
    #[must_use]
    pub fn spend(&mut self, now: Mono) -> bool {
        self.advance(now);
        if self.earned.iter().sum::<u64>() + self.reserve < ONE {
            return false;
        }
        let mut owed = ONE;
        let oldest_first = (1..=WINDOW_S as u64).map(|ahead| place(self.second + ahead));
        for at in oldest_first {
            let paid = self.earned[at].min(owed);
            self.earned[at] -= paid;
            owed -= paid;
        }
        self.reserve -= owed;
        true
    }

    /// Forgets what is older than the window, and adds what time earned.
    fn advance(&mut self, now: Mono) {
        let second = now.0 / 1_000;
        let passed = second.saturating_sub(self.second);
        for ahead in 1..=passed.min(WINDOW_S as u64) {
            self.earned[place(self.second + ahead)] = 0;
        }
        self.second = self.second.max(second);
        let rate = u64::from(self.rule.min_per_second);
        let earned = rate.saturating_mul(now.since_ms(self.refilled));
        self.reserve = self.reserve.saturating_add(earned).min(rate * ONE);
        self.refilled = self.refilled.max(now);
    }
}

/// Where a second's share is kept.
fn place(second: u64) -> usize {
    usize::try_from(second % WINDOW_S as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn rule(ratio_permille: u32, min_per_second: u32) -> BudgetRule {
        BudgetRule {
            ratio_permille,
            min_per_second,
        }
    }

    fn granted(bucket: &mut Bucket, asked: usize, now: Mono) -> usize {
        (0..asked).filter(|_| bucket.spend(now)).count()
    }

    #[test]
    fn requests_earn_their_share_for_ten_seconds() {
        let mut bucket = Bucket::new(rule(200, 0));
        let start = Mono(5_300);
        assert!(!bucket.spend(start), "nothing is earned yet");
        (0..50).for_each(|_| bucket.earn(start));
        assert_eq!(granted(&mut bucket, 4, start), 4);
        assert_eq!(granted(&mut bucket, 4, start.plus_ms(9_000)), 4);
        assert_eq!(granted(&mut bucket, 4, start.plus_ms(10_000)), 0);
    }

    #[test]
    fn time_earns_the_minimum_and_saves_nothing_up() {
        let mut bucket = Bucket::new(rule(0, 10));
        assert_eq!(granted(&mut bucket, 100, Mono(0)), 10);
        assert_eq!(granted(&mut bucket, 100, Mono(99)), 0);
        assert_eq!(granted(&mut bucket, 100, Mono(100)), 1);
        assert_eq!(granted(&mut bucket, 100, Mono(3_600_000)), 10);
    }

    #[test]
    fn the_minimum_is_kept_for_when_requests_earned_nothing() {
        let mut bucket = Bucket::new(rule(500, 1));
        (0..4).for_each(|_| bucket.earn(Mono(1_000)));
        assert_eq!(granted(&mut bucket, 2, Mono(1_000)), 2);
        assert_eq!(granted(&mut bucket, 2, Mono(30_000)), 1);
    }

    #[test]
    fn halves_of_both_kinds_make_one() {
        let mut bucket = Bucket::new(rule(500, 1));
        assert!(bucket.spend(Mono(0)));
        bucket.earn(Mono(499));
        assert!(!bucket.spend(Mono(499)));
        assert!(bucket.spend(Mono(500)));
        assert!(!bucket.spend(Mono(500)));
    }

    #[test]
    fn a_clock_that_is_read_late_takes_nothing_away() {
        let mut bucket = Bucket::new(rule(1_000, 0));
        bucket.earn(Mono(8_000));
        bucket.earn(Mono(2_000));
        assert_eq!(granted(&mut bucket, 3, Mono(8_000)), 2);
    }

    proptest! {
        /// However requests and retries fall, retries stay within what was promised.
        #[test]
        fn no_schedule_gets_more_than_its_share(
            ratio in 0..2_000u32,
            min in 0..5u32,
            steps in prop::collection::vec((0..1_500u64, 0..20u32, 0..20usize), 1..60),
        ) {
            let mut bucket = Bucket::new(rule(ratio, min));
            let (mut now, mut requests, mut retries) = (Mono(0), 0, 0);
            for (gap_ms, arriving, asked) in steps {
                now = now.plus_ms(gap_ms);
                (0..arriving).for_each(|_| bucket.earn(now));
                requests += u64::from(arriving);
                retries += granted(&mut bucket, asked, now) as u64;
                let by_time = u64::from(min) * (1_000 + now.0);
                prop_assert!(retries * 1_000 <= u64::from(ratio) * requests + by_time);
            }
        }
    }
}
