// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"context"

	"github.com/capstan-dev/capstan/internal/host/containers/network"
	"github.com/capstan-dev/capstan/internal/host/containers/preflight"
)

// Check returns what this host lacks to run containers, the worst first. It tests
// the features that containers use in separate namespaces and changes nothing.
func Check(context.Context) []Problem {
	var problems []Problem
	for _, f := range preflight.Evaluate(preflight.Probe()) {
		problems = append(problems, Problem(f))
	}
	return problems
}

// CheckNetwork reports whether the addresses of a network are already in use on
// this host, for example by a network of another folder.
func (l *Launcher) CheckNetwork(n Network) ([]Problem, error) {
	if err := n.Validate(); err != nil {
		return nil, err
	}
	taken, err := network.InUse()
	if err != nil {
		return nil, err
	}
	t, overlaps := network.Overlap(n.Address.Masked(), l.names.Bridge(n.Name), taken)
	if !overlaps {
		return nil, nil
	}
	return []Problem{{
		What:   "addresses " + n.Address.Masked().String() + " overlap " + t.Prefix.String() + ", which link " + t.By + " of this host has",
		Remedy: "choose other addresses, or remove that link",
	}}, nil
}
