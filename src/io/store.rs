//! The last plan on disk, for an agent that starts while the API server is away.
//!
//! One file, written anew and renamed into place, with a version and a checksum: a file that is
//! torn, of another version or somebody else's is as good as none.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::model::Plan;

/// Of the file's form. Another one is not read.
const VERSION: u32 = 1;
const NAME: &str = "plan.json";

/// Where the last plan is kept.
#[derive(Clone, Debug)]
pub struct Store {
    directory: PathBuf,
}

/// Why there is no remembered plan.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file can't be read.
    #[error("{0} can't be read ({1})")]
    Unreadable(PathBuf, io::Error),
    /// The file makes no sense.
    #[error("{0} is torn or not ours ({1}); it is ignored and written anew")]
    Torn(PathBuf, String),
    /// The file can't be written.
    #[error("{0} can't be written ({1}); name another directory with --state-dir")]
    Unwritable(PathBuf, io::Error),
}

#[derive(Deserialize, Serialize)]
struct Content {
    version: u32,
    /// Of `plan`, to the octet.
    checksum: u64,
    /// The plan as JSON.
    plan: String,
}

impl Store {
    /// A store in this directory, which is made when it is written to first.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// The remembered plan; `None`: nothing was ever remembered.
    ///
    /// # Errors
    /// [`StoreError::Unreadable`], [`StoreError::Torn`].
    pub fn read(&self) -> Result<Option<Plan>, StoreError> {
        let path = self.directory.join(NAME);
        let torn = |what: String| StoreError::Torn(path.clone(), what);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::Unreadable(path, error)),
        };
        let content: Content =
            serde_json::from_str(&text).map_err(|error| torn(error.to_string()))?;
        if content.version != VERSION {
            return Err(torn(format!("version {}, not {VERSION}", content.version)));
        }
        if content.checksum != checksum(&content.plan) {
            return Err(torn("wrong checksum".to_owned()));
        }
        serde_json::from_str(&content.plan).map(Some).map_err(|error| torn(error.to_string()))
    }

    /// Remembers a plan.
    ///
    /// # Errors
    /// [`StoreError::Unwritable`]; what was remembered before still is.
    pub fn write(&self, plan: &Plan) -> Result<(), StoreError> {
        let path = self.directory.join(NAME);
        self.replace(&path, plan).map_err(|error| StoreError::Unwritable(path, error))
    }

    fn replace(&self, path: &Path, plan: &Plan) -> io::Result<()> {
        fs::create_dir_all(&self.directory)?;
        let plan = serde_json::to_string(plan)?;
        let content = Content { version: VERSION, checksum: checksum(&plan), plan };
        let fresh = path.with_extension("new");
        let mut file = File::create(&fresh)?;
        file.write_all(serde_json::to_string(&content)?.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, path)
    }
}

/// Against torn files, not against people. The same in every process of one version of barevip;
/// after an update the file may be ignored once.
fn checksum(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(name: &str) -> Store {
        let directory = std::env::temp_dir().join(format!("barevip-{name}-{}", std::process::id()));
        // What an earlier run with this number left.
        let _left = fs::remove_dir_all(&directory);
        Store::new(&directory)
    }

    #[test]
    fn what_was_written_is_remembered() {
        let store = store("store-remembers");
        assert!(store.read().unwrap().is_none());
        store.write(&Vec::new()).unwrap();
        assert_eq!(store.read().unwrap(), Some(Vec::new()));
        fs::remove_dir_all(&store.directory).unwrap();
    }

    #[test]
    fn a_torn_file_is_none() {
        let store = store("store-torn");
        store.write(&Vec::new()).unwrap();
        let path = store.directory.join(NAME);
        let whole = fs::read_to_string(&path).unwrap();
        let half: String = whole.chars().take(whole.len() / 2).collect();
        for text in [&*half, "", "{}", &whole.replace("[]", "[ ]")] {
            fs::write(&path, text).unwrap();
            assert!(matches!(store.read(), Err(StoreError::Torn(..))), "{text:?}");
        }
        fs::remove_dir_all(&store.directory).unwrap();
    }
}
