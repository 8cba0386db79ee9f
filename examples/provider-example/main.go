// SPDX-License-Identifier: Apache-2.0

// Command provider-example is an infrastructure provider to copy: its clusters are
// reserved addresses, its machines are records that boot nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

type options struct {
	certificates, health, namespace string
	crashAfter                      time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.certificates, "webhook-cert-dir", "/tmp/k8s-webhook-server/serving-certs", "folder with tls.crt and tls.key")
	flag.StringVar(&o.health, "health-address", ":9440", "address of /healthz and /readyz")
	flag.StringVar(&o.namespace, "leader-election-namespace", "", "namespace of the lease (default: that of the Pod)")
	flag.DurationVar(&o.crashAfter, "crash-after", 0, "end with an error after so long, to see what happens to a provider that does; 0 is never")
	flag.Parse()
	ctrl.SetLogger(klog.Background())
	if err := run(ctrl.SetupSignalHandler(), o); err != nil {
		fmt.Fprintln(os.Stderr, "provider-example:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{addToScheme, clusterv1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: o.health,
		LeaderElection: true, LeaderElectionID: "provider-example", LeaderElectionNamespace: o.namespace,
		LeaderElectionReleaseOnCancel: true, // the process ends with the manager, so that its successor need not wait
		WebhookServer:                 webhook.NewServer(webhook.Options{CertDir: o.certificates}),
	})
	if err != nil {
		return err
	}
	setup := []func(ctrl.Manager) error{
		(&clusters{mgr.GetClient()}).setup, (&machines{mgr.GetClient()}).setup, setupDefaults, setupConversion,
		func(mgr ctrl.Manager) error { return mgr.AddHealthzCheck("ping", healthz.Ping) },
		func(mgr ctrl.Manager) error {
			return mgr.AddReadyzCheck("webhooks", mgr.GetWebhookServer().StartedChecker())
		},
	}
	for _, f := range setup {
		if err := f(mgr); err != nil {
			return err
		}
	}
	var crash <-chan time.Time // never, unless the flag is set
	if o.crashAfter > 0 {
		crash = time.After(o.crashAfter)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-crash: // without a stop: a manager that is still starting must not be stopped
		return errors.New("it crashes because of --crash-after")
	}
}

// setupDefaults registers the webhook that sets the defaults of ExampleMachines.
func setupDefaults(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &ExampleMachine{}).WithDefaulter(defaulter{}).Complete()
}

type defaulter struct{}

func (defaulter) Default(_ context.Context, m *ExampleMachine) error {
	m.SetDefaultSize()
	return nil
}
