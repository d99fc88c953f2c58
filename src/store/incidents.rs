//! Sightings: what nodes saw of troubles.

use holdline_core::ids::NodeId;
use holdline_core::incidents::Sighting;
use holdline_core::time::WallMs;
use rusqlite::{Connection, OptionalExtension, Transaction};

use super::{Fault, Store, StoreError, signed, unsigned};

/// Sightings that are kept of one node: beyond it the oldest go, whatever the retention.
pub const MAX_SIGHTINGS: usize = 5_000;

/// A sighting, and when this node heard of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// What was told.
    pub sighting: Sighting,
    /// When, by the clock of this node.
    pub at: WallMs,
}

impl Store {
    /// Everything that is kept of one node.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn sightings_of(&self, node: &NodeId) -> Result<Vec<Sighting>, StoreError> {
        let told = self
            .history
            .read(|connection| list(connection, "node = ?1", node))?;
        Ok(told.into_iter().map(|told| told.sighting).collect())
    }

    /// Everything that other nodes told.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn sightings_of_others(&self, node: &NodeId) -> Result<Vec<Told>, StoreError> {
        self.history
            .read(|connection| list(connection, "node <> ?1", node))
    }

    /// What a node goes on with when it starts: what it had open, what ended since, and when it was last
    /// known to live.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn restore_sightings(
        &self,
        node: &NodeId,
        ended_since: WallMs,
    ) -> Result<(Vec<Sighting>, WallMs), StoreError> {
        self.history.read(|connection| {
            let mut found = list(connection, "node = ?1", node)?;
            found.retain(|told| {
                let sighting = &told.sighting;
                sighting.phase.is_open() || sighting.ended_at >= Some(ended_since)
            });
            let alive: Option<i64> = connection
                .query_row("SELECT at FROM alive", [], |row| row.get(0))
                .optional()?;
            let alive = WallMs(alive.map_or(0, unsigned));
            Ok((found.into_iter().map(|told| told.sighting).collect(), alive))
        })
    }
}

/// In order of their ends, so that of two of one entity the later one comes last.
fn list(connection: &Connection, which: &str, node: &NodeId) -> Result<Vec<Told>, Fault> {
    let query = format!(
        "SELECT sighting, told_at FROM sightings WHERE {which} ORDER BY last_at IS NULL, last_at, id"
    );
    let mut statement = connection.prepare_cached(&query)?;
    let rows = statement.query_map([node.as_str()], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))
    })?;
    let mut found = Vec::new();
    for row in rows {
        let (text, at) = row?;
        found.push(Told {
            sighting: serde_json::from_str(&text)?,
            at: WallMs(unsigned(at)),
        });
    }
    Ok(found)
}

pub(super) fn save(
    transaction: &Transaction<'_>,
    sightings: &[Sighting],
    now: WallMs,
) -> Result<(), Fault> {
    let mut upsert = transaction.prepare_cached(
        "INSERT OR REPLACE INTO sightings (node, id, is_open, last_at, told_at, sighting)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for sighting in sightings {
        upsert.execute((
            sighting.node.as_str(),
            &sighting.id,
            sighting.phase.is_open(),
            sighting.last_at().map(|at| signed(at.0)),
            signed(now.0),
            serde_json::to_string(sighting)?,
        ))?;
    }
    Ok(())
}

pub(super) fn save_alive(transaction: &Transaction<'_>, now: WallMs) -> Result<(), Fault> {
    transaction.execute(
        "INSERT OR REPLACE INTO alive (one, at) VALUES (1, ?1)",
        [signed(now.0)],
    )?;
    Ok(())
}

/// What goes on is kept however old it is: its node ends it, or forgets it, itself. Of a node that is gone
/// for good everything goes that it told before `oldest`.
pub(super) fn prune(
    transaction: &Transaction<'_>,
    own: &NodeId,
    oldest: WallMs,
) -> Result<(), Fault> {
    transaction.execute(
        "DELETE FROM sightings WHERE last_at < ?1",
        [signed(oldest.0)],
    )?;
    transaction.execute(
        "DELETE FROM sightings WHERE node <> ?1 AND node NOT IN (
            SELECT node FROM sightings WHERE told_at >= ?2
         )",
        (own.as_str(), signed(oldest.0)),
    )?;
    transaction.execute(
        "DELETE FROM sightings WHERE (node, id) IN (SELECT node, id FROM (
            SELECT node, id, row_number() OVER (
                PARTITION BY node ORDER BY is_open DESC, last_at DESC
            ) AS place FROM sightings
         ) WHERE place > ?1)",
        [i64::try_from(MAX_SIGHTINGS).unwrap_or(i64::MAX)],
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use holdline_core::failure::Reason;
    use holdline_core::incidents::{Cause, Entity, Phase, Worst};

    use super::*;
    use crate::store::{HistoryBatch, StoreOptions};

    fn sighting(node: &str, id: usize, phase: Phase, ended_at: Option<u64>) -> Sighting {
        Sighting {
            id: format!("{id:016x}"),
            node: node.into(),
            region: "us-east".into(),
            entity: Entity::Key {
                provider: "openai".into(),
                key: format!("k-{id}").into(),
            },
            cause: Cause::Refused(Reason::Quota),
            phase,
            contained: true,
            worst: Worst::Failed,
            opened_at: WallMs(10),
            calmed_at: None,
            ended_at: ended_at.map(WallMs),
            changed_at: WallMs(10),
            hold: None,
            rung: 0,
            refused_again: false,
            pinned_kept_failed: 0,
            reopened: 0,
            models: BTreeSet::from(["gpt-4o".into()]),
            key_name: "a \"name\"".to_owned(),
            words: "no".to_owned(),
            status_code: 429,
            timeline: Vec::new(),
        }
    }

    fn open() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), &StoreOptions::default()).unwrap();
        (folder, store)
    }

    fn save(store: &Store, sightings: Vec<Sighting>, now: u64) {
        let batch = HistoryBatch {
            sightings,
            alive: true,
            ..HistoryBatch::default()
        };
        store.save_history(&batch, WallMs(now)).unwrap();
    }

    #[test]
    fn the_newest_of_each_sighting_is_kept_across_a_restart() {
        let (folder, store) = open();
        let (me, other) = (NodeId::from("n1"), NodeId::from("n2"));
        save(
            &store,
            vec![
                sighting("n1", 1, Phase::Standing, None),
                sighting("n2", 1, Phase::Standing, None),
            ],
            50,
        );
        let newest = sighting("n1", 1, Phase::Resolved, Some(60));
        save(&store, vec![newest.clone()], 70);
        store.close();

        let store = Store::open(folder.path(), &StoreOptions::default()).unwrap();
        assert_eq!(store.sightings_of(&me).unwrap(), [newest]);
        let told = store.sightings_of_others(&me).unwrap();
        assert_eq!(
            (told.len(), &told[0].sighting.node, told[0].at),
            (1, &other, WallMs(50))
        );
    }

    #[test]
    fn a_node_goes_on_with_what_was_open_or_ended_a_short_while_ago() {
        let (_folder, store) = open();
        let me = NodeId::from("n1");
        assert_eq!(
            store.restore_sightings(&me, WallMs(0)).unwrap(),
            (Vec::new(), WallMs(0))
        );
        let sightings = vec![
            sighting("n1", 1, Phase::Standing, None),
            sighting("n1", 2, Phase::Resolved, Some(99)),
            sighting("n1", 3, Phase::Resolved, Some(100)),
            sighting("n2", 4, Phase::Standing, None),
        ];
        save(&store, sightings, 500);
        let (found, alive) = store.restore_sightings(&me, WallMs(100)).unwrap();
        let ids: Vec<&str> = found.iter().map(|s| &s.id[15..]).collect();
        assert_eq!((ids, alive), (vec!["3", "1"], WallMs(500)));
    }

    #[test]
    fn old_history_goes_and_what_goes_on_stays() {
        let (_folder, store) = open();
        let me = NodeId::from("n1");
        save(&store, vec![sighting("n2", 9, Phase::Standing, None)], 50);
        let sightings = vec![
            sighting("n1", 1, Phase::Standing, None),
            sighting("n1", 2, Phase::Resolved, Some(99)),
            sighting("n1", 3, Phase::Resolved, Some(150)),
        ];
        save(&store, sightings, 120);
        store.prune_history(&me, WallMs(100), WallMs(200)).unwrap();
        let left = store.sightings_of(&me).unwrap();
        let left: Vec<&str> = left.iter().map(|s| &s.id[15..]).collect();
        assert_eq!(left, ["3", "1"]);
        assert_eq!(
            store.sightings_of_others(&me).unwrap(),
            [],
            "its node is long gone"
        );
    }

    #[test]
    fn what_is_kept_of_a_node_is_bounded_and_the_oldest_go() {
        let (_folder, store) = open();
        let me = NodeId::from("n1");
        let ended = |id: usize| sighting("n1", id, Phase::Resolved, Some(1_000 + id as u64));
        let mut many: Vec<Sighting> = (0..MAX_SIGHTINGS + 5).map(ended).collect();
        many.push(sighting("n1", MAX_SIGHTINGS + 5, Phase::Standing, None));
        save(&store, many, 10_000);
        store.prune_history(&me, WallMs(0), WallMs(10_000)).unwrap();
        let kept = store.sightings_of(&me).unwrap();
        assert_eq!(kept.len(), MAX_SIGHTINGS);
        assert_eq!(kept[0].ended_at, Some(WallMs(1_006)));
        assert_eq!(kept.last().unwrap().phase, Phase::Standing);
    }
}
