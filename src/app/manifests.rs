//! `barevip manifests`: what a cluster is given, as YAML.
//!
//! The definitions follow from the types. What an operator is to read, with its comments, is
//! written by hand under `deploy/` and carried in the program as it stands there.

use std::io::Write;

use kube::CustomResourceExt;

use crate::io::kubernetes::resources::{Announcer, IngressPool, VirtualRouter};

const POLICIES: &str = include_str!("../../deploy/policies.yaml");
const CONTROLLER: &str = include_str!("../../deploy/controller.yaml");

/// Prints the custom resource definitions, one document each.
///
/// # Errors
/// Where nobody reads.
pub fn print_crds(out: &mut impl Write) -> anyhow::Result<()> {
    for definition in [IngressPool::crd(), VirtualRouter::crd(), Announcer::crd()] {
        writeln!(out, "---\n{}", serde_saphyr::to_string(&definition)?.trim_end())?;
    }
    Ok(())
}

/// Prints the admission policies and their bindings.
///
/// # Errors
/// Where nobody reads.
pub fn print_policies(out: &mut impl Write) -> anyhow::Result<()> {
    print(POLICIES, out)
}

/// Prints the controller, its namespace and its rights.
///
/// # Errors
/// Where nobody reads.
pub fn print_controller(out: &mut impl Write) -> anyhow::Result<()> {
    print(CONTROLLER, out)
}

fn print(text: &str, out: &mut impl Write) -> anyhow::Result<()> {
    Ok(out.write_all(text.as_bytes())?)
}
