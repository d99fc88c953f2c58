//! One provider's list: asked where its adapter says, with what proves its calls, read in whichever of the
//! known shapes it comes.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Request, Uri};
use http_body_util::{BodyExt, Limited};
use serde::Deserialize;

use holdline_core::ids::ModelId;

use crate::config::{Key, Provider};
use crate::node::Node;
use crate::pipeline::failed::Judge;
use crate::pipeline::outgoing::introduce;
use crate::pipeline::tokens::Tokens;
use crate::pipeline::upstream::Upstream;
use crate::protocols::Operation;
use crate::providers::{Adapter, Call, NotCallable};

/// What such a request is called.
pub(super) const LIST: &str = "list_models";

/// The largest answer that is read.
const MAX_BYTES: usize = 8 << 20;

/// The most models of a provider, and the longest name, that are kept.
const MAX_MODELS: usize = 5_000;
const MAX_NAME: usize = 256;

/// Asks providers.
pub(super) struct Asker {
    node: Arc<Node>,
    upstream: Arc<Upstream>,
    tokens: Tokens,
}

impl Asker {
    pub(super) fn new(node: Arc<Node>, upstream: Arc<Upstream>) -> Self {
        Self {
            node,
            tokens: Tokens::new(Arc::clone(&upstream)),
            upstream,
        }
    }

    /// The provider's list, if it gives one. Where it gives several, all that it gives.
    pub(super) async fn ask(
        &self,
        provider: &Provider,
        key: Option<&Key>,
    ) -> Option<BTreeSet<ModelId>> {
        let adapter = provider.kind.adapter()?;
        let client = HeaderMap::new();
        let call = Call {
            provider,
            key,
            protocol: *provider.speaks.first()?,
            operation: Operation::Answer,
            stream: false,
            model: "",
            alias: None,
            client: &client,
        };
        let places = match places(adapter, &call) {
            Ok(places) => places,
            Err(error) => {
                tracing::debug!(provider = %provider.id, %error, "the provider cannot be asked for its models");
                return None;
            }
        };
        let mut all: Option<BTreeSet<ModelId>> = None;
        for place in places {
            if let Some(models) = self.ask_at(place, adapter, &call).await {
                all.get_or_insert_default().extend(models);
            }
        }
        all
    }

    async fn ask_at(
        &self,
        place: Uri,
        adapter: &dyn Adapter,
        call: &Call<'_>,
    ) -> Option<BTreeSet<ModelId>> {
        let request = self.request(place, adapter, call).await?;
        let network = &call.provider.network;
        let response = self.upstream.send(network, request).await;
        let response = response.ok()?;
        if !response.status().is_success() {
            let (provider, status) = (&call.provider.id, response.status().as_u16());
            tracing::debug!(%provider, status, "the provider does not list its models");
            return None;
        }
        let body = Limited::new(response.into_body(), MAX_BYTES);
        read(&body.collect().await.ok()?.to_bytes())
    }

    async fn request(
        &self,
        place: Uri,
        adapter: &dyn Adapter,
        call: &Call<'_>,
    ) -> Option<Request<Bytes>> {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = place;
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        introduce(headers, None, &call.provider.network, &[]);
        let mut judge = Judge::of_key(&self.node, call.provider, call.key);
        let proved = self
            .tokens
            .prove(adapter, call, false, &mut judge, &mut request);
        proved.await.ok().map(|()| request)
    }
}

/// Where the provider's configuration says that lists are, else where such providers have them.
fn places(adapter: &dyn Adapter, call: &Call<'_>) -> Result<Vec<Uri>, NotCallable> {
    match call.provider.custom.place(LIST) {
        Some(place) => Ok(vec![place.of_model(call.base(), "")?]),
        None => adapter.lists(call),
    }
}

/// What a provider answers: OpenAI, Anthropic and most others, Gemini and Cohere, Bedrock.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct List {
    data: Option<Vec<Model>>,
    models: Option<Vec<Model>>,
    model_summaries: Option<Vec<Model>>,
    inference_profile_summaries: Option<Vec<Model>>,
}

/// Of its names the one by which it is asked for.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Model {
    id: Option<String>,
    model_id: Option<String>,
    inference_profile_id: Option<String>,
    name: Option<String>,
}

impl Model {
    fn id(self) -> Option<String> {
        let id = self.id.or(self.model_id).or(self.inference_profile_id);
        // Gemini's are resources.
        let name = || {
            let name = self.name?;
            Some(name.strip_prefix("models/").unwrap_or(&name).to_owned())
        };
        id.or_else(name)
    }
}

/// The names in an answer, none where it is no list.
fn read(body: &[u8]) -> Option<BTreeSet<ModelId>> {
    let list: List = serde_json::from_slice(body).ok()?;
    let models = list
        .data
        .or(list.models)
        .or(list.model_summaries)
        .or(list.inference_profile_summaries)?;
    let fits = |id: &str| (1..=MAX_NAME).contains(&id.len()) && !id.chars().any(char::is_control);
    let names: Option<Vec<String>> = models.into_iter().map(Model::id).collect();
    let names = names?.into_iter().filter(|id| fits(id)).take(MAX_MODELS);
    Some(names.map(ModelId::from).collect())
}

#[cfg(test)]
mod tests {
    use holdline_core::replica::Documents;
    use serde_json::{Value, json};

    use super::*;
    use crate::config::{Catalog, Config};

    fn names(body: &Value) -> Vec<String> {
        let read = read(body.to_string().as_bytes()).unwrap();
        read.iter().map(|id| id.as_str().to_owned()).collect()
    }

    #[test]
    fn lists_of_every_shape_are_read_and_bounded() {
        let model = |id: &str| json!({"id": id, "name": "A Name", "object": "model"});
        for (body, expected) in [
            (
                json!({"object": "list", "data": [model("b"), model("a"), model(""), model("x\n")]}),
                ["a", "b"],
            ),
            (
                json!({"data": [{"type": "model", "id": "a"}, model("b")], "has_more": false}),
                ["a", "b"],
            ),
            (
                json!({"models": [{"name": "models/g", "displayName": "G"}, {"name": "models/h"}]}),
                ["g", "h"],
            ),
            (
                json!({"models": [{"name": "command-r", "endpoints": ["chat"]}, {"name": "embed"}]}),
                ["command-r", "embed"],
            ),
            (
                json!({"modelSummaries": [{"modelId": "a.n-v1:0", "modelName": "N"}, {"modelId": "b"}]}),
                ["a.n-v1:0", "b"],
            ),
            (
                json!({"inferenceProfileSummaries": [{"inferenceProfileId": "eu.a", "inferenceProfileName": "N"}, {"inferenceProfileId": "us.a"}]}),
                ["eu.a", "us.a"],
            ),
        ] {
            assert_eq!(names(&body), expected, "{body}");
        }
        for nonsense in ["", "[]", "{}", r#"{"data":{}}"#, r#"{"data":[{"x":"a"}]}"#] {
            assert_eq!(read(nonsense.as_bytes()), None, "{nonsense}");
        }
        let many: Vec<Value> = (0..MAX_MODELS + 9).map(|n| model(&n.to_string())).collect();
        assert_eq!(names(&json!({"data": many})).len(), MAX_MODELS);
    }

    fn asked_at(provider: &str, config: &Value) -> Vec<String> {
        let config = json!({"providers": {provider: config}});
        let loaded = Config::parse(&config.to_string(), &|_| None).unwrap();
        let catalog = Catalog::build_with(&loaded.config, &Documents::default(), &|_| None);
        let provider = catalog.providers.values().next().unwrap();
        let key = provider.keys.first().map(|key| &**key);
        let call = Call {
            provider,
            key,
            protocol: provider.speaks[0],
            operation: Operation::Answer,
            stream: false,
            model: "",
            alias: None,
            client: &HeaderMap::new(),
        };
        let places = places(provider.kind.adapter().unwrap(), &call).unwrap();
        places.iter().map(Uri::to_string).collect()
    }

    #[test]
    fn each_kind_of_provider_is_asked_where_it_lists() {
        let key = json!({"keys": [{"name": "k", "value": "v", "models": ["*"]}]});
        for (provider, expected) in [
            ("openai", "https://api.openai.com/v1/models"),
            ("perplexity", "https://api.perplexity.ai/models"),
            (
                "anthropic",
                "https://api.anthropic.com/v1/models?limit=1000",
            ),
            (
                "gemini",
                "https://generativelanguage.googleapis.com/v1beta/models?pageSize=1000",
            ),
            ("cohere", "https://api.cohere.com/v1/models?page_size=1000"),
        ] {
            assert_eq!(asked_at(provider, &key), [expected]);
        }
        let mut bedrock = key.clone();
        bedrock["keys"][0]["bedrock_key_config"] = json!({"region": "eu-west-1"});
        assert_eq!(
            asked_at("bedrock", &bedrock),
            [
                "https://bedrock.eu-west-1.amazonaws.com/foundation-models?byInferenceType=ON_DEMAND",
                "https://bedrock.eu-west-1.amazonaws.com/inference-profiles?maxResults=1000",
            ]
        );
        bedrock["network_config"] = json!({"base_url": "http://127.0.0.1:81"});
        assert!(
            asked_at("bedrock", &bedrock).is_empty(),
            "that is another service's address"
        );
        let mut own = key;
        own["custom_provider_config"] = json!({"base_provider_type": "gemini",
            "request_path_overrides": {"list_models": "/all"}});
        own["network_config"] = json!({"base_url": "http://127.0.0.1:81"});
        assert_eq!(asked_at("own", &own), ["http://127.0.0.1:81/all"]);
    }
}
