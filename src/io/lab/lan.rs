//! A small LAN: a switch, some nodes and a client, each in a network namespace of its own.
//!
//! ```text
//!   node 1 ── eth0 ┐
//!   node 2 ── eth0 ┼── switch ── eth0 ── client
//!   node 3 ── eth0 ┘
//! ```
//!
//! Nothing of it is seen from outside, and all of it goes when the [`Lan`] is dropped.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Context as _, ensure};
use netlink_packet_core::DefaultNla;
use netlink_packet_route::AddressFamily;
use netlink_packet_route::address::{AddressAttribute, AddressFlags};
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, BridgePortState, In6AddrGenMode, InfoData, InfoVeth, LinkAttribute,
    LinkProtoInfoBridge,
};
use rtnetlink::{Handle, LinkBridge, LinkMessageBuilder, LinkUnspec, LinkVeth};

use super::namespace::{Namespace, index_of};

/// The link by which every node and the client is plugged into the switch.
pub const LINK: &str = "eth0";

/// State of a bridge port, in linux/if_link.h.
const IFLA_BRPORT_STATE: u16 = 1;

/// Whether a bridge floods multicast to a port, in linux/if_link.h.
const IFLA_BRPORT_MCAST_FLOOD: u16 = 27;

/// The bridge in the switch's namespace.
const BRIDGE: &str = "switch";

/// The host part of the client's addresses; nodes count from [`FIRST_NODE`].
const CLIENT: u8 = 200;

/// The host part of the first node's addresses.
const FIRST_NODE: u8 = 11;

/// Nodes a LAN may have: .11 to .49, so that virtual addresses start at .50.
const MAX_NODES: usize = 39;

/// A switch, nodes and a client.
#[derive(Debug)]
pub struct Lan {
    switch: Namespace,
    nodes: Vec<Host>,
    client: Host,
}

/// A machine in the LAN.
#[derive(Debug)]
pub struct Host {
    namespace: Namespace,
    ipv4: Ipv4Addr,
    ipv6: Ipv6Addr,
    link_local: Ipv6Addr,
}

impl Lan {
    /// A LAN of these nodes and a client.
    ///
    /// # Errors
    /// Where the kernel refuses, with the setting that would allow it.
    pub fn new(nodes: &[&str]) -> anyhow::Result<Self> {
        ensure!(
            nodes.len() <= MAX_NODES,
            "a LAN has at most {MAX_NODES} nodes, not {}",
            nodes.len()
        );
        let switch = Namespace::new(BRIDGE)?;
        switch.netlink(add_bridge).context("cannot add a bridge")?;
        let nodes = (FIRST_NODE..)
            .zip(nodes)
            .map(|(number, name)| Host::new(name, number, &switch))
            .collect::<anyhow::Result<_>>()?;
        let client = Host::new("client", CLIENT, &switch)?;
        Ok(Self { switch, nodes, client })
    }

    /// The nodes, in the order given to [`Self::new`].
    #[must_use]
    pub fn nodes(&self) -> &[Host] {
        &self.nodes
    }

    /// The client.
    #[must_use]
    pub fn client(&self) -> &Host {
        &self.client
    }

    /// The switch, whose ports are named after the hosts.
    #[must_use]
    pub fn switch(&self) -> &Namespace {
        &self.switch
    }

    /// Stops the switch from passing anything to or from the host, which keeps its carrier: what a
    /// broken path somewhere in the network looks like.
    ///
    /// # Errors
    /// Those of netlink.
    pub fn cut(&self, host: &Host) -> anyhow::Result<()> {
        // The one state that a bridge without spanning tree leaves alone.
        self.set_port(host, IFLA_BRPORT_STATE, BridgePortState::Disabled.into())
    }

    /// Ends a [`Self::cut`].
    ///
    /// # Errors
    /// Those of netlink.
    pub fn mend(&self, host: &Host) -> anyhow::Result<()> {
        self.set_port(host, IFLA_BRPORT_STATE, BridgePortState::Forwarding.into())
    }

    /// Pulls the cable: the host loses its carrier.
    ///
    /// # Errors
    /// Those of netlink.
    pub fn unplug(&self, host: &Host) -> anyhow::Result<()> {
        let port = LinkUnspec::new_with_name(host.name()).down();
        self.switch.netlink(async |netlink| set(netlink, port).await)
    }

    /// Ends an [`Self::unplug`].
    ///
    /// # Errors
    /// Those of netlink.
    pub fn plug(&self, host: &Host) -> anyhow::Result<()> {
        let port = LinkUnspec::new_with_name(host.name()).up();
        self.switch.netlink(async |netlink| set(netlink, port).await)
    }

    /// Whether the switch floods multicast frames to the host, as it does at first. Without them
    /// IPv6 finds no neighbours either.
    ///
    /// # Errors
    /// Those of netlink.
    pub fn flood_multicast(&self, host: &Host, flood: bool) -> anyhow::Result<()> {
        self.set_port(host, IFLA_BRPORT_MCAST_FLOOD, flood.into())
    }

    /// What `bridge link set` does. By way of rtnetlink's `set_port` the change of state would
    /// enable the port again.
    fn set_port(&self, host: &Host, attribute: u16, value: u8) -> anyhow::Result<()> {
        self.switch.netlink(async |netlink| {
            let setting = LinkProtoInfoBridge::Other(DefaultNla::new(attribute, vec![value]));
            let port = LinkUnspec::new_with_index(index_of(host.name())?)
                .interface_family(AddressFamily::Bridge)
                .append_extra_attribute(LinkAttribute::ProtoInfoBridge(vec![setting]));
            set(netlink, port)
                .await
                .with_context(|| format!("cannot set the switch's port {}", host.name()))
        })
    }
}

impl Host {
    fn new(name: &str, number: u8, switch: &Namespace) -> anyhow::Result<Self> {
        let host = Self {
            namespace: Namespace::new(name)?,
            ipv4: Ipv4Addr::new(192, 0, 2, number),
            // Written so that both families show the same digits.
            ipv6: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, decimal_as_hex(number)),
            link_local: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, decimal_as_hex(number)),
        };
        let socket = host.namespace.descriptor();
        switch
            .netlink(async |netlink| add_cable(netlink, name, socket).await)
            .and_then(|()| host.namespace.netlink(async |netlink| host.set_up(netlink).await))
            .with_context(|| format!("cannot plug {name} into the switch"))?;
        Ok(host)
    }

    /// Its name, and the name of the switch's port.
    #[must_use]
    pub fn name(&self) -> &str {
        self.namespace.name()
    }

    /// Its network namespace.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Its address in 192.0.2.0/24.
    #[must_use]
    pub fn ipv4(&self) -> Ipv4Addr {
        self.ipv4
    }

    /// Its address in 2001:db8::/64.
    #[must_use]
    pub fn ipv6(&self) -> Ipv6Addr {
        self.ipv6
    }

    /// Its link-local address, from which VRRP for IPv6 speaks.
    #[must_use]
    pub fn link_local(&self) -> Ipv6Addr {
        self.link_local
    }

    async fn set_up(&self, netlink: &Handle) -> anyhow::Result<()> {
        set(netlink, LinkUnspec::new_with_name("lo").up()).await?;
        // The kernel's own link-local address would be unusable for a second, for its duplicate
        // address detection.
        let no_own_addresses =
            LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet6(vec![AfSpecInet6::AddrGenMode(
                In6AddrGenMode::None,
            )])]);
        let quiet = LinkUnspec::new_with_name(LINK).append_extra_attribute(no_own_addresses);
        set(netlink, quiet).await?;
        set(netlink, LinkUnspec::new_with_name(LINK).up()).await?;
        let index = index_of(LINK)?;
        add_address(netlink, index, self.ipv4.into(), 24).await?;
        add_address(netlink, index, self.link_local.into(), 64).await?;
        add_address(netlink, index, self.ipv6.into(), 64).await
    }
}

/// 11 → 0x11, so that 192.0.2.11 goes with 2001:db8::11.
fn decimal_as_hex(number: u8) -> u16 {
    let (hundreds, tens, ones) = (number / 100, number / 10 % 10, number % 10);
    u16::from(hundreds) << 8 | u16::from(tens) << 4 | u16::from(ones)
}

async fn add_bridge(netlink: &Handle) -> anyhow::Result<()> {
    // Ports forward at once, and multicast goes everywhere: a switch without opinions.
    let bridge = LinkBridge::new(BRIDGE).forward_delay(0).mcast_snooping(false).up();
    Ok(netlink.link().add(bridge.build()).execute().await?)
}

/// A veth from the switch's port `name` to [`LINK`] in the namespace of `descriptor`.
async fn add_cable(netlink: &Handle, name: &str, descriptor: i32) -> anyhow::Result<()> {
    let far_end =
        LinkMessageBuilder::<LinkUnspec>::new().name(LINK).setns_by_fd(descriptor).build();
    let cable = LinkVeth::new(name, LINK)
        .set_info_data(InfoData::Veth(InfoVeth::Peer(far_end)))
        .controller(index_of(BRIDGE)?)
        .up();
    Ok(netlink.link().add(cable.build()).execute().await?)
}

async fn set(netlink: &Handle, link: LinkMessageBuilder<LinkUnspec>) -> anyhow::Result<()> {
    Ok(netlink.link().set(link.build()).execute().await?)
}

/// An address that is usable at once, without duplicate address detection.
async fn add_address(
    netlink: &Handle,
    index: u32,
    address: IpAddr,
    prefix_len: u8,
) -> anyhow::Result<()> {
    let mut request = netlink.address().add(index, address, prefix_len);
    if address.is_ipv6() {
        request.message_mut().attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
    }
    request.execute().await.with_context(|| format!("cannot add {address}/{prefix_len}"))
}
