//! The manifests as objects, fitted to this installation.

use anyhow::Context;
use kube::api::DynamicObject;
use serde_json::Value;

use crate::app::manifests::{NAMESPACE, Part};

/// In what an installation differs from the manifests as they are printed.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The namespace of all that runs.
    pub namespace: String,
    /// The image of agents and controller.
    pub image: String,
    /// When a node pulls it; none: as Kubernetes does by itself.
    pub pull_policy: Option<String>,
    /// Whether Services without a class are served.
    pub default_class: bool,
}

/// The objects of a part, in the order of installation.
///
/// # Errors
/// Where a manifest is no YAML.
pub fn objects(part: Part, fit: &Fit) -> anyhow::Result<Vec<DynamicObject>> {
    // The name stands for nothing else, also in the expressions of the policies.
    let text = part.text()?.replace(NAMESPACE, &fit.namespace);
    let mut objects: Vec<DynamicObject> =
        serde_saphyr::from_multiple(&text).context("a manifest can't be read")?;
    for object in &mut objects {
        let containers = object.data.pointer_mut("/spec/template/spec/containers");
        for container in containers.and_then(Value::as_array_mut).into_iter().flatten() {
            fit_container(container, fit);
        }
    }
    Ok(objects)
}

fn fit_container(container: &mut Value, fit: &Fit) {
    if let Some(fields) = container.as_object_mut() {
        fields.insert("image".to_owned(), fit.image.clone().into());
        if let Some(policy) = &fit.pull_policy {
            fields.insert("imagePullPolicy".to_owned(), policy.clone().into());
        }
    }
    let arguments = container.get_mut("args").and_then(Value::as_array_mut);
    for argument in arguments.into_iter().flatten() {
        if argument.as_str().is_some_and(|text| text.starts_with("--default-class=")) {
            *argument = format!("--default-class={}", fit.default_class).into();
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt;
    use serde_json::json;

    use super::*;

    fn fit() -> Fit {
        Fit {
            namespace: "elsewhere".to_owned(),
            image: "registry.example/barevip:1".to_owned(),
            pull_policy: Some("Always".to_owned()),
            default_class: false,
        }
    }

    #[test]
    fn the_namespace_is_the_one_that_was_asked_for_wherever_it_is_named() {
        let parts = [Part::Crds, Part::Namespace, Part::Policies, Part::Agent, Part::Controller];
        for part in parts {
            let objects = objects(part, &fit()).unwrap();
            assert!(!objects.is_empty());
            let text = serde_json::to_string(&objects).unwrap();
            assert!(!text.contains(NAMESPACE), "{part:?}: {text}");
        }
        let policies = serde_json::to_string(&objects(Part::Policies, &fit()).unwrap()).unwrap();
        assert!(policies.contains("system:serviceaccount:elsewhere:barevip-agent"), "{policies}");
    }

    #[test]
    fn containers_get_the_image_and_the_controller_its_default() {
        for part in [Part::Agent, Part::Controller] {
            let objects = objects(part, &fit()).unwrap();
            let names = ["barevip-agent", "barevip-controller"];
            let workload = objects.iter().rfind(|o| names.contains(&&*o.name_any())).unwrap();
            let container = &workload.data["spec"]["template"]["spec"]["containers"][0];
            assert_eq!(container["image"], "registry.example/barevip:1");
            assert_eq!(container["imagePullPolicy"], "Always");
            if part == Part::Controller {
                let arguments = container["args"].as_array().unwrap();
                assert!(arguments.contains(&json!("--default-class=false")), "{arguments:?}");
            }
        }
    }
}
