//! The custom resources of `barevip.io/v1alpha1` as the API server stores them. What they mean is
//! the model's and the engines' business: [`super::reading`] and [`super::write`] translate.

mod announcer;
mod ingress_pool;
mod virtual_router;

pub use self::announcer::{
    ActiveRouter, Announcer, AnnouncerSpec, AnnouncerStatus, ForeignVrid, UsableLink,
};
pub use self::ingress_pool::{
    AnnounceSpec, IngressPool, IngressPoolSpec, IngressPoolStatus, PinnedAddress, RequestsBy,
    SharedBy, VridRange,
};
pub use self::virtual_router::{
    AddressEntry, AddressHolder, AddressRelease, CandidateNode, GuestEntry, GuestState, IpFamily,
    VirtualRouter, VirtualRouterSpec, VirtualRouterStatus,
};

/// The API group of all of them.
pub const GROUP: &str = "barevip.io";
/// Whose writes these are, in `managedFields`.
pub const FIELD_MANAGER: &str = "barevip-controller";
/// The class of Services that are ours whatever the default is.
pub const LOAD_BALANCER_CLASS: &str = "barevip.io/vip";
/// The Service condition that says whether it has its addresses.
pub const ALLOCATED: &str = "barevip.io/Allocated";
/// The Service annotation that asks for addresses.
pub const ADDRESSES: &str = "barevip.io/addresses";
/// The Service annotation that asks for a pool.
pub const POOL: &str = "barevip.io/pool";
/// The Service annotation whose equal value allows to share an address.
pub const SHARE: &str = "barevip.io/share";
/// The `VirtualRouter` annotation that asks to be served by the node that it names. The controller
/// removes it when that is done, or can't be.
pub const MOVE_TO: &str = "barevip.io/move-to";
/// The Node annotation that asks to hand everything over.
pub const DRAIN: &str = "barevip.io/drain";
