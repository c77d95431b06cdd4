//! Objects of any kind as an installer handles them: applied whole, and deleted.

use std::fmt;

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind, TypeMeta};
use kube::{Api, Client, ResourceExt};

/// Whose writes these are, in `managedFields`.
const FIELD_MANAGER: &str = "barevip-install";

/// What became of an object, or would become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was not there.
    Created,
    /// It was there and said something else.
    Changed,
    /// It was there as it should be.
    Unchanged,
}

/// Applies and deletes objects.
#[derive(Clone)]
pub struct Applier {
    client: Client,
    dry: bool,
}

impl fmt::Debug for Applier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Applier").field("dry", &self.dry).finish_non_exhaustive()
    }
}

impl Applier {
    /// `dry`: it only says what it would do.
    #[must_use]
    pub fn new(client: Client, dry: bool) -> Self {
        Self { client, dry }
    }

    /// Applies an object on the server's side. It has the last word on what it states: somebody
    /// else's values for the same fields go.
    ///
    /// # Errors
    /// What the API server refuses.
    pub async fn apply(&self, object: &DynamicObject) -> kube::Result<Outcome> {
        let (api, name) = (self.api(object)?, object.name_any());
        let before = self.get(object).await?;
        if before.is_none() && self.dry {
            // Its namespace or its definition may not be there either: nobody to ask.
            return Ok(Outcome::Created);
        }
        let params = PatchParams { dry_run: self.dry, ..PatchParams::apply(FIELD_MANAGER).force() };
        let after = api.patch(&name, &params, &Patch::Apply(object)).await?;
        Ok(match before {
            None => Outcome::Created,
            Some(before) if stated(&before) == stated(&after) => Outcome::Unchanged,
            Some(_) => Outcome::Changed,
        })
    }

    /// The object as it is now. Its kind may not be defined (yet).
    ///
    /// # Errors
    /// What the API server refuses.
    pub async fn get(&self, object: &DynamicObject) -> kube::Result<Option<DynamicObject>> {
        match self.api(object)?.get(&object.name_any()).await {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes an object; whether it was there. Its kind may not be defined (any more).
    ///
    /// # Errors
    /// What the API server refuses.
    pub async fn delete(&self, object: &DynamicObject) -> kube::Result<bool> {
        let params = DeleteParams { dry_run: self.dry, ..DeleteParams::background() };
        match self.api(object)?.delete(&object.name_any(), &params).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn api(&self, object: &DynamicObject) -> kube::Result<Api<DynamicObject>> {
        let types = object.types.clone().unwrap_or_default();
        let resource = resource(&types).ok_or_else(|| {
            let text = format!("apiVersion {:?}: no group and version", types.api_version);
            kube::Error::SerdeError(serde::de::Error::custom(text))
        })?;
        Ok(match &object.metadata.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        })
    }
}

/// Where the API server has objects of this kind. The kinds of the manifests all have regular
/// plurals.
fn resource(types: &TypeMeta) -> Option<ApiResource> {
    let gvk = GroupVersionKind::try_from(types.clone()).ok()?;
    Some(ApiResource::from_gvk(&gvk))
}

/// What somebody has stated, without what the API server and controllers keep in it.
fn stated(object: &DynamicObject) -> DynamicObject {
    let mut stated = object.clone();
    let meta = &mut stated.metadata;
    (meta.managed_fields, meta.resource_version, meta.generation) = (None, None, None);
    if let Some(fields) = stated.data.as_object_mut() {
        fields.remove("status");
    }
    stated
}
