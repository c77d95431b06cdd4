//! Addresses of pools that somebody uses without having been given them: nobody else gets them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::ours::{Member, Roster, Standing};
use super::pools::Pools;

/// Who uses an address on his own account; two use one where both list it.
pub(super) struct Reserved<'w>(BTreeMap<IpAddr, Vec<Member<'w>>>);

impl<'w> Reserved<'w> {
    /// Every pool's addresses in `spec.externalIPs`, and in the status of Services that we do not
    /// publish for.
    pub(super) fn new(roster: &Roster<'w>, pools: &Pools<'w>) -> Self {
        let mut reserved: BTreeMap<IpAddr, Vec<Member<'w>>> = BTreeMap::new();
        for member in roster.all() {
            let status = (member.standing != Standing::Served).then(|| member.published());
            for address in member.external().chain(status.into_iter().flatten()) {
                if pools.of(address).is_some() {
                    let users = reserved.entry(address).or_default();
                    if !users.contains(&member) {
                        users.push(member);
                    }
                }
            }
        }
        Self(reserved)
    }

    /// Who keeps `member` from getting `address`.
    pub(super) fn against(&self, address: IpAddr, member: Member<'w>) -> Option<Member<'w>> {
        self.0.get(&address)?.iter().copied().find(|user| *user != member)
    }

    /// Whether anybody uses `address`.
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        self.0.contains_key(&address)
    }

    /// All of them, with who uses each.
    pub(super) fn iter(&self) -> impl Iterator<Item = (IpAddr, &[Member<'w>])> {
        self.0.iter().map(|(address, users)| (*address, users.as_slice()))
    }
}
