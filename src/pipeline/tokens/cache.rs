//! Tokens by key, and the grants that are under way.
//!
//! A grant runs in a task of its own: a caller that leaves does not end it, and what it brings serves the
//! next. A token that nears its end is renewed while it is still used; one that is at its end is waited
//! for. A grant that failed is told to all who waited, and the next who needs a token asks again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;

use holdline_core::ids::Fingerprint;

use super::{Token, Trouble};

/// A token is not used when it expires within this time.
const MARGIN: Duration = Duration::from_secs(60);

/// A token is renewed when it expires within this time.
const AHEAD: Duration = Duration::from_secs(5 * 60);

/// How long after a renewal began the next may begin, where it failed or brought a token of no longer life.
const PAUSE: Duration = Duration::from_secs(30);

/// Keys whose tokens are kept: beyond them those that are of no use are thrown out, then all.
const MAX_KEYS: usize = 10_000;

/// How a grant ended.
pub(super) type Answered = Result<Token, Trouble>;

/// All tokens.
#[derive(Debug, Default)]
pub(super) struct Cache {
    slots: Arc<Mutex<Slots>>,
    /// Ends with the cache.
    grants: Mutex<JoinSet<()>>,
}

type Slots = HashMap<Fingerprint, Slot>;

/// Hears of a grant under way.
type Hears = watch::Receiver<Option<Answered>>;

/// What is there for a key.
#[derive(Debug, Default)]
struct Slot {
    token: Option<Token>,
    grant: Option<Hears>,
    /// Until then nothing is renewed.
    rests_until: Option<Instant>,
}

impl Slot {
    fn usable(&self, now: Instant) -> Option<&Token> {
        let token = self.token.as_ref()?;
        (token.expires > now + MARGIN).then_some(token)
    }

    fn is_due(&self, now: Instant) -> bool {
        let ends_soon = self.token.as_ref().is_none_or(|t| t.expires <= now + AHEAD);
        ends_soon && self.rests_until.is_none_or(|until| until <= now)
    }

    /// A grant under way, unless its task was lost.
    fn grant(&self) -> Option<&Hears> {
        let grant = self.grant.as_ref()?;
        grant.has_changed().is_ok().then_some(grant)
    }
}

enum Found {
    Token(Token),
    Grant(Hears),
}

impl Cache {
    /// The key's token. `ask` begins a grant, where one is needed.
    pub(super) async fn of<F>(
        &self,
        key: Fingerprint,
        now: Instant,
        ask: impl FnOnce() -> F,
    ) -> Answered
    where
        F: Future<Output = Answered> + Send + 'static,
    {
        let mut grant = match self.find(key, now, ask) {
            Found::Token(token) => return Ok(token),
            Found::Grant(grant) => grant,
        };
        let lost = || Trouble::unreadable("who grants the token");
        match grant.wait_for(Option::is_some).await {
            Ok(answered) => answered.clone().unwrap_or_else(|| Err(lost())),
            Err(_) => Err(lost()),
        }
    }

    /// The key's token is of no use any more.
    pub(super) fn forget(&self, key: Fingerprint) {
        if let Some(slot) = lock(&self.slots).get_mut(&key) {
            slot.token = None;
        }
    }

    fn find<F>(&self, key: Fingerprint, now: Instant, ask: impl FnOnce() -> F) -> Found
    where
        F: Future<Output = Answered> + Send + 'static,
    {
        let mut slots = lock(&self.slots);
        if slots.len() >= MAX_KEYS && !slots.contains_key(&key) {
            make_room(&mut slots, now);
        }
        let slot = slots.entry(key).or_default();
        let token = slot.usable(now).cloned();
        match (token, slot.grant()) {
            (Some(token), Some(_)) => return Found::Token(token),
            (Some(token), None) if !slot.is_due(now) => return Found::Token(token),
            (None, Some(grant)) => return Found::Grant(grant.clone()),
            (Some(_) | None, None) => {}
        }
        let (tell, hears) = watch::channel(None);
        slot.grant = Some(hears.clone());
        let token = slot.usable(now).cloned();
        slot.rests_until = token.is_some().then_some(now + PAUSE);
        drop(slots);
        self.begin(key, ask(), tell);
        token.map_or(Found::Grant(hears), Found::Token)
    }

    fn begin(
        &self,
        key: Fingerprint,
        ask: impl Future<Output = Answered> + Send + 'static,
        tell: watch::Sender<Option<Answered>>,
    ) {
        let slots = Arc::clone(&self.slots);
        let mut grants = lock(&self.grants);
        // Those that are over are only forgotten when somebody looks.
        while grants.try_join_next().is_some() {}
        grants.spawn(async move {
            let answered = ask.await;
            if let Some(slot) = lock(&slots).get_mut(&key) {
                slot.grant = None;
                if let Ok(token) = &answered {
                    slot.token = Some(token.clone());
                }
            }
            tell.send_replace(Some(answered));
        });
    }
}

/// What is in them is whole at any time: a panic elsewhere leaves nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn make_room(slots: &mut Slots, now: Instant) {
    slots.retain(|_, slot| slot.usable(now).is_some() || slot.grant().is_some());
    if slots.len() >= MAX_KEYS {
        slots.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::oneshot;

    use super::super::Proof;
    use super::*;
    use crate::config::Secret;

    const KEY: Fingerprint = Fingerprint(1);
    const HOUR: Duration = Duration::from_secs(3_600);

    fn token(name: &str, expires: Instant) -> Token {
        Token {
            proof: Proof::Token(Secret::from(name.to_owned())),
            expires,
        }
    }

    fn name(answered: Answered) -> String {
        match answered.unwrap().proof {
            Proof::Token(token) => token.expose().to_owned(),
            Proof::Aws(keys) => panic!("{keys:?}"),
        }
    }

    /// Asks at this time, and grants a token of this name and life at once.
    async fn ask(cache: &Cache, now: Instant, granted: &'static str, life: Duration) -> String {
        let ask = || async move { Ok(token(granted, now + life)) };
        name(cache.of(KEY, now, ask).await)
    }

    async fn ended(cache: &Cache) {
        let mut grants = std::mem::take(&mut *lock(&cache.grants));
        while grants.join_next().await.is_some() {}
    }

    #[tokio::test]
    async fn a_token_is_kept_renewed_ahead_and_never_used_at_its_end() {
        let cache = Cache::default();
        let start = Instant::now();
        assert_eq!(ask(&cache, start, "a", HOUR).await, "a");
        let later = |minutes: u64| start + Duration::from_secs(minutes * 60);
        assert_eq!(ask(&cache, later(54), "x", HOUR).await, "a");
        assert_eq!(
            ask(&cache, later(56), "b", HOUR).await,
            "a",
            "while b comes"
        );
        ended(&cache).await;
        assert_eq!(ask(&cache, later(57), "x", HOUR).await, "b");
        cache.forget(KEY);
        assert_eq!(ask(&cache, later(57), "b2", HOUR).await, "b2");
        // Nobody asked for so long that it is over: the next waits.
        assert_eq!(ask(&cache, later(57 + 60), "c", HOUR).await, "c");
    }

    #[tokio::test]
    async fn a_renewal_that_fails_or_brings_nothing_new_rests_for_a_while() {
        let cache = Cache::default();
        let start = Instant::now();
        let short = AHEAD - Duration::from_secs(1);
        assert_eq!(ask(&cache, start, "a", short).await, "a");
        let asked = AtomicUsize::new(0);
        for seconds in [1, 29, 31, 40, 59, 62] {
            let now = start + Duration::from_secs(seconds);
            let ask = || {
                asked.fetch_add(1, Ordering::Relaxed);
                async { Err(Trouble::misconfigured("no")) }
            };
            assert_eq!(name(cache.of(KEY, now, ask).await), "a");
            ended(&cache).await;
        }
        assert_eq!(asked.load(Ordering::Relaxed), 3, "at 1, 31 and 62 seconds");
    }

    #[tokio::test]
    async fn many_wait_for_one_grant_and_hear_how_it_failed() {
        let cache = Cache::default();
        let now = Instant::now();
        let (fail, failing) = oneshot::channel::<()>();
        let first = cache.of(KEY, now, || async move {
            failing.await.unwrap();
            Err(Trouble::misconfigured("refused"))
        });
        let others = futures_util::future::join_all(
            (0..9).map(|_| cache.of(KEY, now, || async { panic!("a second grant") })),
        );
        let (first, others, ()) = tokio::join!(first, others, async { fail.send(()).unwrap() });
        for answered in others.into_iter().chain([first]) {
            assert!(matches!(answered, Err(Trouble::Failed(_))));
        }
        assert_eq!(
            ask(&cache, now, "a", HOUR).await,
            "a",
            "the next asks again"
        );
    }

    #[tokio::test]
    async fn a_caller_that_leaves_does_not_end_the_grant() {
        let cache = Cache::default();
        let now = Instant::now();
        let (grant, granting) = oneshot::channel::<()>();
        {
            let mut left = std::pin::pin!(cache.of(KEY, now, || async move {
                granting.await.unwrap();
                Ok(token("a", now + HOUR))
            }));
            assert!(futures_util::poll!(&mut left).is_pending());
        }
        grant.send(()).unwrap();
        ended(&cache).await;
        assert_eq!(ask(&cache, now, "x", HOUR).await, "a");
    }

    #[tokio::test]
    async fn keys_are_bounded_and_a_lost_grant_is_asked_again() {
        let cache = Cache::default();
        let now = Instant::now();
        let lost = || async { panic!("lost") };
        let answered = cache.of(KEY, now, lost).await;
        assert!(matches!(answered, Err(Trouble::Failed(_))));
        assert_eq!(ask(&cache, now, "a", HOUR).await, "a");
        for n in 0..u64::try_from(MAX_KEYS).unwrap() {
            lock(&cache.slots).insert(Fingerprint(n + 2), Slot::default());
        }
        let other = cache.of(
            Fingerprint(0),
            now,
            || async move { Ok(token("b", now + HOUR)) },
        );
        assert_eq!(name(other.await), "b");
        assert_eq!(lock(&cache.slots).len(), 2, "only what is of use is kept");
        assert_eq!(ask(&cache, now, "x", HOUR).await, "a");
    }
}
