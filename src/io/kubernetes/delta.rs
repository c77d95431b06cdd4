//! News of objects of one kind, as a list or a watch tells them, and which of them are news beside
//! our own writes.

use std::collections::BTreeMap;
use std::sync::Arc;

/// One version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen<V> {
    /// What it is found by: the uid of a Service, the name of anything else.
    pub key: Arc<str>,
    /// Higher ones are later.
    pub version: u64,
    /// What it says.
    pub value: V,
}

/// All objects of a kind at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing<V> {
    /// In no order.
    pub objects: Vec<Seen<V>>,
    /// It tells of everything up to this version, whatever object that is of.
    pub version: u64,
    /// It is older than what was known: etcd was restored from a backup, and that time is over.
    pub restored: bool,
}

/// What happened to objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta<V> {
    /// These are all that there are.
    All(Listing<V>),
    /// This one is new or has changed.
    Applied(Seen<V>),
    /// This one is gone since this version.
    Deleted {
        /// What it was found by.
        key: Arc<str>,
        /// Its last version.
        version: u64,
    },
}

/// A watch of these objects failed; it goes on by itself.
#[derive(Clone, Debug)]
pub struct Trouble {
    /// The kind, in the plural.
    pub kind: &'static str,
    /// What went wrong.
    pub error: String,
}

/// Versions of what a map of objects holds. Our own writes are put in ahead of the watch, whose
/// older news must not undo them.
#[derive(Clone, Debug, Default)]
pub struct Versions {
    known: BTreeMap<Arc<str>, u64>,
    /// Last versions of what is gone since the last list: the answer to a write of before may come
    /// later than the news of the deletion.
    gone: BTreeMap<Arc<str>, u64>,
    listed: bool,
}

impl Versions {
    /// Whether everything has been listed once.
    #[must_use]
    pub fn listed(&self) -> bool {
        self.listed
    }

    /// The version held of an object.
    #[must_use]
    pub fn of(&self, key: &str) -> Option<u64> {
        self.known.get(key).copied()
    }

    /// Notes an object's version; false: a later one is held already, or it has gone later.
    fn note(&mut self, key: &Arc<str>, version: u64) -> bool {
        let is_news = self.of(key).is_none_or(|held| held <= version)
            && self.gone.get(key).is_none_or(|gone| *gone < version);
        if is_news {
            self.known.insert(Arc::clone(key), version);
        }
        is_news
    }

    /// Notes what a delta tells and hands on what is news: an object's new value, or `None` where
    /// it is gone. What a list shows is so, and what it does not show is gone, but for what we have
    /// written since the list was made.
    pub fn take<V>(&mut self, delta: Delta<V>, mut news: impl FnMut(Arc<str>, Option<V>)) {
        match delta {
            Delta::All(all) => {
                let before = std::mem::take(&mut self.known);
                let is_later = |held: &u64| !all.restored && *held > all.version;
                for Seen { key, version, value } in all.objects {
                    let later = before.get(&key).copied().filter(is_later);
                    self.known.insert(Arc::clone(&key), later.unwrap_or(version));
                    if later.is_none() {
                        news(key, Some(value));
                    }
                }
                for (key, held) in before {
                    if self.known.contains_key(&key) {
                        continue;
                    }
                    if is_later(&held) {
                        self.known.insert(key, held);
                    } else {
                        news(key, None);
                    }
                }
                self.gone.clear();
                self.listed = true;
            }
            Delta::Applied(Seen { key, version, value }) => {
                if self.note(&key, version) {
                    news(key, Some(value));
                }
            }
            Delta::Deleted { key, version } => {
                if self.of(&key).is_some_and(|held| held <= version) {
                    self.known.remove(&key);
                    self.gone.insert(Arc::clone(&key), version);
                    news(key, None);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(key: &str, version: u64) -> Seen<u64> {
        Seen { key: key.into(), version, value: version }
    }

    /// A list of this version.
    fn all(version: u64, objects: Vec<Seen<u64>>) -> Delta<u64> {
        Delta::All(Listing { objects, version, restored: false })
    }

    fn take(versions: &mut Versions, held: &mut BTreeMap<Arc<str>, u64>, delta: Delta<u64>) {
        versions.take(delta, |key, value| match value {
            Some(value) => drop(held.insert(key, value)),
            None => drop(held.remove(&key)),
        });
    }

    #[test]
    fn older_news_does_not_undo_what_was_written() {
        let (mut versions, mut held) = (Versions::default(), BTreeMap::new());
        take(&mut versions, &mut held, all(6, vec![seen("a", 5), seen("b", 6)]));
        take(&mut versions, &mut held, Delta::Applied(seen("a", 9)));
        take(&mut versions, &mut held, Delta::Applied(seen("a", 7)));
        take(&mut versions, &mut held, Delta::Deleted { key: "a".into(), version: 8 });
        assert_eq!(held.get("a"), Some(&9));
        take(&mut versions, &mut held, all(8, vec![seen("a", 7)]));
        assert_eq!(held, BTreeMap::from([("a".into(), 9)]), "b is gone, a stays as written");
        take(&mut versions, &mut held, Delta::Deleted { key: "a".into(), version: 10 });
        assert!(held.is_empty() && versions.listed());
    }

    #[test]
    fn the_late_answer_to_a_write_does_not_bring_back_what_was_deleted() {
        let (mut versions, mut held) = (Versions::default(), BTreeMap::new());
        take(&mut versions, &mut held, all(5, vec![seen("a", 5)]));
        take(&mut versions, &mut held, Delta::Deleted { key: "a".into(), version: 8 });
        take(&mut versions, &mut held, Delta::Applied(seen("a", 7)));
        assert!(held.is_empty());
        take(&mut versions, &mut held, Delta::Applied(seen("a", 9)));
        assert_eq!(held, BTreeMap::from([("a".into(), 9)]), "one of the same name was made");
    }

    #[test]
    fn what_was_written_after_the_list_was_made_stays() {
        let (mut versions, mut held) = (Versions::default(), BTreeMap::new());
        take(&mut versions, &mut held, Delta::Applied(seen("made", 9)));
        take(&mut versions, &mut held, Delta::Applied(seen("edited", 8)));
        take(&mut versions, &mut held, all(7, vec![seen("edited", 3)]));
        assert_eq!(held, BTreeMap::from([("made".into(), 9), ("edited".into(), 8)]));
        take(&mut versions, &mut held, all(9, vec![seen("edited", 8)]));
        assert_eq!(held, BTreeMap::from([("edited".into(), 8)]));
    }

    #[test]
    fn a_list_shows_what_is_even_where_later_versions_were_known() {
        let (mut versions, mut held) = (Versions::default(), BTreeMap::new());
        take(&mut versions, &mut held, all(90, vec![seen("a", 80), seen("b", 90)]));
        let objects = vec![seen("a", 10)];
        let restored = Delta::All(Listing { objects, version: 12, restored: true });
        take(&mut versions, &mut held, restored);
        assert_eq!(held, BTreeMap::from([("a".into(), 10)]), "of the backup");
        take(&mut versions, &mut held, Delta::Applied(seen("a", 13)));
        assert_eq!(held, BTreeMap::from([("a".into(), 13)]), "written since");

        // Restored, and so much was written since that the numbers are higher than before.
        let (mut versions, mut held) = (Versions::default(), BTreeMap::new());
        take(&mut versions, &mut held, all(90, vec![seen("a", 80)]));
        take(&mut versions, &mut held, all(95, vec![seen("a", 10)]));
        assert_eq!(held, BTreeMap::from([("a".into(), 10)]));
    }
}
