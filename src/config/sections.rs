//! The blocks of config.json other than providers: cluster, client, admin login, adaptive settings.

use std::fmt;
use std::path::PathBuf;

use super::defaults;
use super::reader::Object;
use super::secret::Secret;

/// `cluster_config`. Flags override it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    /// Take part in a cluster.
    pub enabled: bool,
    /// This node's id; the host name where absent.
    pub node_id: Option<String>,
    /// This node's region.
    pub region: Option<String>,
    /// Gossip seeds `host:port`.
    pub peers: Vec<String>,
    /// UDP.
    pub gossip_port: u16,
    /// TCP.
    pub rpc_port: u16,
    /// What peers dial; the bind host where absent.
    pub advertise_host: Option<String>,
    /// Separates clusters that share a network.
    pub cluster_id: String,
    /// Authenticates and encrypts gossip and RPC.
    pub secret: Option<Secret>,
    /// Still accepted while a new secret rolls out.
    pub previous_secrets: Vec<Secret>,
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            node_id: None,
            region: None,
            peers: Vec::new(),
            gossip_port: defaults::GOSSIP_PORT,
            rpc_port: defaults::RPC_PORT,
            advertise_host: None,
            cluster_id: defaults::CLUSTER_ID.to_owned(),
            secret: None,
            previous_secrets: Vec::new(),
        }
    }
}

/// `client`: how callers are treated, and what is kept of their requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    /// What the data path reads.
    pub rules: ClientRules,
    /// Keep request log records.
    pub enable_logging: bool,
    /// For how long.
    pub log_retention_days: u32,
    /// Origins that browsers may call from, beside loopback.
    pub allowed_origins: Vec<String>,
    /// Headers that pages there may send, beside those that clients commonly do.
    pub allowed_headers: Vec<String>,
    /// `enforce_auth_on_inference`: inference needs a virtual key.
    pub needs_virtual_key: bool,
}

/// What the gateway lets its callers do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRules {
    /// `max_request_body_size_mb`, in bytes: larger bodies get 413.
    pub max_body_bytes: usize,
    /// `allow_direct_keys`: callers may bring their own key with `x-bf-direct-key`.
    pub allow_direct_keys: bool,
    /// `direct_key_scope: "named_provider"`: such a key is used only at a provider that the request named.
    pub direct_keys_need_named_provider: bool,
    /// `moderation_403_holds`: a moderation or guardrail 403 holds the key like another credential refusal.
    pub moderation_403_holds: bool,
    /// `extended_failure_signals`: failures are also read by signals that providers do not document.
    pub extended_failure_signals: bool,
    /// Charged attempts over all legs of a request.
    pub max_attempts_per_request: u32,
    /// Headers that every request must carry, in lower case.
    pub required_headers: Vec<String>,
}

impl Default for ClientRules {
    fn default() -> Self {
        Self {
            max_body_bytes: defaults::MAX_REQUEST_BODY_MB << 20,
            allow_direct_keys: false,
            direct_keys_need_named_provider: false,
            moderation_403_holds: false,
            extended_failure_signals: true,
            max_attempts_per_request: defaults::MAX_ATTEMPTS_PER_REQUEST,
            required_headers: Vec::new(),
        }
    }
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            rules: ClientRules::default(),
            enable_logging: true,
            log_retention_days: defaults::LOG_RETENTION_DAYS,
            allowed_origins: Vec::new(),
            allowed_headers: Vec::new(),
            needs_virtual_key: false,
        }
    }
}

/// `server.tls`: what the node shows to clients that speak TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    /// Certificates, the node's own first, in PEM form.
    pub cert_file: PathBuf,
    /// Its key, in PEM form.
    pub key_file: PathBuf,
}

/// Reads `server`.
pub(crate) fn server(block: &Object<'_, '_>) -> Option<ServerTls> {
    let tls = block.object("tls");
    block.warn_unknown();
    let tls = tls?;
    let file = |field: &'static str| {
        let path = tls.text(field).filter(|path| !path.is_empty());
        if path.is_none() {
            tls.error(field, "is missing: the path of a PEM file");
        }
        path.map(PathBuf::from)
    };
    let (cert_file, key_file) = (file("cert_file"), file("key_file"));
    tls.finish();
    Some(ServerTls {
        cert_file: cert_file?,
        key_file: key_file?,
    })
}

/// Who may use the admin API, where that is restricted at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminAuth {
    /// May do everything.
    pub user: Option<AdminUser>,
    /// May do what their scopes say.
    pub api_keys: Vec<ApiKey>,
}

/// The admin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminUser {
    /// `admin_username`.
    pub name: String,
    /// `admin_password`.
    pub password: Secret,
}

/// A Bearer key for programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// What people call it.
    pub name: String,
    /// What it is recognised by.
    pub value: Secret,
    /// `Resource:Operation`.
    pub scopes: Vec<Scope>,
}

/// One permission; `*` stands for every resource or operation.
#[derive(Clone, PartialEq, Eq)]
pub struct Scope {
    /// `AdaptiveRouter`, `ModelProvider`, `Cluster`, `Logs`, `Metrics`, `Governance`.
    pub resource: String,
    /// `View`, `Create`, `Update`, `Delete`.
    pub operation: String,
}

impl Scope {
    /// Whether it permits this.
    #[must_use]
    pub fn permits(&self, resource: &str, operation: &str) -> bool {
        let covers = |granted: &str, wanted: &str| granted == "*" || granted == wanted;
        covers(&self.resource, resource) && covers(&self.operation, operation)
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.resource, self.operation)
    }
}

/// Resources that scopes name.
pub const RESOURCES: &[&str] = &[
    "AdaptiveRouter",
    "Cluster",
    "Governance",
    "Logs",
    "Metrics",
    "ModelProvider",
];
const OPERATIONS: &[&str] = &["View", "Create", "Update", "Delete"];

/// Reads `cluster_config`.
pub(crate) fn cluster(block: Object<'_, '_>) -> ClusterConfig {
    let default = ClusterConfig::default();
    if block.text("type").is_some_and(|kind| kind != "mesh") {
        block.error("type", "must be \"mesh\": a broker is not supported");
    }
    let gossip = block.object("gossip");
    let gossip_port = gossip.as_ref().and_then(|gossip| gossip.port("port"));
    if let Some(gossip) = gossip {
        gossip.without_effect(&["config"]);
        gossip.finish();
    }
    let rpc_port = ["grpc", "rpc"].into_iter().find_map(|name| {
        let rpc = block.object(name)?;
        let port = rpc.port("port");
        rpc.without_effect(&["dial_timeout_seconds"]);
        rpc.finish();
        port
    });
    let text = |field| {
        block
            .text(field)
            .filter(|t| !t.is_empty())
            .map(str::to_owned)
    };
    let mut peers = block.texts("peers").unwrap_or_default();
    for (n, peer) in peers.iter().enumerate() {
        let port = peer
            .rsplit_once(':')
            .and_then(|(_, port)| port.parse::<u16>().ok());
        if port.is_none() {
            let path = format!("{}[{n}]", block.at("peers"));
            block.reader.error(path, "must be \"host:gossip_port\"");
        }
    }
    peers.extend(discovered(
        &block,
        gossip_port.unwrap_or(default.gossip_port),
    ));
    let previous = block.items("previous_secrets").unwrap_or_default();
    let config = ClusterConfig {
        enabled: block.bool("enabled").unwrap_or(false),
        node_id: text("node_id"),
        region: text("region"),
        peers,
        gossip_port: gossip_port.unwrap_or(default.gossip_port),
        rpc_port: rpc_port.unwrap_or(default.rpc_port),
        advertise_host: text("advertise_host"),
        cluster_id: text("cluster_id").unwrap_or(default.cluster_id),
        secret: block.secret("secret"),
        previous_secrets: previous
            .iter()
            .filter_map(|(path, value)| block.reader.secret(path, value))
            .collect(),
    };
    for (field, name) in [("node_id", &config.node_id), ("region", &config.region)] {
        let wrong = |c: char| c.is_control() || c.is_whitespace() || c == '/';
        if name
            .as_ref()
            .is_some_and(|n| n.len() > 64 || n.contains(wrong))
        {
            block.error(field, "has 64 bytes at most, without spaces and slashes");
        }
    }
    block.without_effect(&["broker"]);
    block.finish();
    config
}

/// Seeds by DNS names; other kinds of discovery are told to be ignored.
fn discovered(block: &Object<'_, '_>, gossip_port: u16) -> Vec<String> {
    let Some(discovery) = block.object("discovery") else {
        return Vec::new();
    };
    let on = discovery.bool("enabled").unwrap_or(true);
    let kind = discovery.text("type").unwrap_or_default();
    let names = discovery.texts("dns_names").unwrap_or_default();
    let port = discovery.port("bind_port").unwrap_or(gossip_port);
    if on && kind != "dns" {
        discovery.warn(
            "type",
            "only \"dns\" is supported: list the other nodes in `peers`",
        );
    }
    discovery.without_effect(&[
        "service_name",
        "dial_timeout",
        "allowed_address_space",
        "k8s_namespace",
        "k8s_label_selector",
        "udp_broadcast_port",
        "consul_address",
        "etcd_endpoints",
        "mdns_service",
    ]);
    discovery.finish();
    let dns = on && kind == "dns";
    names
        .into_iter()
        .filter(|_| dns)
        .map(|name| {
            if name.contains(':') {
                name
            } else {
                format!("{name}:{port}")
            }
        })
        .collect()
}

/// Reads `client`.
pub(crate) fn client(block: Object<'_, '_>) -> ClientConfig {
    let default = ClientConfig::default();
    let config = ClientConfig {
        rules: rules(&block),
        enable_logging: block
            .bool("enable_logging")
            .unwrap_or(default.enable_logging),
        log_retention_days: block
            .small("log_retention_days", 1..=36_500)
            .unwrap_or(default.log_retention_days),
        allowed_origins: block.texts("allowed_origins").unwrap_or_default(),
        allowed_headers: block.texts("allowed_headers").unwrap_or_default(),
        needs_virtual_key: needs_virtual_key(&block),
    };
    block.without_effect(&[
        "drop_excess_requests",
        "prometheus_labels",
        "disable_content_logging",
        "logging_headers",
        "dual_credential_conflict_behavior",
        "whitelisted_routes",
        "header_filter_config",
        "allow_per_request_content_storage_override",
        "allow_per_request_raw_override",
        "dump_errors_in_console_logs",
        "async_job_result_ttl",
        "routing_chain_max_depth",
        "compat",
    ]);
    block.accept(&[
        "initial_pool_size",
        "disable_db_pings_in_health",
        "delete_expired_virtual_keys",
        "hide_deleted_virtual_keys_in_filters",
    ]);
    block.finish();
    config
}

/// The newest of its three names counts.
fn needs_virtual_key(block: &Object<'_, '_>) -> bool {
    let new = block.bool("enforce_auth_on_inference");
    let old = block.bool("enforce_governance_header");
    let older = block.bool("enforce_scim_auth");
    new.or(old).or(older).unwrap_or(false)
}

fn rules(block: &Object<'_, '_>) -> ClientRules {
    let default = ClientRules::default();
    let flag = |field, otherwise| block.bool(field).unwrap_or(otherwise);
    let direct_keys_need_named_provider = match block.text("direct_key_scope") {
        None | Some("first_provider") => false,
        Some("named_provider") => true,
        Some(_) => {
            let message = "must be \"first_provider\" or \"named_provider\"";
            block.error("direct_key_scope", message);
            false
        }
    };
    ClientRules {
        max_body_bytes: block
            .small("max_request_body_size_mb", 1..=4_096)
            .and_then(|mb| usize::try_from(mb).ok())
            .map_or(default.max_body_bytes, |mb| mb << 20),
        allow_direct_keys: flag("allow_direct_keys", default.allow_direct_keys),
        direct_keys_need_named_provider,
        moderation_403_holds: flag("moderation_403_holds", default.moderation_403_holds),
        extended_failure_signals: flag(
            "extended_failure_signals",
            default.extended_failure_signals,
        ),
        max_attempts_per_request: block
            .small("max_attempts_per_request", 1..=100_000)
            .unwrap_or(default.max_attempts_per_request),
        required_headers: block
            .texts("required_headers")
            .unwrap_or_default()
            .iter()
            .map(|name| name.to_ascii_lowercase())
            .collect(),
    }
}

/// Reads `auth_config`. `None` where the admin API is open to whoever may reach it.
pub(crate) fn auth(block: Object<'_, '_>) -> Option<AdminAuth> {
    let name = block.text("admin_username").filter(|name| !name.is_empty());
    let api_keys: Vec<ApiKey> = block
        .items("api_keys")
        .unwrap_or_default()
        .into_iter()
        .filter_map(|(path, value)| api_key(block.reader.object(&path, value)?))
        .collect();
    // Off means off: its password need not resolve then.
    let enabled = block.bool("is_enabled").unwrap_or(true);
    let password = if enabled {
        block.secret("admin_password")
    } else {
        None
    };
    block.accept(&["admin_password", "disable_auth_on_inference"]);
    let user = match (name, password) {
        (Some(name), Some(password)) => Some(AdminUser {
            name: name.to_owned(),
            password,
        }),
        (Some(_), None) if enabled && block.get("admin_password").is_none() => {
            block.error(
                "admin_password",
                "is missing: a login needs both name and password",
            );
            None
        }
        (None, Some(_)) => {
            block.error(
                "admin_username",
                "is missing: a login needs both name and password",
            );
            None
        }
        (Some(_) | None, None) => None,
    };
    let nobody = name.is_none() && block.get("admin_password").is_none();
    if enabled && nobody && block.get("api_keys").is_none() {
        block.error(
            "admin_username",
            "is missing: is_enabled needs a login or api_keys",
        );
    }
    block.finish();
    enabled.then_some(AdminAuth { user, api_keys })
}
fn api_key(block: Object<'_, '_>) -> Option<ApiKey> {
    let name = block.text("name").unwrap_or_default().to_owned();
    let value = block.secret("value");
    if block.get("value").is_none() {
        block.error(
            "value",
            "is missing: give the key, or a reference \"env.NAME\"",
        );
    }
    let texts = block.texts("scopes").unwrap_or_default();
    let mut scopes = Vec::new();
    for (n, text) in texts.iter().enumerate() {
        let path = format!("{}[{n}]", block.at("scopes"));
        let Some((resource, operation)) = text.split_once(':') else {
            block.reader.error(path, "must be \"Resource:Operation\"");
            continue;
        };
        let known = |list: &[&str], name: &str| name == "*" || list.contains(&name);
        if !known(RESOURCES, resource) || !known(OPERATIONS, operation) {
            let message = format!("{text:?} guards nothing in this version");
            block.reader.warn(path, message);
        }
        scopes.push(Scope {
            resource: resource.to_owned(),
            operation: operation.to_owned(),
        });
    }
    if scopes.is_empty() {
        block.warn("scopes", "is empty, so the key may do nothing");
    }
    block.finish();
    Some(ApiKey {
        name,
        value: value?,
        scopes,
    })
}
