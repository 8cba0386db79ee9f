// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"context"

	"github.com/capstan-dev/capstan/internal/access/containers/network"
	"github.com/capstan-dev/capstan/internal/access/containers/preflight"
)

// Check tells what this host lacks to run containers, the worst first. It tries
// what they are made of in namespaces of its own and changes nothing.
func Check(context.Context) []Problem {
	var problems []Problem
	for _, f := range preflight.Judge(preflight.Probe()) {
		problems = append(problems, Problem(f))
	}
	return problems
}

// CheckNetwork tells whether a network would take addresses that this host uses
// elsewhere, such as for a network of another folder.
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
