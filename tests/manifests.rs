//! The committed manifests are what the program prints.

#![cfg(test)]

use std::path::Path;
use std::process::Command;

#[test]
fn custom_resource_definitions_under_deploy_are_the_generated_ones() {
    let generated = Command::new(env!("CARGO_BIN_EXE_barevip")).arg("manifests").output().unwrap();
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/crds.yaml");
    assert_eq!(
        std::fs::read_to_string(committed).unwrap(),
        String::from_utf8(generated.stdout).unwrap(),
        "renew it: cargo run -- manifests > deploy/crds.yaml"
    );
}
