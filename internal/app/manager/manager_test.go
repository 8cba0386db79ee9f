// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/app/controllers"
)

func TestOptionsAreCompleted(t *testing.T) {
	t.Parallel()
	of := func(providers ...string) Options {
		return Options{Config: Config{Providers: providers, SimulatedDir: "d"}}
	}
	with := func(o Options, change func(*Options)) Options {
		change(&o)
		return o
	}
	service := types.NamespacedName{Namespace: "n", Name: "s"}
	for name, tc := range map[string]struct {
		options   Options
		want      string
		providers []string
	}{
		"the default":                    {with(of(), func(o *Options) { o.Providers = nil }), "", []string{"core", "kubeadm", "local"}},
		"an empty list":                  {with(of(), func(o *Options) { o.Providers = []string{} }), "no provider is chosen: choose among [core kubeadm local]", nil},
		"each once, in order":            {of("kubeadm", "core", "kubeadm"), "", []string{"core", "kubeadm"}},
		"an unknown one":                 {of("aws"), `provider "aws" is not known: choose among [core kubeadm local]`, nil},
		"certificates, without a plane":  {of("certificates"), `provider "certificates" is not known: choose among [core kubeadm local]`, nil},
		"certificates, in a plane":       {with(of("certificates", "core"), func(o *Options) { o.Plane = true }), "", []string{"core", "certificates"}},
		"machines without a folder":      {with(of("local"), func(o *Options) { o.SimulatedDir = "" }), "the local provider needs a directory for the state of its simulated machines", nil},
		"no machines, and no folder":     {with(of("core"), func(o *Options) { o.SimulatedDir = "" }), "", []string{"core"}},
		"webhooks that are not served":   {with(of("core"), func(o *Options) { o.Webhooks.Service = service }), "webhooks have a Service or a folder of certificates, and are not served: say where to serve them with --webhook-address", []string{"core"}},
		"certificates that are not used": {with(of("core"), func(o *Options) { o.Webhooks.CertDir = "d" }), "webhooks have a Service or a folder of certificates, and are not served: say where to serve them with --webhook-address", []string{"core"}},
		"webhooks with two addresses":    {with(of("core"), func(o *Options) { o.Webhooks = Webhooks{Listen: ":0", Host: "h", Service: service} }), "webhooks are reached by a host and by a Service: give one of --webhook-host and --webhook-service", []string{"core"}},
	} {
		got, err := tc.options.complete()
		if (err == nil) != (tc.want == "") || err != nil && err.Error() != tc.want {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
		if err == nil && (!slices.Equal(got.Providers, tc.providers) || got.MetricsAddress != "0" || got.HealthAddress != "0" || got.PprofAddress != "0" || got.Decisions == nil || got.ExtensionPages == nil) {
			t.Errorf("%s: completed to %+v", name, got)
		}
	}
}

// TestLeaseIsOfTheSameObjects: managers that run the same controllers on the same objects
// share it, and no others; its name must be one of a Lease.
func TestLeaseIsOfTheSameObjects(t *testing.T) {
	t.Parallel()
	of := func(namespace, filter string, providers ...string) string {
		return Options{Config: Config{Providers: providers}, Namespace: namespace, WatchFilter: filter}.lease()
	}
	if a, b := of("", "", "core", "kubeadm"), of("", "", "kubeadm", "core"); a != b || a != "capstan-core-kubeadm" {
		t.Errorf("the order of the providers matters: %s and %s", a, b)
	}
	seen := map[string]bool{}
	for _, limits := range [][2]string{{"", ""}, {"ns", ""}, {"", "blue"}, {"ns", "blue"}, {"", "team_a"}, {"", "team_b"}, {"", "team-a"}, {"ns", "a_" + strings.Repeat("x", 60) + "Z"}} {
		name := of(limits[0], limits[1], "core", "kubeadm", "local")
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 || seen[name] {
			t.Errorf("%q: %s is taken, or no name: %v", limits, name, problems)
		}
		seen[name] = true
	}
}

func TestManagerCachesWhatItsLimitsAllow(t *testing.T) {
	t.Parallel()
	o, err := Options{Config: Config{Providers: []string{controllers.Core}}, Namespace: "ns", LeaderElection: true, LeaderElectionNamespace: "leases"}.complete()
	if err != nil {
		t.Fatal(err)
	}
	got, err := managerOptions(o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]cache.Config{"ns": {}}, got.Cache.DefaultNamespaces); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
	if !got.LeaderElection || got.LeaderElectionID != "capstan-core-ns" || got.LeaderElectionNamespace != "leases" || !*got.Controller.EnableWarmup {
		t.Errorf("its lease is %s/%s, %v", got.LeaderElectionNamespace, got.LeaderElectionID, got.LeaderElection)
	}
	secrets := 0
	for kind, by := range got.Cache.ByObject {
		switch kind.(type) {
		case *corev1.Secret, *corev1.ConfigMap:
			secrets++
			if by.Label.Matches(labels.Set{}) || !by.Label.Matches(labels.Set{clusterv1.ClusterNameLabel: "c"}) {
				t.Errorf("%T: objects with %s are cached", kind, by.Label)
			}
		}
	}
	if secrets != 2 || got.Metrics.BindAddress != "0" || got.PprofBindAddress != "0" || got.HealthProbeBindAddress != "0" {
		t.Errorf("got %+v", got)
	}
	for _, path := range []string{ExtensionsPath, HooksPath} {
		if got.Metrics.ExtraHandlers[path] == nil {
			t.Errorf("%s is not served", path)
		}
	}
	leads := make(chan struct{})
	o.Leads, o.LeaderElection, o.Namespace = leads, false, ""
	if got, err = managerOptions(o); err != nil || !got.LeaderElection || got.LeaderElectionReleaseOnCancel || got.LeaderElectionResourceLockInterface == nil || got.Cache.DefaultNamespaces != nil {
		t.Errorf("of a plane that may not lead yet: %+v, %v", got, err)
	}
}

// fakeManager has only a cache.
type fakeManager struct {
	ctrlmanager.Manager
	synced bool
}

func (f fakeManager) GetCache() cache.Cache { return &informertest.FakeInformers{Synced: &f.synced} }

// TestManagerIsReadyWithFullCaches: a manager that waits to lead serves webhooks, and so
// is ready before.
func TestManagerIsReadyWithFullCaches(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		synced, elects, leads bool
		wantReady             bool
	}{
		"its caches are being filled":       {wantReady: false},
		"they are filled":                   {synced: true, leads: true, wantReady: true},
		"it waits for another to end":       {synced: true, elects: true, wantReady: true},
		"it waits, and they are not":        {elects: true, wantReady: false},
		"its controllers did not start yet": {synced: true, wantReady: false},
	} {
		m := &Manager{mgr: fakeManager{synced: tc.synced}, options: Options{LeaderElection: tc.elects}, ready: make(chan struct{}), serving: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // they return after their work
		err := standby{m}.Start(ctx)
		if tc.leads {
			err = errors.Join(err, announcer{m}.Start(ctx))
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := m.readyz(&http.Request{}); (err == nil) != tc.wantReady {
			t.Errorf("%s: %v", name, err)
		}
	}
	if (announcer{&Manager{options: Options{Leads: make(chan struct{})}}}).NeedLeaderElection() || !(announcer{&Manager{}}).NeedLeaderElection() || (standby{}).NeedLeaderElection() {
		t.Error("a manager waits for its turn to be ready, or does not wait to announce that it leads")
	}
}

func TestConversionIsOfferedByURLAlone(t *testing.T) {
	t.Parallel()
	ln, _ := listen(t)
	server := func(at Webhooks) *webhookServer { return &webhookServer{listener: ln, at: at, cert: &fileCert{}} }
	for name, tc := range map[string]struct {
		webhooks *webhookServer
		converts bool
		want     string
	}{
		"no webhooks":     {nil, true, ""},
		"none of it":      {server(Webhooks{Host: "h", Port: 443}), false, ""},
		"by a host":       {server(Webhooks{Host: "h", Port: 443}), true, "https://h:443/convert"},
		"by a Service":    {server(Webhooks{Service: types.NamespacedName{Namespace: "n", Name: "s"}}), true, ""},
		"by its own port": {server(Webhooks{Host: "::1"}), true, "https://[::1]:" + strings.Split(ln.Addr().String(), ":")[1] + "/convert"},
	} {
		m := &Manager{webhooks: tc.webhooks, options: Options{Conversion: tc.converts}}
		if got := m.Conversion(); got.URL != tc.want {
			t.Errorf("%s: got %q, want %q", name, got.URL, tc.want)
		}
	}
}
