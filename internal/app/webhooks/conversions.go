// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capstan-dev/capstan/internal/kit/conversion"
	"github.com/capstan-dev/capstan/internal/pure/conversion/core"
	"github.com/capstan-dev/capstan/internal/pure/conversion/kubeadm"
	"github.com/capstan-dev/capstan/internal/pure/conversion/rules"
)

// NewConverter returns the Converter of all kinds that have an old version. lookup returns
// the version at which the old versions refer to a kind.
func NewConverter(lookup rules.Lookup) (*conversion.Converter, error) {
	var pairs []conversion.Pair
	for _, k := range slices.Concat(core.Kinds(), kubeadm.Kinds(), core.AddonKinds(), core.RuntimeKinds(), core.IPAMKinds()) {
		pairs = append(pairs, conversion.Pair{
			Old: k.Old, Stored: k.Hub, NewOld: k.NewOld, NewStored: k.NewHub, Up: k.Up,
			Down: func(hub runtime.Object) (runtime.Object, error) { return k.Down(hub, lookup) },
		})
	}
	return conversion.New(pairs...)
}
