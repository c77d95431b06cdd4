//! None or one, and seldom more: addresses of a Service, holders of an address.

use std::mem;
use std::ops::{Deref, DerefMut};

/// A list that needs no memory of its own while it has at most one item.
#[derive(Clone, Debug, Default)]
pub(super) enum Few<T> {
    #[default]
    None,
    One(T),
    Several(Vec<T>),
}

impl<T> Few<T> {
    pub(super) fn push(&mut self, item: T) {
        *self = match mem::take(self) {
            Self::None => Self::One(item),
            Self::One(first) => Self::Several(vec![first, item]),
            Self::Several(mut all) => {
                all.push(item);
                Self::Several(all)
            }
        };
    }

    pub(super) fn retain(&mut self, mut stays: impl FnMut(&T) -> bool) {
        match self {
            Self::None => {}
            Self::One(item) => {
                if !stays(item) {
                    *self = Self::None;
                }
            }
            Self::Several(all) => all.retain(stays),
        }
    }
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut few = Self::None;
        items.into_iter().for_each(|item| few.push(item));
        few
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::None => &[],
            Self::One(item) => std::slice::from_ref(item),
            Self::Several(all) => all,
        }
    }
}

impl<T> DerefMut for Few<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Self::None => &mut [],
            Self::One(item) => std::slice::from_mut(item),
            Self::Several(all) => all,
        }
    }
}
