//! Scores and weights for charts, in steps that grow with age: each reading counts in a step of every
//! length, and the longer steps are kept longer.

use std::collections::BTreeMap;

use holdline_core::incidents::Entity;
use holdline_core::time::WallMs;
use rusqlite::{Connection, Transaction};
use serde::{Deserialize, Serialize};

use super::{Fault, Store, StoreError, signed, unsigned};

/// Lengths of steps in seconds, and for how many seconds they are kept; the last as long as history is.
const STEPS: [(u64, Option<u64>); 3] = [(10, Some(2 * 3_600)), (60, Some(24 * 3_600)), (600, None)];

/// The most points of one series that are answered.
pub const MAX_POINTS: u64 = 400;

/// The most series of one node that are answered.
pub const MAX_SERIES: usize = 500;

/// The states, by how bad they are; the worst of a step is kept.
pub const STATES: [&str; 4] = ["healthy", "degraded", "recovering", "failed"];

/// What was measured of a route (its weight) or a direction (its score).
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Of what.
    pub entity: Entity,
    /// When.
    pub at: WallMs,
    /// Weight or score.
    pub value: f64,
    /// Its place in [`STATES`].
    pub state: u8,
}

/// Which scores are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScoreQuery {
    /// Not before.
    pub from: WallMs,
    /// Not after.
    pub to: WallMs,
    /// Providers; empty for all.
    pub providers: Vec<String>,
    /// Models; empty for all.
    pub models: Vec<String>,
    /// Keys; empty for all, directions among them.
    pub key_ids: Vec<String>,
}

/// The scores of one thing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Of what.
    pub entity: Entity,
    /// In order of time.
    pub points: Vec<Point>,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// When it begins.
    pub at: WallMs,
    /// The mean.
    pub value: f64,
    /// The worst, by its place in [`STATES`].
    pub state: u8,
}

impl ScoreQuery {
    /// The step in seconds: the shortest that is kept for so long, and gives no more than
    /// [`MAX_POINTS`] points.
    #[must_use]
    pub fn step_seconds(&self, now: WallMs) -> u64 {
        self.step(now).1
    }

    /// The kept step to read, and the multiple of it to answer.
    fn step(&self, now: WallMs) -> (u64, u64) {
        let age = now.0.saturating_sub(self.from.0) / 1_000;
        let span = self.to.0.saturating_sub(self.from.0) / 1_000;
        let fits = |(step, kept): &&(u64, Option<u64>)| {
            kept.is_none_or(|kept| age <= kept) && span / step < MAX_POINTS
        };
        let (kept, _) = STEPS.iter().find(fits).unwrap_or(&STEPS[2]);
        let times = (span / kept / MAX_POINTS) + 1;
        (*kept, kept.saturating_mul(times))
    }

    fn wants(&self, entity: &Entity) -> bool {
        let among = |wanted: &[String], name: Option<&str>| {
            wanted.is_empty() || name.is_some_and(|name| wanted.iter().any(|w| w == name))
        };
        among(&self.providers, Some(entity.provider().as_str()))
            && among(&self.models, entity.model().map(|m| m.as_str()))
            && among(&self.key_ids, entity.key().map(|k| k.as_str()))
    }
}

impl Store {
    /// The scores of this node, at most [`MAX_SERIES`] series.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn scores(&self, query: &ScoreQuery, now: WallMs) -> Result<Vec<Series>, StoreError> {
        self.history.read(|connection| read(connection, query, now))
    }
}

fn read(connection: &Connection, query: &ScoreQuery, now: WallMs) -> Result<Vec<Series>, Fault> {
    let (kept, step) = query.step(now);
    let mut names =
        connection.prepare_cached("SELECT number, entity FROM series ORDER BY entity")?;
    let mut points = connection.prepare_cached(
        "SELECT (at / ?1) * ?1 AS slot, sum(total) / sum(count), max(state) FROM scores
         WHERE step = ?2 AND series = ?3 AND at BETWEEN ?4 AND ?5 GROUP BY slot ORDER BY slot",
    )?;
    let rows = names.query_map([], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
    })?;
    let mut found = Vec::new();
    for row in rows {
        let (number, text) = row?;
        let entity: Entity = serde_json::from_str(&text)?;
        if !query.wants(&entity) {
            continue;
        }
        let seconds = |at: WallMs| signed(at.0 / 1_000);
        let bounds = (
            signed(step),
            signed(kept),
            number,
            // A step that began before belongs to it too.
            seconds(query.from).saturating_sub(signed(kept)),
            seconds(query.to),
        );
        let rows = points.query_map(bounds, |row| {
            Ok(Point {
                at: WallMs(unsigned(row.get(0)?).saturating_mul(1_000)),
                value: row.get(1)?,
                state: row.get(2)?,
            })
        })?;
        let points = rows.collect::<Result<Vec<Point>, _>>()?;
        if !points.is_empty() {
            found.push(Series { entity, points });
        }
        if found.len() >= MAX_SERIES {
            break;
        }
    }
    Ok(found)
}

pub(super) fn save(transaction: &Transaction<'_>, readings: &[Reading]) -> Result<(), Fault> {
    let mut known: BTreeMap<&Entity, i64> = BTreeMap::new();
    let mut name = transaction.prepare_cached(
        "INSERT INTO series (entity) VALUES (?1) ON CONFLICT (entity) DO UPDATE SET entity = entity RETURNING number",
    )?;
    let mut count = transaction.prepare_cached(
        "INSERT INTO scores (step, series, at, count, total, state) VALUES (?1, ?2, ?3, 1, ?4, ?5)
         ON CONFLICT (step, series, at) DO UPDATE SET
            count = count + 1, total = total + excluded.total, state = max(state, excluded.state)",
    )?;
    for reading in readings {
        let number = match known.get(&reading.entity) {
            Some(number) => *number,
            None => {
                let text = serde_json::to_string(&reading.entity)?;
                let number = name.query_row([text], |row| row.get(0))?;
                known.insert(&reading.entity, number);
                number
            }
        };
        for (step, _) in STEPS {
            let at = reading.at.0 / 1_000 / step * step;
            count.execute((
                signed(step),
                number,
                signed(at),
                reading.value,
                reading.state,
            ))?;
        }
    }
    Ok(())
}

/// Drops steps that are kept no longer, and what has none left.
pub(super) fn prune(
    transaction: &Transaction<'_>,
    oldest: WallMs,
    now: WallMs,
) -> Result<(), Fault> {
    for (step, kept) in STEPS {
        let kept = kept.map(|kept| (now.0 / 1_000).saturating_sub(kept));
        let before = (oldest.0 / 1_000).max(kept.unwrap_or_default());
        transaction.execute(
            "DELETE FROM scores WHERE step = ?1 AND at < ?2",
            (signed(step), signed(before)),
        )?;
    }
    transaction.execute(
        "DELETE FROM series WHERE NOT EXISTS (SELECT 1 FROM scores WHERE series = number AND step = 600)",
        [],
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{HistoryBatch, StoreOptions};

    const NOW: u64 = 1_800_000_000;

    fn open() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), &StoreOptions::default()).unwrap();
        (folder, store)
    }

    fn direction(model: &str) -> Entity {
        Entity::Direction {
            provider: "openai".into(),
            model: model.into(),
        }
    }

    fn save(store: &Store, entity: &Entity, readings: &[(u64, f64, u8)]) {
        let reading = |(second, value, state): &(u64, f64, u8)| Reading {
            entity: entity.clone(),
            at: WallMs(second * 1_000),
            value: *value,
            state: *state,
        };
        let batch = HistoryBatch {
            readings: readings.iter().map(reading).collect(),
            ..HistoryBatch::default()
        };
        store.save_history(&batch, WallMs(NOW * 1_000)).unwrap();
    }

    fn query(from: u64, to: u64) -> ScoreQuery {
        ScoreQuery {
            from: WallMs(from * 1_000),
            to: WallMs(to * 1_000),
            ..ScoreQuery::default()
        }
    }

    #[test]
    fn readings_of_one_step_are_one_point_with_their_mean_and_their_worst_state() {
        let (_folder, store) = open();
        save(
            &store,
            &direction("a"),
            &[(NOW - 100, 1.0, 0), (NOW - 95, 0.5, 3)],
        );
        save(
            &store,
            &direction("a"),
            &[(NOW - 91, 0.0, 0), (NOW - 90, 0.25, 1)],
        );
        let found = store
            .scores(&query(NOW - 600, NOW), WallMs(NOW * 1_000))
            .unwrap();
        let at = |second: u64, value, state| Point {
            at: WallMs(second * 1_000),
            value,
            state,
        };
        let points = vec![at(NOW - 100, 0.5, 3), at(NOW - 90, 0.25, 1)];
        let entity = direction("a");
        assert_eq!(found, [Series { entity, points }]);
    }

    #[test]
    fn long_windows_have_long_steps_and_never_too_many_points() {
        let (_folder, store) = open();
        let all: Vec<_> = (0..8 * 144).map(|n| (NOW - n * 600, 1.0, 0)).collect();
        save(&store, &direction("a"), &all);
        for (span, step) in [
            (600, 10),
            (3_600, 10),
            (7_200, 60),
            (86_400, 600),
            (8 * 86_400, 1_800),
        ] {
            let asked = query(NOW - span, NOW);
            assert_eq!(asked.step_seconds(WallMs(NOW * 1_000)), step, "{span} s");
            let found = store.scores(&asked, WallMs(NOW * 1_000)).unwrap();
            let points = found[0].points.len() as u64;
            assert!(
                points <= MAX_POINTS + 1 && points >= span / 2_000,
                "{span} s: {points}"
            );
        }
        assert_eq!(
            query(NOW - 90_000, NOW - 89_000).step_seconds(WallMs(NOW * 1_000)),
            600
        );
    }

    #[test]
    fn steps_are_kept_as_long_as_they_are_read() {
        let (_folder, store) = open();
        save(&store, &direction("a"), &[(NOW - 3 * 3_600, 1.0, 0)]);
        save(&store, &direction("b"), &[(NOW - 9 * 86_400, 1.0, 0)]);
        let oldest = WallMs((NOW - 7 * 86_400) * 1_000);
        store
            .prune_history(&"n1".into(), oldest, WallMs(NOW * 1_000))
            .unwrap();
        let count = |sql: &str| {
            let counted = store
                .history
                .read(|c| Ok(c.query_row(sql, [], |row| row.get::<_, i64>(0))?));
            counted.unwrap()
        };
        assert_eq!(count("SELECT count(*) FROM scores WHERE step = 10"), 0);
        assert_eq!(count("SELECT count(*) FROM scores"), 2);
        assert_eq!(count("SELECT count(*) FROM series"), 1);
        let found = store
            .scores(&query(NOW - 4 * 3_600, NOW), WallMs(NOW * 1_000))
            .unwrap();
        assert_eq!((found.len(), found[0].points.len()), (1, 1));
    }

    #[test]
    fn only_what_is_wanted_is_answered() {
        let (_folder, store) = open();
        let route = Entity::Route {
            provider: "azure".into(),
            model: "a".into(),
            key: "k".into(),
        };
        for entity in [&route, &direction("a"), &direction("b")] {
            save(&store, entity, &[(NOW, 1.0, 0)]);
        }
        let found = |change: &dyn Fn(&mut ScoreQuery)| {
            let mut asked = query(NOW - 60, NOW);
            change(&mut asked);
            store.scores(&asked, WallMs(NOW * 1_000)).unwrap().len()
        };
        assert_eq!(found(&|_| {}), 3);
        assert_eq!(found(&|q| q.models = vec!["a".to_owned()]), 2);
        assert_eq!(found(&|q| q.providers = vec!["azure".to_owned()]), 1);
        assert_eq!(
            found(&|q| q.key_ids = vec!["k".to_owned(), "x".to_owned()]),
            1
        );
        assert_eq!(found(&|q| q.to = q.from), 0);
    }
}
