// SPDX-License-Identifier: Apache-2.0

package network

import (
	"crypto/sha256"
	"encoding/base32"
	"net"
	"net/netip"
	"strings"
)

// IdentityBytes is the length of an identity: with a letter before it and a hash
// after it, the name of a link has the kernel's limit of 15 characters.
const IdentityBytes = 8

// Names are the names of the objects of one folder.
type Names struct{ Identity string }

// Link returns the name of the host's end of a container's pair.
func (n Names) Link(container string) string { return "c" + n.Identity + hash(container) }

// Bridge returns the name of the bridge of a network.
func (n Names) Bridge(network string) string { return "b" + n.Identity + hash(network) }

// Table returns the name of the nftables table of a network.
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

// NetworkOfTable returns the network of a table. ok is false if it is not one of
// the folder.
func (n Names) NetworkOfTable(table string) (network string, ok bool) {
	return strings.CutPrefix(table, n.tables())
}

// Hardware returns the hardware address of a link of that name. It is the same each
// time, so that neighbors that have cached it still reach a container after its
// reboot.
func (n Names) Hardware(link string) net.HardwareAddr {
	sum := sha256.Sum256([]byte(n.Identity + "/" + link))
	sum[0] = sum[0]&^1 | 2 // unicast and locally administered
	return sum[:6]
}

// hashBytes is the number of characters that are left for the hash of a name: 30
// bits.
const hashBytes = 6

func hash(name string) string {
	sum := sha256.Sum256([]byte(name))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:hashBytes])
}

// Taken is a range of addresses that the host already uses.
type Taken struct {
	Prefix netip.Prefix
	By     string // the link
}

// Overlap returns the first range in use that a prefix overlaps, except those of
// its own link.
func Overlap(p netip.Prefix, own string, taken []Taken) (Taken, bool) {
	for _, t := range taken {
		if t.By != own && t.Prefix.Bits() > 0 && t.Prefix.Overlaps(p) {
			return t, true
		}
	}
	return Taken{}, false
}
