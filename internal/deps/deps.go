// SPDX-License-Identifier: Apache-2.0

// Package deps has what the reconcilers of Cluster API need from outside: each has a copy
// of one value.
package deps

import (
	"fmt"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/kit/patch"
)

// Deps are dependencies of a reconciler. All but the last two are required.
type Deps struct {
	Mgmt      client.Client      // the management cluster
	Live      client.Reader      // the same, without a cache: what users provide, such as Secrets
	Providers *provider.Objects  // objects of providers: templates, infrastructure, bootstrap, control planes
	Workload  workload.Clusters  // connections to workload clusters
	Clock     clock.PassiveClock // of conditions, timeouts and deadlines
	Recorder  events.EventRecorder
	// Name returns an unused name: the prefix, a dash and five random letters.
	Name func(prefix string) string
	// Debounce joins status writes that follow each other closely; nil writes each
	// immediately.
	Debounce *patch.StatusDebounce
	// Deprecated has status.deprecated.v1beta1 filled.
	Deprecated bool
}

// Check reports a required dependency of a controller that is missing.
func (d Deps) Check(controller string) error {
	if d.Mgmt == nil || d.Live == nil || d.Providers == nil || d.Workload == nil || d.Clock == nil || d.Recorder == nil || d.Name == nil {
		return fmt.Errorf("%s: Mgmt, Live, Providers, Workload, Clock, Recorder and Name are required", controller)
	}
	return nil
}
