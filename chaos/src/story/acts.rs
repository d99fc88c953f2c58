//! The acts of the story. Calls to held keys are counted at the mock, not in the nodes' own records.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::api::Chat;
use crate::demo::{DemoKey, KEYS, MODEL, Stage};
use crate::laws;
use crate::mock::{Call, Fault};
use crate::traffic::Traffic;

/// Of the traffic on each node.
const PERIOD: Duration = Duration::from_millis(50);
/// One propagation time on a machine that does other work too. On a quiet one it is a millisecond.
const PROPAGATION_MS: u64 = 250;
/// How long silence is listened to.
const LISTEN: Duration = Duration::from_secs(2);
/// A hold is in every store of its region by then.
const SAVED_WITHIN: Duration = Duration::from_millis(1_500);
/// The first hold of a refused key, at the earliest: 30 s less jitter.
const FIRST_HOLD_MS: u64 = 27_000;
const SPREAD_LIMIT: Duration = Duration::from_secs(5);
const AGREE_LIMIT: Duration = Duration::from_secs(30);
const START_LIMIT: Duration = Duration::from_secs(60);
const ELECTION_LIMIT: Duration = Duration::from_secs(20);
/// The first hold, or the second (60 s and jitter) where the acts before took longer than that.
const CHECK_LIMIT: Duration = Duration::from_secs(80);

/// One act, one promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Start,
    Serve,
    Spread,
    SameView,
    FinderDies,
    FinderReturns,
    LeaderDies,
    CheckReleases,
    FleetDies,
    OperatorReleases,
}

/// In the order in which they are played.
pub(super) const ORDER: [Act; 10] = [
    Act::Start,
    Act::Serve,
    Act::Spread,
    Act::SameView,
    Act::FinderDies,
    Act::FinderReturns,
    Act::LeaderDies,
    Act::CheckReleases,
    Act::FleetDies,
    Act::OperatorReleases,
];

impl Act {
    pub(super) fn promise(self) -> &'static str {
        match self {
            Self::Start => "the cluster forms itself",
            Self::Serve => "every node serves",
            Self::Spread => "one refusal, and no other node calls the key",
            Self::SameView => "every node shows the same held keys",
            Self::FinderDies => "the hold outlives the node that found out",
            Self::FinderReturns => "a node that returns holds the key before it serves",
            Self::LeaderDies => "a region whose leader dies gets another, and nobody notices",
            Self::CheckReleases => {
                "a key that serves again is found by a check, and free everywhere"
            }
            Self::FleetDies => "a hold survives the whole fleet",
            Self::OperatorReleases => {
                "an operator's release holds everywhere, and survives the whole fleet"
            }
        }
    }
}

/// The stage, and what one act leaves for the next.
pub(super) struct Acts<'a> {
    stage: &'a mut Stage,
    traffic: Option<Traffic>,
    finder: Option<String>,
}

impl<'a> Acts<'a> {
    pub(super) fn new(stage: &'a mut Stage) -> Self {
        Self {
            stage,
            traffic: None,
            finder: None,
        }
    }

    /// Killing the only node, or the leader of a region that has no other, proves nothing.
    pub(super) fn can_play(&self, act: Act) -> bool {
        match act {
            Act::FinderDies | Act::FinderReturns => self.stage.fleet.nodes().len() >= 2,
            Act::LeaderDies => self.large_region().is_some(),
            Act::Start
            | Act::Serve
            | Act::Spread
            | Act::SameView
            | Act::CheckReleases
            | Act::FleetDies
            | Act::OperatorReleases => true,
        }
    }

    pub(super) async fn play(&mut self, act: Act) -> anyhow::Result<String> {
        match act {
            Act::Start => self.start().await,
            Act::Serve => self.serve().await,
            Act::Spread => self.spread().await,
            Act::SameView => self.same_view().await,
            Act::FinderDies => self.finder_dies().await,
            Act::FinderReturns => self.finder_returns().await,
            Act::LeaderDies => self.leader_dies().await,
            Act::CheckReleases => self.check_releases().await,
            Act::FleetDies => self.fleet_dies().await,
            Act::OperatorReleases => self.operator_releases().await,
        }
    }

    async fn start(&mut self) -> anyhow::Result<String> {
        let began = Instant::now();
        self.stage.fleet.start_all(START_LIMIT).await?;
        let ready = began.elapsed();
        self.stage.fleet.wait_agreed(AGREE_LIMIT).await?;
        let (nodes, regions) = (
            self.stage.fleet.nodes().len(),
            self.stage.fleet.regions().len(),
        );
        Ok(format!(
            "{nodes} nodes in {regions} regions ready in {}, agreed in {}",
            s(ready),
            s(began.elapsed())
        ))
    }

    async fn serve(&mut self) -> anyhow::Result<String> {
        let began = Instant::now();
        self.traffic = Some(Traffic::start(self.stage.apis(), MODEL, PERIOD));
        tokio::time::sleep(LISTEN).await;
        let traffic = self.traffic()?;
        let tallies = traffic.tallies();
        let idle = tallies.iter().find(|(_, tally)| tally.served == 0);
        ensure!(idle.is_none(), "{idle:?} served nothing");
        no_failures(traffic, began, &[])?;
        Ok(format!(
            "{} requests, 0 failed",
            tallies.values().map(|tally| tally.served).sum::<u64>()
        ))
    }

    async fn spread(&mut self) -> anyhow::Result<String> {
        let began = Instant::now();
        let key = KEYS[0];
        let refused = self.refuse(key).await?;
        self.finder = Some(refused.caller.clone());
        self.stage.fleet.wait_held(key.key_id, SPREAD_LIMIT).await?;
        tokio::time::sleep(LISTEN).await;
        let calls = self.stage.mock.calls(key.secret, refused.at_ms);
        laws::silence(
            &calls,
            refused.at_ms + PROPAGATION_MS,
            self.stage.mock.now_ms(),
        )?;
        no_failures(self.traffic()?, began, &[])?;
        let others = calls.iter().filter(|call| call.caller != refused.caller);
        let last_ms = others.map(|call| call.at_ms - refused.at_ms).max();
        let last = last_ms.map_or_else(
            || "none at all".to_owned(),
            |ms| format!("the last {ms} ms after"),
        );
        Ok(format!(
            "{} was refused; calls by other nodes: {last}; 0 failed requests",
            refused.caller
        ))
    }

    async fn same_view(&mut self) -> anyhow::Result<String> {
        let views = self.stage.fleet.views().await?;
        laws::tables_are_equal(&views)?;
        let held = views.values().next().map_or(0, Vec::len);
        ensure!(held >= 1, "nothing is held");
        Ok(format!("{held} held on each of {} nodes", views.len()))
    }

    async fn finder_dies(&mut self) -> anyhow::Result<String> {
        let finder = self.finder.clone().context("no node found out")?;
        let before = self.stage.fleet.views().await?;
        let (killed_at, killed_ms) = (Instant::now(), self.stage.mock.now_ms());
        self.stage.fleet.node(&finder)?.kill().await?;
        tokio::time::sleep(LISTEN).await;
        laws::no_hold_is_lost(&before, &self.stage.fleet.views().await?)?;
        let calls = self.stage.mock.calls(KEYS[0].secret, killed_ms);
        laws::silence(&calls, killed_ms, self.stage.mock.now_ms())?;
        no_failures(self.traffic()?, killed_at, &[&finder])?;
        Ok(format!(
            "{finder} killed with SIGKILL; held on the other {}, 0 calls, 0 failed requests",
            before.len() - 1
        ))
    }

    async fn finder_returns(&mut self) -> anyhow::Result<String> {
        let finder = self.finder.clone().context("no node found out")?;
        let from_ms = self.stage.mock.now_ms();
        let node = self.stage.fleet.node(&finder)?;
        node.start()?;
        let took = node.wait_ready(START_LIMIT).await?;
        let held = node.api().held(KEYS[0].key_id).await?;
        ensure!(
            held.is_some(),
            "{finder} is ready and does not hold the key"
        );
        let from = node
            .api()
            .cluster()
            .await?
            .restored
            .map_or_else(|| "nothing".to_owned(), |r| r.from);
        self.stage.fleet.wait_agreed(AGREE_LIMIT).await?;
        let calls = self.stage.mock.calls(KEYS[0].secret, from_ms);
        laws::silence(&calls, from_ms, self.stage.mock.now_ms())?;
        Ok(format!(
            "{finder} ready in {}, its table from {from}, 0 calls",
            s(took)
        ))
    }

    async fn leader_dies(&mut self) -> anyhow::Result<String> {
        let region = self.large_region().context("no region has another node")?;
        let (old, _) = self
            .stage
            .fleet
            .leader(&region, None, ELECTION_LIMIT)
            .await?;
        let killed_at = Instant::now();
        self.stage.fleet.node(&old)?.kill().await?;
        let (new, took) = self
            .stage
            .fleet
            .leader(&region, Some(&old), ELECTION_LIMIT)
            .await?;
        no_failures(self.traffic()?, killed_at, &[&old])?;
        let node = self.stage.fleet.node(&old)?;
        node.start()?;
        node.wait_ready(START_LIMIT).await?;
        self.stage.fleet.wait_agreed(AGREE_LIMIT).await?;
        Ok(format!(
            "{region}: {old} killed, {new} leads after {}, 0 failed requests on other nodes",
            s(took)
        ))
    }

    async fn check_releases(&mut self) -> anyhow::Result<String> {
        let key = KEYS[0];
        let began = Instant::now();
        let from_ms = self.stage.mock.now_ms();
        self.stage.mock.restore(key.secret);
        self.stage
            .fleet
            .wait_released(key.key_id, CHECK_LIMIT)
            .await?;
        let calls = self.stage.mock.calls(key.secret, from_ms);
        let first = calls.first().context("released without a check")?;
        ensure!(
            first.status == 200,
            "the check was answered {}",
            first.status
        );
        no_failures(self.traffic()?, began, &[])?;
        Ok(format!(
            "{} checked after {} and freed it on all",
            first.caller,
            s(began.elapsed())
        ))
    }

    async fn fleet_dies(&mut self) -> anyhow::Result<String> {
        let key = KEYS[1];
        let refused = self.refuse(key).await?;
        self.stage.fleet.wait_held(key.key_id, SPREAD_LIMIT).await?;
        tokio::time::sleep(SAVED_WITHIN).await;
        let took = self.restart_everything().await?;
        let from_ms = self.stage.mock.now_ms();
        self.stage.fleet.wait_held(key.key_id, SPREAD_LIMIT).await?;
        self.traffic = Some(Traffic::start(self.stage.apis(), MODEL, PERIOD));
        tokio::time::sleep(LISTEN).await;
        let to_ms = self.stage.mock.now_ms();
        ensure!(
            to_ms < refused.at_ms + FIRST_HOLD_MS,
            "the restart outlasted the hold: nothing was proved"
        );
        laws::silence(&self.stage.mock.calls(key.secret, from_ms), from_ms, to_ms)?;
        Ok(format!(
            "all killed with SIGKILL, all ready again in {}, 0 calls to the held key",
            s(took)
        ))
    }

    async fn operator_releases(&mut self) -> anyhow::Result<String> {
        let key = KEYS[1];
        self.stage.mock.restore(key.secret);
        let count = self.stage.fleet.nodes()[0]
            .api()
            .release(key.provider, key.key_id)
            .await?;
        ensure!(count == 1, "{count} holds were released instead of 1");
        let spread = self
            .stage
            .fleet
            .wait_released(key.key_id, SPREAD_LIMIT)
            .await?;
        self.restart_everything().await?;
        laws::no_release_is_undone(key.key_id, &self.stage.fleet.views().await?)?;
        let last = self.stage.fleet.nodes().last().context("no node")?;
        let chat = Chat {
            model: MODEL,
            user: last.id(),
            pin: Some(key.key_id),
            stream: false,
        };
        let reply = last.api().chat(chat).await?;
        ensure!(
            reply.status == 200,
            "{} with the released key: {}",
            reply.status,
            reply.text()
        );
        Ok(format!(
            "free on all nodes within {} ms, and after SIGKILL for all",
            spread.as_millis()
        ))
    }

    /// Revokes the key, and waits for the first call that is refused.
    async fn refuse(&self, key: DemoKey) -> anyhow::Result<Call> {
        let from_ms = self.stage.mock.now_ms();
        self.stage.mock.refuse(key.secret, Fault::Revoked);
        let what = format!("a call with {}", key.key_id);
        let refused = crate::poll::until(SPREAD_LIMIT, &what, async || {
            let calls = self.stage.mock.calls(key.secret, from_ms);
            calls
                .into_iter()
                .find(|call| call.status != 200)
                .context("none was refused yet")
        });
        Ok(refused.await?.0)
    }

    /// SIGKILL for all at once, then a start of all. The traffic ends first: its failures would say nothing.
    async fn restart_everything(&mut self) -> anyhow::Result<Duration> {
        self.traffic = None;
        self.stage.fleet.kill_all().await?;
        let began = Instant::now();
        self.stage.fleet.start_all(START_LIMIT).await?;
        Ok(began.elapsed())
    }

    fn traffic(&self) -> anyhow::Result<&Traffic> {
        self.traffic.as_ref().context("there is no traffic")
    }

    /// A region with three nodes or more: there, two are left to agree on a leader.
    fn large_region(&self) -> Option<String> {
        let regions = self.stage.fleet.regions();
        regions
            .into_iter()
            .find(|(_, nodes)| nodes.len() >= 3)
            .map(|(region, _)| region)
    }
}

fn no_failures(traffic: &Traffic, since: Instant, except: &[&str]) -> anyhow::Result<()> {
    let failures = traffic.failures(since, except);
    ensure!(
        failures.is_empty(),
        "{} requests failed, first {}",
        failures.len(),
        failures[0]
    );
    Ok(())
}

fn s(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
