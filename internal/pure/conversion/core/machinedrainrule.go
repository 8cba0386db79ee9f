// SPDX-License-Identifier: Apache-2.0

package core

import (
	clusterv1beta1 "github.com/capstan-dev/capstan/api/core/v1beta1"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/conversion/rules"
)

// machineDrainRule has the same fields in both versions.
func machineDrainRule() rules.Kind {
	return rules.Define(rules.Definition[clusterv1beta1.MachineDrainRule, clusterv1.MachineDrainRule]{
		Kind: "MachineDrainRule", Old: clusterv1beta1.GroupVersion(), Hub: clusterv1.GroupVersion(),
		Up: func(old *clusterv1beta1.MachineDrainRule, hub, _ *clusterv1.MachineDrainRule) error {
			hub.Spec = clusterv1.MachineDrainRuleSpec{
				Drain: clusterv1.MachineDrainRuleDrainConfig(old.Spec.Drain), Machines: old.Spec.Machines, Pods: old.Spec.Pods,
			}
			return nil
		},
		Down: func(hub *clusterv1.MachineDrainRule, old *clusterv1beta1.MachineDrainRule, _ rules.Lookup) error {
			old.Spec = clusterv1beta1.MachineDrainRuleSpec{
				Drain: clusterv1beta1.MachineDrainRuleDrainConfig(hub.Spec.Drain), Machines: hub.Spec.Machines, Pods: hub.Spec.Pods,
			}
			return nil
		},
	})
}
