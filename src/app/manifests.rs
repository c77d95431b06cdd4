//! `barevip manifests`: what a cluster is given, as YAML.

use std::io::Write;

use kube::CustomResourceExt;

use crate::io::kubernetes::resources::{Announcer, IngressPool, VirtualRouter};

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
