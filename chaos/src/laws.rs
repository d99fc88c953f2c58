//! The laws of held keys, as far as they can be seen from outside: over views and the mock's calls.
//!
//! Each returns what it found wrong, so that a failure says more than that there was one.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::ensure;

use crate::api::Condition;
use crate::mock::Call;

/// What each node shows as held, sorted and without its own draws: see [`Fleet::views`](crate::fleet::Fleet::views).
pub type Views = BTreeMap<String, Vec<Condition>>;

/// H1: no hold is lost once two live nodes know it.
///
/// # Errors
/// Names a node of `after` that misses a hold that two nodes of `before` showed.
pub fn no_hold_is_lost(before: &Views, after: &Views) -> anyhow::Result<()> {
    let mut known_by: BTreeMap<Subject<'_>, usize> = BTreeMap::new();
    for condition in before.values().flatten() {
        *known_by.entry(subject(condition)).or_default() += 1;
    }
    for (node, conditions) in after {
        let held: BTreeSet<Subject<'_>> = conditions.iter().map(subject).collect();
        for lost in known_by
            .iter()
            .filter(|(_, nodes)| **nodes >= 2)
            .map(|(subject, _)| subject)
        {
            ensure!(held.contains(lost), "{node} lost the hold of {lost:?}");
        }
    }
    Ok(())
}

/// H2: no released hold comes back.
///
/// # Errors
/// Names a node that shows the released key again.
pub fn no_release_is_undone(released_key_id: &str, after: &Views) -> anyhow::Result<()> {
    for (node, conditions) in after {
        let again = conditions
            .iter()
            .find(|condition| condition.key_id == released_key_id);
        ensure!(
            again.is_none(),
            "{node} shows the released key again: {again:?}"
        );
    }
    Ok(())
}

/// H3 and H8: all tables are equal, a joiner's and its giver's among them.
///
/// # Errors
/// Shows two views that differ.
pub fn tables_are_equal(views: &Views) -> anyhow::Result<()> {
    let mut pairs = views.iter().zip(views.iter().skip(1));
    let different = pairs.find(|((_, a), (_, b))| a != b);
    ensure!(different.is_none(), "two nodes differ: {different:#?}");
    Ok(())
}

/// H4: at most one check per node in one period of a hold.
///
/// # Errors
/// Names the node that checked more than once.
pub fn one_check_per_node(calls: &[Call], from_ms: u64, to_ms: u64) -> anyhow::Result<()> {
    let mut checks: BTreeMap<&str, usize> = BTreeMap::new();
    for call in calls
        .iter()
        .filter(|call| (from_ms..to_ms).contains(&call.at_ms))
    {
        *checks.entry(&call.caller).or_default() += 1;
    }
    let eager = checks.iter().find(|(_, count)| **count > 1);
    ensure!(
        eager.is_none(),
        "{eager:?} checks between {from_ms} and {to_ms} ms"
    );
    Ok(())
}

/// H5: nobody calls a held key in this time.
///
/// # Errors
/// Shows the first call that came all the same.
pub fn silence(calls: &[Call], from_ms: u64, to_ms: u64) -> anyhow::Result<()> {
    let heard: Vec<&Call> = calls
        .iter()
        .filter(|call| (from_ms..to_ms).contains(&call.at_ms))
        .collect();
    ensure!(
        heard.is_empty(),
        "{} calls between {from_ms} and {to_ms} ms, first {:?}",
        heard.len(),
        heard[0]
    );
    Ok(())
}

/// H6: one failed check raises the rung by one for the whole cluster, and the wait follows the ladder.
///
/// # Errors
/// Shows the condition whose rung or wait is another one.
pub fn ladder_is_climbed(condition: &Condition, rung: u32, cap_ms: u64) -> anyhow::Result<()> {
    let base_ms = 30_000_u64.saturating_mul(1 << rung.min(20)).min(cap_ms);
    ensure!(
        condition.rung == rung,
        "rung {} instead of {rung}",
        condition.rung
    );
    ensure!(
        condition.wait_ms == base_ms,
        "a wait of {} ms instead of {base_ms}",
        condition.wait_ms
    );
    Ok(())
}

type Subject<'a> = (&'a str, &'a str, Option<&'a str>);

fn subject(condition: &Condition) -> Subject<'_> {
    (
        &condition.provider,
        &condition.key_id,
        condition.model.as_deref(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(key_id: &str, rung: u32, wait_ms: u64) -> Condition {
        Condition {
            provider: "openai".to_owned(),
            key_id: key_id.to_owned(),
            scope: "key".to_owned(),
            model: None,
            failure_class: "credential".to_owned(),
            rung,
            wait_ms,
            state: String::new(),
            origin_node: "n1".to_owned(),
            origin_region: "us-east".to_owned(),
            version: "1".to_owned(),
        }
    }

    fn views(nodes: &[(&str, &[&str])]) -> Views {
        let view = |keys: &[&str]| keys.iter().map(|key| condition(key, 0, 30_000)).collect();
        nodes
            .iter()
            .map(|(node, keys)| ((*node).to_owned(), view(keys)))
            .collect()
    }

    fn call(caller: &str, at_ms: u64) -> Call {
        let [provider, key, model] = ["openai", "sk-a", "gpt-4o"].map(str::to_owned);
        Call {
            at_ms,
            provider,
            key,
            caller: caller.to_owned(),
            model,
            status: 401,
        }
    }

    #[test]
    fn a_hold_that_two_knew_must_stay() {
        let before = views(&[("n1", &["a", "b"]), ("n2", &["a"])]);
        assert!(no_hold_is_lost(&before, &views(&[("n1", &["a"]), ("n3", &["a"])])).is_ok());
        assert!(no_hold_is_lost(&before, &views(&[("n1", &["b"])])).is_err());
    }

    #[test]
    fn a_release_must_stay() {
        assert!(no_release_is_undone("a", &views(&[("n1", &["b"])])).is_ok());
        assert!(no_release_is_undone("a", &views(&[("n1", &[]), ("n2", &["a"])])).is_err());
    }

    #[test]
    fn tables_that_differ_are_seen() {
        assert!(tables_are_equal(&views(&[("n1", &["a"]), ("n2", &["a"])])).is_ok());
        assert!(tables_are_equal(&views(&[("n1", &["a"]), ("n2", &["a"]), ("n3", &[])])).is_err());
    }

    #[test]
    fn a_second_check_is_seen() {
        let calls = [call("n1", 10), call("n2", 11), call("n1", 50)];
        assert!(one_check_per_node(&calls, 0, 50).is_ok());
        assert!(one_check_per_node(&calls, 0, 51).is_err());
    }

    #[test]
    fn a_call_in_the_silence_is_heard() {
        assert!(silence(&[call("n1", 10)], 11, 20).is_ok());
        assert!(silence(&[call("n1", 10)], 10, 20).is_err());
    }

    #[test]
    fn the_ladder_doubles_up_to_its_cap() {
        assert!(ladder_is_climbed(&condition("a", 2, 120_000), 2, 900_000).is_ok());
        assert!(ladder_is_climbed(&condition("a", 9, 900_000), 9, 900_000).is_ok());
        assert!(ladder_is_climbed(&condition("a", 1, 30_000), 1, 900_000).is_err());
        assert!(ladder_is_climbed(&condition("a", 2, 60_000), 1, 900_000).is_err());
    }
}
