//! What is asked of history: every parameter, its default, and what is wrong with it.

use holdline_core::ids::NodeId;
use holdline_core::incidents::{FACETS, Query, Sort};
use holdline_core::time::WallMs;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::api::admin::refusal::Refusal;
use crate::store::ScoreQuery;

/// Issues on a page: the default, and what stands in for a limit that is none.
const LIMIT: usize = 25;
const MAX_LIMIT: usize = 100;
/// Scores are of the last hour where nothing else is asked for.
const HOUR_MS: u64 = 3_600_000;
/// Of what was sent, in a message.
const MAX_REPEATED: usize = 100;

/// The parameters of a URL, in order; one may come several times.
pub(super) struct Pairs(Vec<(String, String)>);

/// The query of the issues.
#[derive(Debug)]
pub(super) struct IssuesAsked {
    /// Which.
    pub(super) query: Query,
    /// Which of them; none for all.
    pub(super) page: Option<PageAsked>,
}

/// Some of what matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageAsked {
    /// How many.
    pub(super) limit: usize,
    /// How many to pass over.
    offset: usize,
}

/// The query of the scores.
#[derive(Debug)]
pub(super) struct ScoresAsked {
    /// Which.
    pub(super) query: ScoreQuery,
    nodes: Vec<String>,
}

impl Pairs {
    pub(super) const fn new(pairs: Vec<(String, String)>) -> Self {
        Self(pairs)
    }

    /// The last one of this name.
    fn one(&self, name: &str) -> Option<&str> {
        let mut found = self.0.iter().rev().filter(|(n, _)| n == name);
        found.next().map(|(_, value)| value.trim())
    }

    /// All names in lists of this name, separated by commas.
    fn list(&self, name: &str) -> Vec<String> {
        let lists = self.0.iter().filter(|(n, _)| n == name);
        let names = lists.flat_map(|(_, list)| list.split(','));
        let names = names.map(str::trim).filter(|name| !name.is_empty());
        names.map(str::to_owned).collect()
    }

    fn instant(&self, name: &str) -> Result<Option<WallMs>, Refusal> {
        let Some(text) = self.one(name).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let found = instant(text).ok_or_else(|| {
            Refusal::bad(format!(
                "{name} must be a time such as 2026-11-29T21:00:00Z or seconds since 1970, not {:?}",
                cut(text)
            ))
        })?;
        Ok(Some(found))
    }

    /// From and to, in order.
    fn window(&self) -> Result<(Option<WallMs>, Option<WallMs>), Refusal> {
        let window = (self.instant("from")?, self.instant("to")?);
        if let (Some(from), Some(to)) = window
            && from > to
        {
            return Err(Refusal::bad("from must not be after to"));
        }
        Ok(window)
    }
}

impl IssuesAsked {
    pub(super) fn read(pairs: &Pairs) -> Result<Self, Refusal> {
        let (from, to) = pairs.window()?;
        let mut query = Query {
            from,
            to,
            entities: pairs.list("entities"),
            ids: pairs.list("ids"),
            search: pairs.one("search").unwrap_or_default().to_owned(),
            ..Query::default()
        };
        for field in FACETS {
            let name = field.name();
            let mut wanted = Vec::new();
            for text in pairs.list(name) {
                let value = field.value(&text).ok_or_else(|| {
                    let known = field.closed_set().join(", ");
                    Refusal::bad(format!("{name} knows {known}, not {:?}", cut(&text)))
                })?;
                wanted.push(value);
            }
            query.values.insert(field, wanted);
        }
        if let Some(text) = pairs.one("sort").filter(|text| !text.is_empty()) {
            query.sort = Sort::named(text).ok_or_else(|| {
                let known = Sort::ALL.map(|(name, _)| name).join(", ");
                Refusal::bad(format!("sort must be one of {known}, not {:?}", cut(text)))
            })?;
        }
        Ok(Self {
            query,
            page: PageAsked::read(pairs)?,
        })
    }
}

impl PageAsked {
    /// A limit that is none, or makes no sense, is the default; an offset must be one.
    fn read(pairs: &Pairs) -> Result<Option<Self>, Refusal> {
        let (limit, offset) = (pairs.one("limit"), pairs.one("offset"));
        if limit.is_none() && offset.is_none() {
            return Ok(None);
        }
        let limit = limit
            .and_then(number)
            .filter(|limit| *limit > 0)
            .unwrap_or(LIMIT)
            .min(MAX_LIMIT);
        let offset = match offset.filter(|text| !text.is_empty()) {
            None => 0,
            Some(text) => number(text).ok_or_else(|| {
                Refusal::bad(format!(
                    "offset must be a whole number from 0 on, not {:?}",
                    cut(text)
                ))
            })?,
        };
        Ok(Some(Self { limit, offset }))
    }

    /// Where the page begins: past the end, the last page.
    pub(super) const fn start(self, total: usize) -> usize {
        if self.offset < total {
            self.offset
        } else {
            total.saturating_sub(1) / self.limit * self.limit
        }
    }
}

impl ScoresAsked {
    pub(super) fn read(pairs: &Pairs, now: WallMs) -> Result<Self, Refusal> {
        let (from, to) = pairs.window()?;
        let to = to.unwrap_or(now);
        let query = ScoreQuery {
            from: from.unwrap_or(WallMs(to.0.saturating_sub(HOUR_MS))),
            to,
            providers: pairs.list("providers"),
            models: pairs.list("models"),
            key_ids: pairs.list("key_ids"),
        };
        if query.from > query.to {
            return Err(Refusal::bad("from must not be in the future"));
        }
        Ok(Self {
            query,
            nodes: pairs.list("nodes"),
        })
    }

    pub(super) fn wants(&self, node: &NodeId) -> bool {
        self.nodes.is_empty() || self.nodes.iter().any(|name| name == node.as_str())
    }
}

/// RFC 3339, or seconds since the epoch, before or behind a point.
fn instant(text: &str) -> Option<WallMs> {
    if let Some(ms) = seconds(text) {
        return Some(WallMs(ms));
    }
    // A plus sign that was not encoded arrives as a blank.
    let text = text.replace(' ', "+");
    let time = OffsetDateTime::parse(&text, &Rfc3339).ok()?;
    let ms = time.unix_timestamp_nanos() / 1_000_000;
    Some(WallMs(u64::try_from(ms).unwrap_or_default()))
}

fn seconds(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return None;
    }
    let seconds: i64 = whole.parse().ok()?;
    // Beyond the calendar it is no time, but milliseconds or worse.
    OffsetDateTime::from_unix_timestamp(seconds).ok()?;
    let thousandths: String = part.chars().chain("000".chars()).take(3).collect();
    let ms: u64 = thousandths.parse().ok()?;
    Some(
        seconds
            .unsigned_abs()
            .saturating_mul(1_000)
            .saturating_add(ms),
    )
}

/// A number without a sign; one that is too large is as large as can be.
fn number(text: &str) -> Option<usize> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(usize::MAX))
}

fn cut(text: &str) -> String {
    text.chars().take(MAX_REPEATED).collect()
}

#[cfg(test)]
mod tests {
    use holdline_core::incidents::Field;

    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<IssuesAsked, Refusal> {
        let owned = pairs
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
        IssuesAsked::read(&Pairs::new(owned.collect()))
    }

    fn page(pairs: &[(&str, &str)]) -> Option<(usize, usize)> {
        read(pairs).unwrap().page.map(|p| (p.limit, p.offset))
    }

    #[test]
    fn a_page_comes_with_a_limit_or_an_offset_and_is_clamped() {
        assert_eq!(page(&[]), None);
        assert_eq!(page(&[("statuses", "attention")]), None);
        assert_eq!(page(&[("offset", "0")]), Some((25, 0)));
        for (limit, used) in [
            ("7", 7),
            ("1000", 100),
            ("0", 25),
            ("-3", 25),
            ("abc", 25),
            ("", 25),
        ] {
            assert_eq!(page(&[("limit", limit)]), Some((used, 0)), "{limit}");
        }
        let far = "123456789012345678901234567890";
        assert_eq!(page(&[("offset", far)]), Some((25, usize::MAX)));
    }

    #[test]
    fn a_page_past_the_end_is_the_last_one() {
        let start = |offset, total| PageAsked { limit: 25, offset }.start(total);
        assert_eq!(start(30, 121), 30);
        assert_eq!(start(120, 121), 120);
        assert_eq!(start(121, 121), 100);
        assert_eq!(start(usize::MAX, 125), 100);
        assert_eq!(start(usize::MAX, 0), 0);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (name, value) in [
            ("offset", "-1"),
            ("offset", "x"),
            ("sort", "loudest"),
            ("from", "yesterday"),
            ("from", "-5"),
            ("from", "1764450000000"),
            ("to", "12:00"),
            ("to", "2026-13-01T00:00:00Z"),
            ("statuses", "attention,loud"),
            ("states", "broken"),
            ("scopes", "node"),
            ("reasons", "bad luck"),
        ] {
            let message = read(&[(name, value)]).unwrap_err().message;
            assert!(message.starts_with(name), "{name}={value}: {message}");
        }
        let message = read(&[("from", "20"), ("to", "10")]).unwrap_err().message;
        assert!(message.starts_with("from"));
    }

    #[test]
    fn both_forms_of_a_time_are_one() {
        let at = |text| instant(text).unwrap().0;
        assert_eq!(at("1764450000"), 1_764_450_000_000);
        assert_eq!(at("1764450000.25"), 1_764_450_000_250);
        assert_eq!(at("2025-11-29T21:00:00Z"), 1_764_450_000_000);
        assert_eq!(at("2025-11-29T22:00:00+01:00"), 1_764_450_000_000);
        assert_eq!(at("2025-11-29T22:00:00 01:00"), 1_764_450_000_000);
        assert_eq!(at("1900-01-01T00:00:00Z"), 0);
    }

    #[test]
    fn lists_are_split_and_may_be_repeated() {
        let asked = read(&[
            ("statuses", "Attention, recovering,"),
            ("statuses", "waiting"),
            ("reasons", "credential"),
            ("nodes", "n1,n9"),
            ("unheard", "of"),
        ]);
        let values = asked.unwrap().query.values;
        assert_eq!(
            values[&Field::Statuses],
            ["attention", "recovering", "waiting"]
        );
        assert_eq!(values[&Field::Reasons], ["Key rejected"]);
        assert_eq!(values[&Field::Nodes], ["n1", "n9"]);
    }

    #[test]
    fn scores_are_of_the_last_hour_unless_asked_otherwise() {
        let now = WallMs(1_764_450_000_000);
        let asked = ScoresAsked::read(&Pairs::new(Vec::new()), now).unwrap();
        assert_eq!((asked.query.from.0, asked.query.to), (now.0 - HOUR_MS, now));
        assert!(asked.wants(&"n1".into()));
        let late = vec![("from".to_owned(), "1764450001".to_owned())];
        assert!(ScoresAsked::read(&Pairs::new(late), now).is_err());
    }
}
