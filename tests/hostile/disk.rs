//! A disk that cannot be written: at the start an error, later a degraded node that says so and serves.
//!
//! The disks are small file systems of the node's own mount namespace: they are gone with it. Where the
//! kernel gives this user none, the tests say so and prove nothing.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use holdline_chaos::mock::Fault;
use holdline_chaos::poll;
use http::StatusCode;
use serde_json::Value;
use tokio::process::Command;

use crate::node::{self, LIMIT, Place, names, refused};

/// How this user gets a mount namespace.
#[expect(
    clippy::print_stdout,
    reason = "a test that proves nothing has to say so"
)]
fn namespace() -> Option<Vec<&'static str>> {
    let ways = [
        vec!["unshare", "--mount"],
        vec!["unshare", "--user", "--map-root-user", "--mount"],
    ];
    let found = ways.into_iter().find(|words| {
        let mut command = std::process::Command::new(words[0]);
        let mounts = "mount -t tmpfs -o size=64k tmpfs /mnt";
        command.args(&words[1..]).args(["sh", "-c", mounts]);
        command.output().is_ok_and(|output| output.status.success())
    });
    if found.is_none() {
        println!("skipped: this user cannot mount a file system, not even in a namespace");
    }
    found
}

/// `holdline serve` on a disk that `script` makes of `$0`, the data folder.
fn serve_on(place: &Place, namespace: &[&'static str], script: &str) -> Command {
    fs::create_dir_all(place.data_dir()).unwrap();
    let script = format!("{script} && exec \"$@\"");
    let data_dir = place.data_dir();
    let mut words: Vec<&OsStr> = namespace.iter().map(OsStr::new).collect();
    words.extend([
        OsStr::new("sh"),
        OsStr::new("-c"),
        OsStr::new(&script),
        data_dir.as_os_str(),
    ]);
    place.serve_behind(&words)
}

#[tokio::test]
async fn a_read_only_data_folder_is_named() {
    let Some(namespace) = namespace() else { return };
    let place = Place::new();
    let script = "mount -t tmpfs -o ro tmpfs \"$0\"";
    let line = refused(serve_on(&place, &namespace, script)).await;
    assert!(names(&line, &place.data_dir()), "{line}");
}

#[tokio::test]
async fn a_database_that_became_read_only_is_named() {
    let Some(namespace) = namespace() else { return };
    let place = Place::new();
    let node = place.start(place.serve()).await;
    assert!(crate::signals::stop(node).await.success());
    let script = "mount --bind \"$0\" \"$0\" && mount -o remount,ro,bind \"$0\"";
    let line = refused(serve_on(&place, &namespace, script)).await;
    assert!(names(&line, &place.data_dir()), "{line}");
}

#[tokio::test]
async fn a_disk_that_is_full_at_the_start_is_named() {
    let Some(namespace) = namespace() else { return };
    let place = Place::new();
    let script =
        "mount -t tmpfs -o size=16k tmpfs \"$0\" && { head -c 12k /dev/zero > \"$0/other\"; }";
    let line = refused(serve_on(&place, &namespace, script)).await;
    assert!(names(&line, &place.data_dir()), "{line}");
}

#[tokio::test]
async fn a_disk_that_fills_up_degrades_the_node_which_serves_on() {
    let Some(namespace) = namespace() else { return };
    let mock = node::mock(Duration::ZERO).await;
    let place = Place::new();
    place.write_config(&node::config(&mock).to_string());
    let script = "mount -t tmpfs -o size=4m tmpfs \"$0\"";
    let node = place.start(serve_on(&place, &namespace, script)).await;
    // The node's own view of its data folder.
    let inside = PathBuf::from(format!("/proc/{}/root", node.pid()));
    let folder = inside.join(place.data_dir().strip_prefix("/").unwrap());
    fill(&folder.join("filler"));

    mock.refuse("sk-key-a", Fault::Revoked);
    let held = poll::until(LIMIT, "a hold", async || {
        node.serves().await;
        let held = node.api.held("key-a").await?;
        anyhow::ensure!(held.is_some(), "nobody used the key yet");
        Ok(())
    });
    held.await.unwrap();
    let degraded = poll::until(LIMIT, "a degraded node", async || {
        node.serves().await;
        let (status, body) = ready(&node).await?;
        anyhow::ensure!(status == StatusCode::OK, "{status}");
        anyhow::ensure!(body["status"] == "degraded", "{body}");
        anyhow::ensure!(body["degraded"].to_string().contains("store"), "{body}");
        Ok(())
    });
    degraded.await.unwrap();
    let gauge = node::metric(node.api.url(), "holdline_degraded").await;
    assert!((gauge - 1.0).abs() < f64::EPSILON, "{gauge}");
    // What an operator is told to be done must be durable.
    let release = node.api.release("openai", "key-a").await.unwrap_err();
    assert!(format!("{release:#}").contains("503"), "{release:#}");
    assert!(node.api.held("key-a").await.unwrap().is_some());

    fs::remove_file(folder.join("filler")).unwrap();
    mock.restore("sk-key-a");
    let recovered = poll::until(LIMIT, "a release that is kept", async || {
        node.api.release("openai", "key-a").await
    });
    assert_eq!(recovered.await.unwrap().0, 1);
    node.is_unhurt().await;
}

async fn ready(node: &node::Node) -> anyhow::Result<(StatusCode, Value)> {
    let url = format!("{}/ready", node.api.url());
    let http = holdline_chaos::http::Http::new();
    let reply = http.send(http::Method::GET, &url, &[], None, LIMIT).await?;
    Ok((reply.status, serde_json::from_slice(&reply.body)?))
}

/// Writes until nothing fits any more.
fn fill(path: &std::path::Path) {
    let mut file = fs::File::create(path).unwrap();
    for size in [4096, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
}
