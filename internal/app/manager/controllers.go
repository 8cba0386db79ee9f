// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/controller"
)

// shared is what the controllers of one manager have in common.
type shared struct {
	mgr     ctrl.Manager
	options Options
	clock   clock.PassiveClock
	objects *provider.Objects
}

// setups is the one list of controllers: who runs with which provider.
var setups = []struct {
	provider, name string
	setup          func(context.Context, *shared) error
}{}

// setupControllers sets up the controllers of the chosen providers.
func setupControllers(ctx context.Context, mgr ctrl.Manager, o Options, c clock.PassiveClock) error {
	s := &shared{mgr: mgr, options: o, clock: c}
	s.objects = provider.New(controller.Client(mgr), mgr.GetCache())
	for _, entry := range setups {
		if !slices.Contains(o.Providers, entry.provider) {
			continue
		}
		if err := entry.setup(ctx, s); err != nil {
			return fmt.Errorf("set up controller %s: %w", entry.name, err)
		}
	}
	return nil
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(
		corev1.AddToScheme(scheme),
		clusterv1.AddToScheme(scheme),
		bootstrapv1.AddToScheme(scheme),
		controlplanev1.AddToScheme(scheme),
		infrav1.AddToScheme(scheme),
	)
}
