//! What no single value shows: a VRID, a name or an address that stands twice, families that are
//! mixed, peers that can't be peers.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Range;

use toml::Spanned;

use super::diagnostic::Findings;
use super::draft::Draft;
use crate::model::{ChecksumForm, Family};

pub(super) fn check(drafts: &[Draft], findings: &mut Findings<'_>) {
    for (index, draft) in drafts.iter().enumerate() {
        let earlier = drafts.get(..index).unwrap_or_default();
        check_vrid(draft, earlier, findings);
        check_name(draft, earlier, findings);
        check_families(draft, findings);
        check_checksum(draft, findings);
    }
    check_addresses(drafts, findings);
    for draft in drafts {
        check_peers(draft, drafts, findings);
    }
}

/// RFC 9568 §5.2.3: one LAN and address family has each VRID once.
fn check_vrid(draft: &Draft, earlier: &[Draft], findings: &mut Findings<'_>) {
    let (Some(vrid), Some(family)) = (&draft.vrid, draft.family()) else {
        return;
    };
    let Some(other) = earlier.iter().find(|other| shares_vrid(draft, other)) else {
        return;
    };
    let line = findings.line(&other.header);
    let remedy = match (&draft.interface, &other.interface) {
        (Some(link), Some(_)) => format!(
            "VRID {vrid} is taken on {link} for {family} by the router at line {line}; \
             choose another one, or add the addresses to that router"
        ),
        _ => format!(
            "VRID {vrid} is taken for {family} by the router at line {line}, maybe on the same \
             link; choose another one, or write the interface of both"
        ),
    };
    findings.add(Some(vrid.span()), format!("vrid: {remedy}"));
}

/// Whether two routers have one VRID and family on what is, or may be, the same link.
fn shares_vrid(one: &Draft, other: &Draft) -> bool {
    let vrid = |draft: &Draft| draft.vrid.as_ref().map(|vrid| *vrid.get_ref());
    let same_link = links_may_meet(one, other);
    vrid(one).is_some() && vrid(one) == vrid(other) && one.family() == other.family() && same_link
}

/// Without an `interface` the link is found by subnet, so it may be any.
fn links_may_meet(one: &Draft, other: &Draft) -> bool {
    match (&one.interface, &other.interface) {
        (Some(one), Some(other)) => one.get_ref() == other.get_ref(),
        _ => true,
    }
}

fn check_name(draft: &Draft, earlier: &[Draft], findings: &mut Findings<'_>) {
    let Some(name) = draft.name() else { return };
    let Some(other) = earlier.iter().find(|other| other.name().as_ref() == Some(&name)) else {
        return;
    };
    // Two default names are equal because the VRIDs are, which is told already.
    if draft.name.is_none() && shares_vrid(draft, other) {
        return;
    }
    let line = findings.line(&other.header);
    let (place, remedy) = match &draft.name {
        Some(written) => (written.span(), "write another name"),
        None => (draft.header.clone(), "write a name"),
    };
    findings.add(
        Some(place),
        format!("name: the router at line {line} is called {name:?} too; {remedy}"),
    );
}

fn check_families(draft: &Draft, findings: &mut Findings<'_>) {
    let Some(family) = draft.family() else { return };
    for vip in &draft.addresses {
        let other = vip.get_ref().family();
        if other != family {
            findings.add(
                Some(vip.span()),
                format!(
                    "addresses: {vip} is {other}, and the router is {family} by its first address; \
                     give each family a [[virtual_router]] of its own (the VRID may be the same)"
                ),
            );
        }
    }
}

fn check_checksum(draft: &Draft, findings: &mut Findings<'_>) {
    let Some(checksum) = &draft.checksum else {
        return;
    };
    if draft.family() == Some(Family::Ipv6) && *checksum.get_ref() != ChecksumForm::Auto {
        let text = "checksum: IPv6 has one form only; leave the key out";
        findings.add(Some(checksum.span()), text);
    }
}

/// An address belongs to one router, whatever prefix length it is written with. Link-local ones
/// are another address on another link.
fn check_addresses(drafts: &[Draft], findings: &mut Findings<'_>) {
    let mut seen: BTreeMap<IpAddr, Vec<(&Draft, Range<usize>)>> = BTreeMap::new();
    for draft in drafts {
        for vip in &draft.addresses {
            let address = vip.get_ref().address();
            let holders = seen.entry(address).or_default();
            if let Some((other, place)) = holders
                .iter()
                .find(|(other, _)| !is_link_local(address) || links_may_meet(draft, other))
            {
                let line = findings.line(place);
                let whose = match std::ptr::eq(*other, draft) {
                    true => "in this router",
                    false => "in another router",
                };
                findings.add(
                    Some(vip.span()),
                    format!(
                        "addresses: {address} stands at line {line} already, {whose}; \
                         remove one of the two"
                    ),
                );
            }
            holders.push((draft, vip.span()));
        }
    }
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

fn check_peers(draft: &Draft, drafts: &[Draft], findings: &mut Findings<'_>) {
    for (index, peer) in draft.peers.iter().enumerate() {
        let address = *peer.get_ref();
        let earlier = draft.peers.get(..index).unwrap_or_default();
        if let Some(fault) = peer_fault(address, earlier, draft, drafts) {
            findings.add(Some(peer.span()), format!("peers: {fault}"));
        }
    }
}

fn peer_fault(
    address: IpAddr,
    earlier: &[Spanned<IpAddr>],
    draft: &Draft,
    drafts: &[Draft],
) -> Option<String> {
    let is_virtual = drafts
        .iter()
        .flat_map(|draft| &draft.addresses)
        .any(|vip| vip.get_ref().address() == address);
    if is_virtual {
        return Some(format!("{address} is a virtual address; write the peer's own one"));
    }
    if earlier.iter().any(|other| *other.get_ref() == address) {
        return Some(format!("{address} stands twice; remove one of the two"));
    }
    let family = draft.family()?;
    (Family::of(address) != family).then(|| {
        format!(
            "{address} is {} and the router is {family}; write the peer's {family} address",
            Family::of(address)
        )
    })
}
