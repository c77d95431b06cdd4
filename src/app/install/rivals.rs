//! Other programs that give Services their addresses. Where one is at work, Services that name no
//! class stay its own.

use anyhow::Context;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};

/// Kinds of which one object means that somebody has set the program up.
const SETTINGS: [(&str, &str, &str, &str); 4] = [
    ("MetalLB", "metallb.io", "v1beta1", "IPAddressPool"),
    ("Cilium's LB IPAM", "cilium.io", "v2alpha1", "CiliumLoadBalancerIPPool"),
    ("PureLB", "purelb.io", "v1", "ServiceGroup"),
    ("OpenELB", "network.kubesphere.io", "v1alpha2", "Eip"),
];

/// Parts of the names of their images.
const IMAGES: [(&str, &str); 3] = [
    ("kube-vip", "kube-vip-cloud-provider"),
    ("k3s's ServiceLB", "klipper-lb"),
    ("a cloud's controller", "cloud-controller-manager"),
];

/// The first one that is found.
///
/// # Errors
/// What the API server refuses.
pub(super) async fn find(client: &Client) -> anyhow::Result<Option<&'static str>> {
    let one = ListParams::default().limit(1);
    for (program, group, version, kind) in SETTINGS {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
        match api.list_metadata(&one).await {
            Ok(list) if !list.items.is_empty() => return Ok(Some(program)),
            Ok(_) => {}
            // Its definition is not there.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error).with_context(|| format!("can't look for {program}")),
        }
    }
    let all = ListParams::default();
    let deployments = Api::<Deployment>::all(client.clone()).list(&all).await;
    let deployments = deployments.context("can't list Deployments")?;
    let daemons = Api::<DaemonSet>::all(client.clone()).list(&all).await;
    let daemons = daemons.context("can't list DaemonSets")?;
    let templates = deployments.into_iter().filter_map(|d| d.spec).map(|spec| spec.template);
    let others = daemons.into_iter().filter_map(|d| d.spec).map(|spec| spec.template);
    Ok(templates.chain(others).find_map(|template| program_of(&template)))
}

fn program_of(template: &PodTemplateSpec) -> Option<&'static str> {
    let containers = template.spec.iter().flat_map(|spec| &spec.containers);
    let mut images = containers.filter_map(|container| container.image.as_deref());
    images.find_map(|image| {
        IMAGES.iter().find(|(_, part)| image.contains(part)).map(|(program, _)| *program)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn runs(image: &str) -> Option<&'static str> {
        let spec = json!({"spec": {"containers": [{"name": "a", "image": image}]}});
        program_of(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn a_program_is_known_by_its_image() {
        assert_eq!(runs("ghcr.io/kube-vip/kube-vip-cloud-provider:v0.0.12"), Some("kube-vip"));
        assert_eq!(runs("rancher/klipper-lb:v0.4.9"), Some("k3s's ServiceLB"));
        // kube-vip for the control plane alone gives no Service an address.
        assert_eq!(runs("ghcr.io/kube-vip/kube-vip:v1.0.0"), None);
    }
}
