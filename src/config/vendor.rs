//! What only some providers' keys have: the `*_key_config` blocks, and what an alias says besides a name.

mod vertex;

use std::sync::Arc;

use http::Uri;
use serde_json::{Map, Value};

use super::network::base_url;
use super::reader::Object;
use super::secret::Secret;
use crate::providers::Kind;
use crate::providers::aws::{self, AwsKeys, Role};
use crate::providers::google::Identity;

/// Used where `bedrock_key_config` names no region.
const AWS_REGION: &str = "us-east-1";

/// A key's own block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Vendor {
    /// None, or one that only names an address.
    #[default]
    None,
    /// `azure_key_config`.
    Azure(AzureKey),
    /// `bedrock_key_config`.
    Bedrock(BedrockKey),
    /// `vertex_key_config`.
    Vertex(VertexKey),
}

/// `azure_key_config`, without its endpoint: that is the key's base URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AzureKey {
    /// `api_version`.
    pub api_version: Option<String>,
    /// Where it is given, the key's own value is not used.
    pub entra: Option<Entra>,
}

/// Credentials of an application in Entra ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entra {
    /// `tenant_id`.
    pub tenant_id: String,
    /// `client_id`.
    pub client_id: String,
    /// `client_secret`.
    pub client_secret: Secret,
    /// `scopes`; empty for the usual one.
    pub scopes: Vec<String>,
    /// `authority_host`, for clouds with another than the public one.
    pub authority: Option<Uri>,
}

/// `bedrock_key_config`. Without keys and role a key's value is an API key of Bedrock; without a value,
/// calls are made as whom the gateway runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BedrockKey {
    /// `region`.
    pub region: String,
    /// `access_key`, `secret_key` and `session_token`.
    pub keys: Option<AwsKeys>,
    /// `role_arn`, `external_id` and `session_name`.
    pub role: Option<Role>,
    /// `arn`: of an inference profile, or of the place where those are that are called like their model.
    pub arn: Option<String>,
}

/// `vertex_key_config`. Without credentials a key's value is an API key of Google Cloud; without a value,
/// calls are made as whom the gateway runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VertexKey {
    /// `project_id`.
    pub project_id: String,
    /// `project_number`, by which tuned models are found.
    pub project_number: Option<String>,
    /// `region`: one, `global`, or one of the large ones `us` and `eu`.
    pub region: String,
    /// `force_single_region`: the region is used as it is, also for models that are only in the large ones.
    pub single_region: bool,
    /// `auth_credentials`.
    pub credentials: Option<Arc<Identity>>,
}

/// What an alias says besides the provider's name for the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alias {
    /// `endpoint`.
    pub endpoint: Option<Uri>,
    /// `api_version`.
    pub api_version: Option<String>,
    /// `region`.
    pub region: Option<String>,
    /// `project_id`.
    pub project_id: Option<String>,
    /// `project_number`.
    pub project_number: Option<String>,
    /// `force_single_region`.
    pub single_region: Option<bool>,
    /// `inference_profile_arn`.
    pub profile_arn: Option<String>,
    /// `model_family`: whose model it is, where its name does not tell.
    pub family: Option<String>,
    /// `anthropic_version`, where the body tells it.
    pub anthropic_version: Option<String>,
}

impl Vendor {
    /// Every secret that a provider could repeat in its words.
    pub fn secrets(&self) -> impl Iterator<Item = &Secret> {
        let (secret, aws, google) = match self {
            Self::None => (None, None, None),
            Self::Azure(azure) => {
                let entra = azure.entra.as_ref();
                (entra.map(|entra| &entra.client_secret), None, None)
            }
            Self::Bedrock(bedrock) => (
                bedrock.role.as_ref().and_then(|r| r.external_id.as_ref()),
                bedrock.keys.as_ref(),
                None,
            ),
            Self::Vertex(vertex) => (None, None, vertex.credentials.as_deref()),
        };
        secret
            .into_iter()
            .chain(aws.into_iter().flat_map(AwsKeys::secrets))
            .chain(google.into_iter().flat_map(Identity::secrets))
    }
}

/// Reads the block of a key that its kind of provider has. `resolved` are the blocks with their
/// references resolved.
pub(super) fn read(key: &Object<'_, '_>, kind: Kind, resolved: &Map<String, Value>) -> Vendor {
    match kind {
        Kind::Azure => azure(key, resolved),
        Kind::Bedrock => {
            let block = key.object("bedrock_key_config");
            let read = |block| bedrock(&block, &resolved["bedrock_key_config"]);
            block.map(read).map_or(Vendor::None, Vendor::Bedrock)
        }
        Kind::Vertex => vertex::read(key, resolved),
        Kind::OpenAi | Kind::Anthropic | Kind::Cohere | Kind::Gemini | Kind::Unspoken => {
            Vendor::None
        }
    }
}

fn azure(key: &Object<'_, '_>, resolved: &Map<String, Value>) -> Vendor {
    let Some(block) = key.object("azure_key_config") else {
        if key.get("value").is_none() {
            key.error("value", "is missing: give the resource's key");
        }
        return Vendor::None;
    };
    let fields = &resolved["azure_key_config"];
    let text = |name: &str| {
        let text = fields.get(name).and_then(Value::as_str);
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let trio = ["tenant_id", "client_id", "client_secret"].map(text);
    let entra = match trio {
        [Some(tenant_id), Some(client_id), Some(client_secret)] => Some(Entra {
            tenant_id,
            client_id,
            client_secret: Secret::from(client_secret),
            scopes: block.texts("scopes").unwrap_or_default(),
            authority: text("authority_host")
                .and_then(|url| base_url(&block, "authority_host", &url, true)),
        }),
        [None, None, None] => None,
        _ => {
            block.error(
                "client_id",
                "needs tenant_id and client_secret beside it: give all three, or none and a key value",
            );
            None
        }
    };
    if entra.is_none() && key.get("value").is_none() {
        let message = "is missing: give the resource's key, or tenant_id, client_id and client_secret in azure_key_config";
        key.error("value", message);
    }
    Vendor::Azure(AzureKey {
        api_version: text("api_version"),
        entra,
    })
}

fn bedrock(block: &Object<'_, '_>, fields: &Value) -> BedrockKey {
    let text = |name: &str| {
        let text = fields.get(name).and_then(Value::as_str);
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let region = text("region").unwrap_or_else(|| {
        block.warn("region", format!("is missing, so {AWS_REGION} is used"));
        AWS_REGION.to_owned()
    });
    if !aws::is_region(&region) {
        block.error("region", "is no name of a region, such as us-east-1");
    }
    let session_token = text("session_token").map(Secret::from);
    let keys = match (text("access_key"), text("secret_key")) {
        (Some(access_key), Some(secret_key)) => Some(AwsKeys {
            access_key: Secret::from(access_key),
            secret_key: Secret::from(secret_key),
            session_token,
        }),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            block.error(
                "access_key",
                "needs secret_key beside it: give both, or none",
            );
            None
        }
    };
    let role = text("role_arn").map(|arn| Role {
        arn,
        external_id: text("external_id").map(Secret::from),
        session_name: text("session_name"),
    });
    block.accept(&["project_id"]);
    block.without_effect(&["batch_s3_config"]);
    BedrockKey {
        region,
        keys,
        role,
        arn: text("arn").map(|arn| arn.trim_end_matches('/').to_owned()),
    }
}

/// The address of a key's own server or resource, where a block names one.
pub(super) fn key_url(key: &Object<'_, '_>, resolved: &Map<String, Value>) -> Option<Uri> {
    let blocks = [
        ("azure_key_config", "endpoint"),
        ("vllm_key_config", "url"),
        ("ollama_key_config", "url"),
        ("sgl_key_config", "url"),
    ];
    blocks.into_iter().find_map(|(name, field)| {
        let block = key.object(name)?;
        let url = resolved.get(name)?.get(field)?.as_str()?;
        // Self-hosted servers live on private networks by nature; whether those are called is decided
        // where they are dialled.
        base_url(&block, field, url, true)
    })
}

/// A secret that is JSON and stands as such: a file of Google's, pasted. As text.
pub(super) fn inline_secret(field: &str, value: &Value) -> Option<String> {
    let is_file = field == "auth_credentials" && value.get("client_id").is_some();
    is_file.then(|| value.to_string())
}

/// Reads what an alias says besides the name.
pub(super) fn alias(aliases: &Object<'_, '_>, name: &str, target: &Value) -> Alias {
    let text = |field: &str| target.get(field).and_then(Value::as_str).map(str::to_owned);
    let region = text("region");
    if region
        .as_deref()
        .is_some_and(|region| !aws::is_region(region))
    {
        aliases.error(name, "has a `region` that is no name of one");
    }
    let project_id = text("project_id");
    if project_id
        .as_deref()
        .is_some_and(|id| !vertex::is_project(id))
    {
        aliases.error(name, "has a `project_id` that is no id of a project");
    }
    Alias {
        endpoint: text("endpoint").and_then(|url| base_url(aliases, name, &url, true)),
        api_version: text("api_version"),
        region,
        project_id,
        project_number: target.get("project_number").and_then(vertex::number),
        single_region: target.get("force_single_region").and_then(Value::as_bool),
        profile_arn: text("inference_profile_arn"),
        family: text("model_family"),
        anthropic_version: text("anthropic_version"),
    }
}
