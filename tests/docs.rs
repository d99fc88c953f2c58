//! What the documents promise about the tree: commands, links and examples are really there.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use holdline::config::Config;

/// Documents for people; every one of them is checked.
const DOCUMENTS: [&str; 10] = [
    "README.md",
    "CONTRIBUTING.md",
    "ARCHITECTURE.md",
    "docs/adaptive-routing.md",
    "docs/operating.md",
    "docs/configuration.md",
    "docs/api.md",
    "docs/protocols.md",
    "docs/pairs.md",
    "docs/health.md",
];

#[test]
fn every_make_target_that_is_named_exists() {
    let makefile = read("Makefile");
    let rules = makefile.lines().filter_map(|line| line.split_once(':'));
    let targets: BTreeSet<&str> = rules.map(|(target, _)| target).collect();
    for document in DOCUMENTS {
        let text = read(document);
        let inline = text.split("`make ").skip(1);
        let in_blocks = text.split("\nmake ").skip(1);
        for rest in inline.chain(in_blocks) {
            let target = rest
                .split(|c: char| c.is_whitespace() || c == '`')
                .next()
                .unwrap();
            assert!(targets.contains(target), "{document} names `make {target}`");
        }
    }
}

#[test]
fn every_link_leads_somewhere() {
    for document in DOCUMENTS {
        let text = read(document);
        let folder = path(document).parent().unwrap().to_owned();
        for link in text
            .split("](")
            .skip(1)
            .map(|rest| rest.split(')').next().unwrap())
        {
            let file = link.split('#').next().unwrap();
            if !file.contains("://") && !file.is_empty() {
                assert!(folder.join(file).exists(), "{document} links to {link}");
            }
        }
    }
}

#[test]
fn every_field_that_is_read_is_documented() {
    let documented = read("docs/configuration.md");
    for file in ["sections", "network", "key", "vendor", "adaptive", "file"] {
        let source = read(&format!("src/config/{file}.rs"));
        let reads = [
            "bool",
            "text",
            "texts",
            "small",
            "integer",
            "port",
            "duration_ms",
            "secret",
        ];
        for read in reads {
            let call = format!(".{read}(\"");
            for rest in source.split(call.as_str()).skip(1) {
                let field = rest.split('"').next().unwrap();
                assert!(
                    documented.contains(field),
                    "docs/configuration.md lacks {field}, which src/config/{file}.rs reads"
                );
            }
        }
    }
}

#[test]
fn every_config_that_is_shown_or_shipped_loads_without_a_warning() {
    let mut configs: Vec<(&str, String)> = Vec::new();
    for document in DOCUMENTS {
        configs.extend(
            examples(&read(document), "json")
                .into_iter()
                .map(|text| (document, text)),
        );
    }
    assert!(!configs.is_empty(), "the README shows a config");
    configs.push(("docker/cluster.json", read("docker/cluster.json")));
    let demo = holdline_chaos::demo::config_file("http://127.0.0.1:9100");
    configs.push(("holdline demo", demo.to_string()));
    for (name, text) in configs {
        let loaded = Config::parse(&text, &|_| Some("a-value".to_owned()));
        let loaded = loaded.unwrap_or_else(|errors| panic!("{name}: {errors}"));
        assert!(loaded.warnings.is_empty(), "{name}: {:?}", loaded.warnings);
    }
}

/// The fenced blocks of this language.
fn examples(text: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let blocks = text.split(fence.as_str()).skip(1);
    blocks
        .map(|rest| rest.split("```").next().unwrap().to_owned())
        .collect()
}

fn read(file: &str) -> String {
    fs::read_to_string(path(file)).unwrap()
}

fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}
