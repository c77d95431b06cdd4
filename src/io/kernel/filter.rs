//! Which packets the kernel hands to us at all: classic BPF programs for the packet sockets.
//!
//! Each program asks three things, the most telling one first, as it runs for every packet of the
//! machine: is it VRRP or an announcement, was it meant for this machine (no outgoing copies, no
//! frame of a VLAN that has no device here), and did it arrive on a link that we listen on.

use socket2::SockFilter;

use crate::engine::node::links::LinkId;

const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const COPY_TO_X: u16 = 0x07;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_EQUAL_TO_X: u16 = 0x1d;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

/// `SKF_AD_OFF` + `SKF_AD_PKTTYPE` and `SKF_AD_IFINDEX` (linux/filter.h).
const PACKET_TYPE: u32 = 0xffff_f004;
const LINK_INDEX: u32 = 0xffff_f008;

/// From this packet type on a packet was not for us (linux/if_packet.h).
pub(super) const PACKET_OTHERHOST: u8 = 3;
/// Links that a program can tell apart; with more, the receiver alone does.
const MOST_LINKS: usize = 100;

const DROP: SockFilter = SockFilter::new(RETURN, 0, 0, 0);
const ACCEPT: SockFilter = SockFilter::new(RETURN, 0, 0, u32::MAX);

const fn load(width: u16, offset: u32) -> SockFilter {
    SockFilter::new(width, 0, 0, offset)
}

/// Goes on behind the next instruction, which drops, if the value loaded is this one.
const fn unless(value: u32) -> SockFilter {
    SockFilter::new(JUMP_IF_EQUAL, 1, 0, value)
}

/// Nothing gets through.
pub(super) fn nothing() -> Vec<SockFilter> {
    vec![DROP]
}

/// IPv4 datagrams of protocol 112.
pub(super) fn ipv4(links: &[LinkId]) -> Vec<SockFilter> {
    let mut program = vec![load(LOAD_BYTE, 9), unless(112), DROP];
    for_us_on(links, &mut program);
    program
}

/// IPv6 datagrams of next header 112, and neighbour advertisements.
pub(super) fn ipv6(links: &[LinkId]) -> Vec<SockFilter> {
    let mut program = vec![
        load(LOAD_BYTE, 6),
        SockFilter::new(JUMP_IF_EQUAL, 5, 0, 112),
        unless(58),
        DROP,
        load(LOAD_BYTE, 40),
        unless(136),
        DROP,
    ];
    for_us_on(links, &mut program);
    program
}

/// ARP replies, and requests whose sender and target are the same address (gratuitous ARP). The
/// rest, the LAN's everyday questions, states nothing about a virtual address.
pub(super) fn arp(links: &[LinkId]) -> Vec<SockFilter> {
    let mut program = vec![
        load(LOAD_HALF, 6),
        SockFilter::new(JUMP_IF_EQUAL, 5, 0, 2),
        load(LOAD_WORD, 14),
        SockFilter::new(COPY_TO_X, 0, 0, 0),
        load(LOAD_WORD, 24),
        SockFilter::new(JUMP_IF_EQUAL_TO_X, 1, 0, 0),
        DROP,
    ];
    for_us_on(links, &mut program);
    program
}

/// Accepts what was meant for this machine and arrived on one of these links.
fn for_us_on(links: &[LinkId], program: &mut Vec<SockFilter>) {
    program.push(load(LOAD_BYTE, PACKET_TYPE));
    let for_others = u32::from(PACKET_OTHERHOST);
    program.push(SockFilter::new(JUMP_IF_AT_LEAST, 0, 1, for_others));
    program.push(DROP);
    if links.len() > MOST_LINKS {
        program.push(ACCEPT);
        return;
    }
    program.push(load(LOAD_WORD, LINK_INDEX));
    for link in links {
        program.push(SockFilter::new(JUMP_IF_EQUAL, 0, 1, link.0));
        program.push(ACCEPT);
    }
    program.push(DROP);
}
