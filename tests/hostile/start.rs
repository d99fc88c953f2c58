//! What keeps a node from starting: each ends it with exit code 1 and words that say what to change.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};

use serde_json::json;

use crate::node::{Place, ended, names, program, refused};

const SECRET: &str = "sk-never-shown-0123456789";

fn bad_config() -> String {
    json!({
        "client": { "max_request_body_size_mb": "a lot" },
        "providers": {
            "openai": {
                "keys": [
                    { "name": "a", "value": SECRET, "weight": "heavy" },
                    { "name": "a", "value": SECRET },
                ],
                "network_config": { "max_retries": -1 },
            },
        },
        "cluster_config": { "gossip": { "port": 70_000 } },
    })
    .to_string()
}

#[tokio::test]
async fn every_mistake_of_a_config_is_named_by_its_path() {
    let place = Place::new();
    place.write_config(&bad_config());
    let mut check = program(&[]);
    check.arg("check-config").arg(place.path("config.json"));
    for command in [place.serve(), check] {
        let output = ended(command).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        for path in [
            "client.max_request_body_size_mb",
            "providers.openai.keys[0].weight",
            "providers.openai.keys[1]",
            "providers.openai.network_config.max_retries",
            "cluster_config.gossip.port",
        ] {
            assert!(said.contains(path), "{path} is not in:\n{said}");
        }
        assert!(
            !said.contains(SECRET) && !said.contains("panicked"),
            "{said}"
        );
    }
}

#[tokio::test]
async fn a_config_that_is_no_json_or_is_not_there_is_refused() {
    let place = Place::new();
    place.write_config("{ \"providers\": ");
    assert!(refused(place.serve()).await.contains("JSON"));

    let elsewhere = Place::new();
    let mut command = elsewhere.serve();
    command.args(["--config", "no-such-file.json"]);
    assert!(refused(command).await.contains("no-such-file.json"));
}

#[tokio::test]
async fn a_config_nested_without_end_is_refused() {
    let place = Place::new();
    place.write_config(&"{\"a\":".repeat(100_000));
    assert!(refused(place.serve()).await.contains("JSON"));
}

#[tokio::test]
async fn a_taken_port_is_named_in_one_line() {
    let place = Place::new();
    let (http, gossip, rpc) = (place.ports.http, place.ports.gossip, place.ports.rpc);
    let clustered = || {
        let mut command = place.serve();
        command.args(["--peers", "127.0.0.1:1"]);
        command
    };
    for port in [http, rpc] {
        let _other = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        let line = refused(clustered()).await;
        assert!(line.contains(&port.to_string()), "{line}");
    }
    let _other = UdpSocket::bind((Ipv4Addr::LOCALHOST, gossip)).unwrap();
    let line = refused(clustered()).await;
    assert!(line.contains(&gossip.to_string()), "{line}");
}

#[tokio::test]
async fn beyond_loopback_a_cluster_needs_a_secret() {
    let place = Place::new();
    let mut command = place.serve();
    command.args(["--host", "0.0.0.0", "--advertise-host", "127.0.0.1"]);
    command.args(["--peers", "127.0.0.1:1"]);
    assert!(refused(command).await.contains("secret"));
}

#[tokio::test]
async fn wrong_usage_is_told_from_failure() {
    let mut command = program(&[]);
    command.args(["serve", "--port", "a-port"]);
    let output = ended(command).await;
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--port"));
}

#[tokio::test]
async fn a_damaged_database_is_named_and_left_as_it_was() {
    let place = Place::new();
    fs::create_dir(place.data_dir()).unwrap();
    let file = place.data_dir().join("holdline.sqlite");
    for content in [
        vec![0x5a; 8192],
        b"SQLite format 3\0 and then nothing like it".repeat(200),
    ] {
        fs::write(&file, &content).unwrap();
        let line = refused(place.serve()).await;
        assert!(names(&line, &file) && line.contains("damaged"), "{line}");
        assert_eq!(fs::read(&file).unwrap(), content);
    }
}

#[tokio::test]
async fn a_database_with_a_broken_page_is_named() {
    let place = Place::new();
    let node = place.start(place.serve()).await;
    assert!(crate::signals::stop(node).await.success());
    let file = place.data_dir().join("holdline.sqlite");
    let mut content = fs::read(&file).unwrap();
    assert!(content.len() > 3 * 4096, "{} bytes", content.len());
    // The head stays: only a look at the pages can tell.
    content[4096..3 * 4096].fill(0xff);
    fs::write(&file, &content).unwrap();
    let line = refused(place.serve()).await;
    assert!(names(&line, &file), "{line}");
}

#[tokio::test]
async fn a_data_folder_that_is_a_file_is_refused() {
    let place = Place::new();
    fs::write(place.data_dir(), "not a folder").unwrap();
    let line = refused(place.serve()).await;
    assert!(
        names(&line, &place.data_dir()) && line.contains("--data-dir"),
        "{line}"
    );
}

#[tokio::test]
async fn two_nodes_never_share_a_data_folder() {
    let (place, other) = (Place::new(), Place::new());
    let node = place.start(place.serve()).await;
    let mut second = program(&[]);
    second.arg("serve").arg("--data-dir").arg(place.data_dir());
    second.args(["--port", &other.ports.http.to_string()]);
    let line = refused(second).await;
    assert!(line.contains("used by another"), "{line}");
    node.api.ready().await.unwrap();
}
