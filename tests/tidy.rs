//! Checks on the tree itself: which crate may use which, what must be documented.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// What each crate may never depend on, and why.
const FORBIDDEN: &[(&str, &[&str])] = &[
    // Pure: it can run inside a simulator.
    (
        "holdline-core",
        &[
            "tokio",
            "hyper",
            "reqwest",
            "axum",
            "chitchat",
            "openraft",
            "rusqlite",
            "holdline-cluster",
            "holdline",
        ],
    ),
    // Talks to nodes, not to callers, providers or the database.
    ("holdline-cluster", &["axum", "rusqlite", "holdline"]),
    // Sees nodes only as processes and HTTP.
    (
        "holdline-chaos",
        &["holdline", "holdline-core", "holdline-cluster"],
    ),
];

/// Keys that must stand in every clippy.toml, because clippy reads only the nearest one.
const CLIPPY_SHARED: &[&str] = &[
    "allow-unwrap-in-tests = true",
    "allow-print-in-tests = true",
];

#[test]
fn arrows_point_down() {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--offline",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();

    for (krate, forbidden) in FORBIDDEN {
        let package = array(&metadata["packages"]).find(|p| p["name"] == *krate);
        let package = package.unwrap_or_else(|| panic!("no crate {krate}"));
        for dependency in array(&package["dependencies"]).filter(|d| d["kind"].is_null()) {
            let name = dependency["name"].as_str().unwrap();
            assert!(
                !forbidden.contains(&name),
                "{krate} may not depend on {name}"
            );
        }
    }
}

#[test]
fn files_say_what_they_are() {
    for file in rust_files() {
        let text = fs::read_to_string(&file).unwrap();
        assert!(
            text.starts_with("//! "),
            "{} has no module docs",
            file.display()
        );
    }
}

#[test]
fn clippy_configs_agree() {
    for config in ["clippy.toml", "core/clippy.toml", "cluster/clippy.toml"] {
        let text = fs::read_to_string(root().join(config)).unwrap();
        for key in CLIPPY_SHARED {
            assert!(text.contains(key), "{config} lacks `{key}`");
        }
    }
}

fn rust_files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for dir in ["core", "cluster", "chaos", "src", "tests"] {
        collect(&root().join(dir), &mut files);
    }
    files
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().unwrap().iter()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
