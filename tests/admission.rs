//! The admission policies in a real API server: an ordinary user, who may write Services and even
//! their status, tries to take addresses that are not his.
//!
//! | line of the checklist | shown by |
//! | --- | --- |
//! | 33 externalIPs: only the Service's own | `line_33_…` |
//! | 34 protected even if another rule allows it | `line_34_and_35_…` |
//! | 35 reject beats allow; the rest is allowed; index and value are said | `line_34_and_35_…`, `line_35_…`, `line_33_…` |
//! | 36 override by a cluster-wide grant only | `line_36_…` |
//! | 37 what stands unchanged blocks nothing; removal is free | `line_37_…` |
//! | 38 the type can be changed away | `line_38_…`, `line_38_and_39_…` |
//! | 39 the allocator passes, nobody with it | `line_39_…`, `line_38_and_39_…` |
//! | 40 a status is not for users; without the policy the entry decides | `line_40_…` |
//!
//! Kubernetes has no allow rules for externalIPs, and barevip adds none ("no rules = none" of 35
//! was the original's): what no policy refuses is allowed.

#![cfg(test)]

mod support {
    pub(crate) mod accounts;
    pub(crate) mod control_plane;
    pub(crate) mod guarded;
    pub(crate) mod netns {
        pub(crate) mod patience;
    }
    pub(crate) mod printed;
    pub(crate) mod restart;
    pub(crate) mod scratch;
}

mod policies {
    mod agents;
    mod kept;
    mod ranges;
    mod restarts;
    mod takers;
}
