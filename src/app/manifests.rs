//! `barevip manifests`: what a cluster is given, as YAML.
//!
//! The definitions follow from the types. What an operator is to read, with its comments, is
//! written by hand under `deploy/` and carried in the program as it stands there.

use std::io::Write;

use anyhow::Context;
use kube::CustomResourceExt;

use crate::io::kubernetes::resources::{Announcer, IngressPool, VirtualRouter};

/// The namespace that the manifests are written for.
pub const NAMESPACE: &str = "barevip-system";

/// A part of the manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The custom resource definitions.
    Crds,
    /// The namespace of all that runs.
    Namespace,
    /// The admission policies and their bindings.
    Policies,
    /// The agents and their rights.
    Agent,
    /// The controller and its rights.
    Controller,
}

impl Part {
    /// The manifests of this part: YAML documents, each with its separator.
    ///
    /// # Errors
    /// Where a definition can't be written as YAML.
    pub fn text(self) -> anyhow::Result<String> {
        let text = match self {
            Self::Crds => return definitions(),
            Self::Namespace => include_str!("../../deploy/namespace.yaml"),
            Self::Policies => include_str!("../../deploy/policies.yaml"),
            Self::Agent => include_str!("../../deploy/agent.yaml"),
            Self::Controller => include_str!("../../deploy/controller.yaml"),
        };
        Ok(text.to_owned())
    }
}

fn definitions() -> anyhow::Result<String> {
    let definitions = [IngressPool::crd(), VirtualRouter::crd(), Announcer::crd()];
    let texts = definitions.iter().map(|definition| {
        let text = serde_saphyr::to_string(definition)
            .context("a custom resource definition can't be written as YAML")?;
        Ok(format!("---\n{}\n", text.trim_end()))
    });
    texts.collect()
}

/// Prints a part.
///
/// # Errors
/// Where nobody reads.
pub fn print(part: Part, out: &mut impl Write) -> anyhow::Result<()> {
    Ok(out.write_all(part.text()?.as_bytes())?)
}
