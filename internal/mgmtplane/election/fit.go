// SPDX-License-Identifier: Apache-2.0

package election

import (
	"fmt"
	"net"

	"github.com/capstan-dev/capstan/internal/kit/buildinfo"
)

// Fit returns an error if a plane must not join the existing members. No plane may
// have the address of another, or an address that only its own host can reach if
// there are members on other hosts, and none may be older than another one, whose
// definitions it does not support. Versions that cannot be parsed, as those of
// development builds, fit all others.
func Fit(self Member, others []Member) error {
	for _, m := range others {
		if m.Name == self.Name || m.Gone {
			continue // an earlier member of its data directory, or one that no longer runs
		}
		theirs := fmt.Sprintf("the plane at %s on %s in %s", m.Address, m.Host, m.Dir)
		switch {
		case m.Address == self.Address:
			return fmt.Errorf("address %s is that of %s: choose another one with --listen, or wait for %s after that one was lost", self.Address, theirs, ttl)
		case m.Host != self.Host && onlyLocal(self.Address):
			return fmt.Errorf("address %s is of use on this host alone, and %s has to reach it: choose an address of the network with --listen", self.Address, theirs)
		case m.Host != self.Host && onlyLocal(m.Address):
			return fmt.Errorf("%s has an address that is of use on its own host alone: start it again with an address of the network as its --listen", theirs)
		case buildinfo.Older(self.Version, m.Version):
			return fmt.Errorf("this program is version %s, and %s is of %s: start one that is as new; update the planes that wait first, and the one that leads last", self.Version, theirs, m.Version)
		}
	}
	return nil
}

func onlyLocal(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}
