// SPDX-License-Identifier: Apache-2.0

package generate

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/clusterctl/config"
	"github.com/capstan-dev/capstan/clusterctl/inventory"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/manifests"
)

// mgmt is a management cluster that has infrastructure providers and a class.
func mgmt(t *testing.T, refuse error, providers ...clusterctlv1.Provider) *clusterctl.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), clusterv1.AddToScheme(scheme), clusterctlv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&clusterv1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "mine"}})
	for i := range providers {
		b.WithObjects(&providers[i])
	}
	return clusterctl.NewWithClient(b.WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			return errors.Join(refuse, c.List(ctx, list, o...))
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
			if refuse != nil {
				return refuse
			}
			return c.Get(ctx, key, obj, o...)
		},
	}).Build())
}

func installed(name, version, namespace string) clusterctlv1.Provider {
	return inventory.Object("infrastructure-"+name, name, clusterctlv1.InfrastructureProviderType, version, namespace)
}

// newFinder has the releases v1.0.0 and v1.1.0 of the providers x and y.
func newFinder(t *testing.T, said io.Writer, infrastructure string, connect func() (*clusterctl.Client, error)) *finder {
	t.Helper()
	dir := t.TempDir()
	text := "providers:\n"
	for _, name := range []string{"x", "y"} {
		for _, version := range []string{"v1.0.0", "v1.1.0"} {
			folder := filepath.Join(dir, "infrastructure-"+name, version)
			metadata := "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\nreleaseSeries: [{major: 1, minor: 0, contract: v1beta2}, {major: 1, minor: 1, contract: v1beta2}]\n"
			if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, "metadata.yaml"), []byte(metadata), 0o600),
				os.WriteFile(filepath.Join(folder, "cluster-template.yaml"), []byte(name+" "+version), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		text += "- {name: " + name + ", type: InfrastructureProvider, url: " + dir + "/infrastructure-" + name + "/latest/infrastructure-components.yaml}\n"
	}
	file := filepath.Join(dir, "clusterctl.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	settings, err := config.Load(config.Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	return &finder{Template: &Template{infrastructure: infrastructure}, env: &command.Env{Err: said}, settings: settings, connect: connect}
}

func TestTheProviderIsThatOfTheManagementCluster(t *testing.T) {
	t.Parallel()
	none := errors.New("no management cluster")
	away := errors.New("it does not answer")
	local := installed("local", "v0.0.1", manifests.Namespace)
	const ours = "kind: LocalCluster"
	tests := map[string]struct {
		infrastructure string
		providers      []clusterctlv1.Provider
		connect        error // no management cluster
		refuse         error // of one that is there
		explicit       bool
		want           string // start of the template, or in it
		said, err      string
	}{
		"none that is there":                     {connect: none, want: ours},
		"none that is named":                     {connect: none, explicit: true, err: "no management cluster"},
		"one that does not answer":               {refuse: away, want: ours, said: "The providers of the management cluster are unknown: "},
		"one that does not answer, but is named": {refuse: away, explicit: true, err: "it does not answer"},
		"one that reports nothing to the user":   {refuse: apierrors.NewForbidden(schema.GroupResource{Resource: "providers"}, "", errors.New("no role")), explicit: true, want: ours, said: "The providers of the management cluster are unknown: "},
		"one without providers":                  {want: ours},
		"the program's own":                      {providers: []clusterctlv1.Provider{local}, want: ours},
		"one provider":                           {providers: []clusterctlv1.Provider{installed("x", "v1.0.0", "x-system")}, want: "x v1.0.0"},
		"one provider twice":                     {providers: []clusterctlv1.Provider{installed("x", "v1.0.0", "a"), installed("x", "v1.1.0", "b")}, want: "x v1.1.0"},
		"one next to the program's own":          {providers: []clusterctlv1.Provider{local, installed("x", "v1.0.0", "x-system")}, want: "x v1.0.0"},
		"several":                                {providers: []clusterctlv1.Provider{installed("y", "v1.0.0", "y-system"), local, installed("x", "v1.0.0", "x-system")}, err: "the management cluster has the infrastructure providers x, y: choose one with --infrastructure"},
		"one of several":                         {infrastructure: "x", providers: []clusterctlv1.Provider{local, installed("x", "v1.0.0", "x-system")}, want: "x v1.0.0"},
		"one that is not installed":              {infrastructure: "y", providers: []clusterctlv1.Provider{installed("x", "v1.0.0", "x-system")}, want: "y v1.1.0"},
		"a version that is not installed":        {infrastructure: "x:v1.1.0", refuse: away, providers: []clusterctlv1.Provider{installed("x", "v1.0.0", "x-system")}, want: "x v1.1.0"},
		"an unknown provider":                    {infrastructure: "z", connect: none, err: `there is no InfrastructureProvider "z"`},
		"a version that is not there":            {infrastructure: "x:v2.0.0", connect: none, err: "has no release v2.0.0"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var said strings.Builder
			f := newFinder(t, &said, tc.infrastructure, func() (*clusterctl.Client, error) {
				if tc.connect != nil {
					return nil, tc.connect
				}
				return mgmt(t, tc.refuse, tc.providers...), nil
			})
			f.explicit = tc.explicit
			doc, _, err := f.find(t.Context())
			if tc.err != "" || err != nil {
				if err == nil || !strings.Contains(err.Error(), tc.err) || tc.err == "" {
					t.Errorf("error %v, want %q", err, tc.err)
				}
				return
			}
			if !strings.Contains(string(doc), tc.want) || !strings.HasPrefix(said.String(), tc.said) || (said.Len() > 0) != (tc.said != "") {
				t.Errorf("said %q, want %q; want %s in\n%s", said.String(), tc.said, tc.want, doc)
			}
		})
	}
}

func TestAClassComesAlongUnlessTheManagementClusterHasIt(t *testing.T) {
	t.Parallel()
	away := errors.New("it does not answer")
	tests := map[string]struct {
		name    string
		connect error
		refuse  error
		want    string
		reads   int
		said    string
	}{
		"one that is there":                          {name: "mine", want: "", reads: 0},
		"one that is not":                            {name: "other", want: "class other", reads: 1},
		"without a management cluster":               {name: "mine", connect: away, want: "class mine", reads: 1},
		"of one that does not answer":                {name: "mine", refuse: away, want: "class mine", reads: 1, said: "ClusterClass fleet/mine is included: "},
		"one that does not exist, without an answer": {name: "none", refuse: away, want: "", reads: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var said strings.Builder
			f := newFinder(t, &said, "", func() (*clusterctl.Client, error) {
				if tc.connect != nil {
					return nil, tc.connect
				}
				return mgmt(t, tc.refuse), nil
			})
			reads := 0
			doc, err := f.class(t.Context(), client.ObjectKey{Namespace: "fleet", Name: tc.name}, func(name string) ([]byte, error) {
				if reads++; name == "none" {
					return nil, nil
				}
				return []byte("class " + name), nil
			})
			if err != nil || string(doc) != tc.want || reads != tc.reads || !strings.HasPrefix(said.String(), tc.said) || (said.Len() > 0) != (tc.said != "") {
				t.Errorf("%d reads, said %q, error %v, got %q; want %+v", reads, said.String(), err, doc, tc)
			}
		})
	}
}

// TestAClassThatIsNowhereIsAnError: without it the Cluster would not be created.
func TestAClassThatIsNowhereIsAnError(t *testing.T) {
	t.Parallel()
	f := newFinder(t, io.Discard, "x", func() (*clusterctl.Client, error) { return mgmt(t, nil), nil })
	_, class, err := f.find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if doc, err := f.class(t.Context(), client.ObjectKey{Namespace: "fleet", Name: "mine"}, class); err != nil || doc != nil {
		t.Errorf("of the management cluster: got %s, %v", doc, err)
	}
	_, err = f.class(t.Context(), client.ObjectKey{Namespace: "fleet", Name: "none"}, class)
	if want := "ClusterClass none not found: neither the management cluster has it nor the release, as clusterclass-none.yaml"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestAClusterHasAtLeastOneControlPlaneMachine, as upstream's clusterctl demands.
func TestAClusterHasAtLeastOneControlPlaneMachine(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--control-plane-machine-count=0":  "--control-plane-machine-count 0: there must be at least 1",
		"--control-plane-machine-count=-1": "--control-plane-machine-count -1: there must be at least 1",
		"--worker-machine-count=-1":        "--worker-machine-count -1: there must be at least 0",
	} {
		cmd := newCluster(&command.Env{Out: io.Discard, Err: io.Discard, LookupEnv: func(string) (string, bool) { return "", false }})
		cmd.SetArgs([]string{"demo", args})
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.ExecuteContext(t.Context()); err == nil || err.Error() != want || !errors.As(err, new(command.UsageError)) {
			t.Errorf("%s: got %v, want %s", args, err, want)
		}
	}
}
