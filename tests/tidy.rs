//! Checks on the tree itself: which crate may use which, what must be documented, how long a file may be.

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
            "holdline-chaos",
            "holdline",
        ],
    ),
    // Talks to nodes, not to callers, providers or the database.
    (
        "holdline-cluster",
        &[
            "axum",
            "hyper",
            "reqwest",
            "rusqlite",
            "holdline-chaos",
            "holdline",
        ],
    ),
    // Sees nodes only as processes and HTTP.
    (
        "holdline-chaos",
        &["holdline", "holdline-core", "holdline-cluster"],
    ),
    // Only the cluster crate gossips and elects.
    ("holdline", &["chitchat", "openraft", "bincode"]),
];

/// Keys that must stand in every clippy.toml, because clippy reads only the nearest one.
const CLIPPY_SHARED: &[&str] = &[
    "allow-unwrap-in-tests = true",
    "allow-print-in-tests = true",
    "too-many-lines-threshold = 70",
    "excessive-nesting-threshold = 6",
];

/// Longer files have more than one idea.
const LONGEST_FILE_LINES: usize = 600;

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
fn files_have_one_idea() {
    for file in rust_files() {
        let lines = fs::read_to_string(&file).unwrap().lines().count();
        assert!(
            lines <= LONGEST_FILE_LINES,
            "{} has {lines} lines",
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

/// Health is each node's own: it cannot be written down, and the crate that talks to other nodes may not
/// name it.
#[test]
fn health_cannot_leave_its_node() {
    let banned = fs::read_to_string(root().join("cluster/clippy.toml")).unwrap();
    let mut files = Vec::new();
    collect(&root().join("core/src/health"), &mut files);
    let exported = fs::read_to_string(root().join("core/src/health/mod.rs")).unwrap();
    let mut types = 0;
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let at = file.display();
        assert!(
            !text.contains(concat!("ser", "de")) && !text.contains(concat!("Serial", "ize")),
            "{at} speaks of serialization"
        );
        for line in text.lines() {
            let Some(rest) = line
                .strip_prefix("pub struct ")
                .or(line.strip_prefix("pub enum "))
            else {
                continue;
            };
            let name = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap();
            if exported.contains(name) {
                let ban = format!("\"holdline_core::health::{name}\"");
                assert!(banned.contains(&ban), "cluster/clippy.toml lacks {ban}");
                types += 1;
            }
        }
    }
    assert!(types > 5, "no types of health were found");
}

#[test]
fn sql_stands_in_the_store_only() {
    for file in rust_files() {
        let inside = file.strip_prefix(root()).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        let speaks = text.contains(concat!("use ", "rusqlite"));
        assert!(
            !speaks || inside.starts_with("src/store"),
            "{} speaks SQL",
            inside.display()
        );
    }
}

#[test]
fn every_path_is_documented() {
    let paths = fs::read_to_string(root().join("src/api/paths.rs")).unwrap();
    let documented = fs::read_to_string(root().join("docs/api.md")).unwrap();
    let literals = paths
        .lines()
        .filter_map(|line| line.split_once("&str = \"")?.1.split('"').next());
    let mut seen = 0;
    for path in literals.filter(|p| p.len() > 1 && *p != "/api/") {
        assert!(
            documented.contains(path),
            "docs/api.md does not mention {path}"
        );
        seen += 1;
    }
    assert!(seen > 5, "no paths found in src/api/paths.rs");
}

#[test]
fn every_make_target_in_the_readme_exists() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let mut seen = 0;
    for named in readme.split("make ").skip(1) {
        let target: String = named
            .chars()
            .take_while(|c| c.is_ascii_lowercase() || *c == '-')
            .collect();
        let in_code = named.starts_with(&target)
            && named[target.len()..].starts_with(['`', '\n', ' '])
            && readme.contains(&format!("`make {target}"));
        if in_code && !target.is_empty() {
            assert!(
                makefile
                    .lines()
                    .any(|line| line.starts_with(&format!("{target}:"))),
                "README names `make {target}`, which the Makefile lacks"
            );
            seen += 1;
        }
    }
    assert!(seen > 1, "README names no make target");
}

#[test]
fn every_failure_class_has_a_recorded_answer() {
    let rows = fs::read_to_string(root().join("tests/fixtures/provider-errors.jsonl")).unwrap();
    // These come from our own clock and callers, never from a provider's answer.
    let own = ["timeout", "cancelled"];
    for class in holdline_core::failure::FailureClass::ALL {
        let mark = format!("\"{}\"", class.as_str());
        assert!(
            own.contains(&class.as_str()) || rows.contains(&mark),
            "no recorded answer is {mark}"
        );
    }
}

fn rust_files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for dir in ["core", "cluster", "chaos", "src", "tests", "benches"] {
        collect(&root().join(dir), &mut files);
    }
    assert!(files.len() > 50, "the tree was not found");
    files
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for entry in entries {
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
