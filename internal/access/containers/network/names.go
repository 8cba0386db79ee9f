// SPDX-License-Identifier: Apache-2.0

package network

import (
	"crypto/sha256"
	"encoding/base32"
	"net"
	"net/netip"
	"strings"
)

// IdentityBytes is how many characters an identity has: with a letter before it
// and a hash after it, the name of a link has the 15 that the kernel takes.
const IdentityBytes = 8

// Names are the names of what belongs to one folder.
type Names struct{ Identity string }

// Link is the host's end of a container's pair.
func (n Names) Link(container string) string { return "c" + n.Identity + hash(container) }

// Bridge is the link of a network.
func (n Names) Bridge(network string) string { return "b" + n.Identity + hash(network) }

// Table is the table of nftables of a network.
func (n Names) Table(network string) string { return n.tables() + network }

func (n Names) tables() string { return "capstan-" + n.Identity + "-" }

// OwnsLink reports whether a link belongs to a container, or a network, of the
// folder.
func (n Names) OwnsLink(link string) (container, network bool) {
	if len(link) != 1+IdentityBytes+hashBytes || link[1:1+IdentityBytes] != n.Identity {
		return false, false
	}
	return link[0] == 'c', link[0] == 'b'
}

// NetworkOfTable is the network that a table is for, if it is one of the folder.
func (n Names) NetworkOfTable(table string) (network string, ok bool) {
	return strings.CutPrefix(table, n.tables())
}

// Hardware is the hardware address of a link of that name. It is the same each
// time, so that neighbours that remember a container still reach it when it has
// rebooted.
func (n Names) Hardware(link string) net.HardwareAddr {
	sum := sha256.Sum256([]byte(n.Identity + "/" + link))
	sum[0] = sum[0]&^1 | 2 // of one receiver, and given by no manufacturer
	return sum[:6]
}

// hashBytes is how many characters are left for the hash of a name: 30 bits.
const hashBytes = 6

func hash(name string) string {
	sum := sha256.Sum256([]byte(name))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:hashBytes])
}

// Taken is a range of addresses that the host uses already.
type Taken struct {
	Prefix netip.Prefix
	By     string // the link
}

// Overlap is the first range in use that a prefix overlaps, other than by a link
// that may: its own.
func Overlap(p netip.Prefix, own string, taken []Taken) (Taken, bool) {
	for _, t := range taken {
		if t.By != own && t.Prefix.Bits() > 0 && t.Prefix.Overlaps(p) {
			return t, true
		}
	}
	return Taken{}, false
}
