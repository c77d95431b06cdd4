//! What holds after every row of the race table:
//!
//! * I1: no two Services show one address;
//! * I2: every Service of type LoadBalancer has one, and no other has;
//! * I3: claims and publications are the same;
//! * I4: a further look at everything makes no write.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::support::api_proxy::Asked;
use crate::support::live::{Controller, Live, addresses};
use crate::support::netns::patience::{unless, until};

const PAUSE: Duration = Duration::from_millis(100);

/// I1 and I3: every address that is shown is claimed by exactly the Service that shows it, and
/// every claim is shown. Says what differs.
pub(crate) fn difference(live: &Live) -> Result<(), String> {
    let mut shown: BTreeMap<IpAddr, Vec<String>> = BTreeMap::new();
    for service in live.services().into_values() {
        for address in addresses(&service) {
            shown.entry(address).or_default().push(service.metadata.uid.clone().unwrap());
        }
    }
    if let Some((address, by)) = shown.iter().find(|(_, by)| by.len() > 1) {
        return Err(format!("{address} is shown by {by:?}"));
    }
    let held = live.held();
    if shown == held { Ok(()) } else { Err(format!("shown {shown:?}\nheld {held:?}")) }
}

/// I2.
pub(crate) fn lack(live: &Live) -> Result<(), String> {
    let all = live.services().into_iter();
    let wrong: Vec<_> = all
        .filter(|(_, service)| {
            let kind = service.spec.as_ref().and_then(|spec| spec.type_.as_deref());
            (kind == Some("LoadBalancer")) == addresses(service).is_empty()
        })
        .map(|(name, service)| (name, service.status))
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(format!("too few or too many: {wrong:?}")) }
}

/// I1, I2 and I3 hold in a while.
pub(crate) fn until_agree(live: &Live) {
    until("claims, publications and wishes agree", || {
        let seen = lack(live).and_then(|()| difference(live));
        if seen.is_err() {
            // A look is two lists: those who are to be looked at need the processor too.
            std::thread::park_timeout(PAUSE);
        }
        seen
    });
}

/// The pool's status counts so many free addresses, in a while.
pub(crate) fn until_free(live: &Live, pool: &str, free: usize) {
    let status = || live.pool_status(pool);
    until(&format!("{free} are free"), || unless(status().free == free.to_string(), status));
}

/// I4: one more Service makes the leader decide about everything. Returns what it wrote from
/// `mark` until that Service had its address, without what that Service needed.
pub(crate) fn needless_writes(live: &Live, leader: &Controller, mark: usize) -> Vec<Asked> {
    live.expose("sentinel");
    live.until_address("sentinel");
    leader.proxy.until_answered();
    let mut writes = leader.proxy.writes_since(mark);
    let mut spare = |is: fn(&Asked) -> bool| {
        if let Some(place) = writes.iter().position(is) {
            writes.remove(place);
        }
    };
    spare(Asked::is_claim);
    spare(|asked| asked.is_publication() && asked.name.as_deref() == Some("sentinel"));
    // Its numbers may change with the claim, and with the publication.
    for _ in 0..2 {
        spare(|asked| asked.resource == "ingresspools/status");
    }
    writes
}
