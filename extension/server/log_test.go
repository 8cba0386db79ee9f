// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/extension/catalog"
)

func objectMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// lines collects what is logged.
type lines struct {
	mu  sync.Mutex // guards all
	all []string
}

func (l *lines) logger(verbosity int) logr.Logger {
	return funcr.New(func(_, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = append(l.all, args)
	}, funcr.Options{Verbosity: verbosity})
}

func (l *lines) matching(part string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if strings.Contains(line, part) {
			found = append(found, line)
		}
	}
	return found
}

func TestEachCallIsOneLineOfLog(t *testing.T) {
	t.Parallel()
	const about = `"hook"="BeforeClusterCreate" "handler"="before-cluster-create" "Cluster"={"name"="c1" "namespace"="ns"} "duration"=`
	tests := map[string]struct {
		path, body string
		handle     func(*createResponse) error
		wantLevel  int
		want       []string
	}{
		"a call that goes well":  {handle: func(*createResponse) error { return nil }, wantLevel: 0, want: []string{about, `"status"="Success"`}},
		"a call that must wait":  {handle: func(r *createResponse) error { r.RetryAfterSeconds, r.Message = 9, "later"; return nil }, wantLevel: 2, want: []string{about, `"retryAfterSeconds"=9 "status"="Success" "message"="later"`}},
		"a call that fails":      {handle: func(*createResponse) error { return errors.New("no budget") }, wantLevel: 0, want: []string{about, `"status"="Failure" "message"="no budget"`}},
		"a long message":         {handle: func(*createResponse) error { return errors.New(strings.Repeat("é", 1000)) }, wantLevel: 0, want: []string{about, `"message"="` + strings.Repeat("é", 512) + `…"`}},
		"a call that is refused": {body: "{", wantLevel: 2, want: []string{`"hook"="BeforeClusterCreate" "handler"="before-cluster-create" "duration"=`, `"code"=400 "message"="the body`}},
		"a call to nothing":      {path: "/x", wantLevel: 2, want: []string{`"msg"="Answered call" "duration"=`, `"code"=404 "message"="nothing is served at \"/x\""`}},
		"discovery":              {path: discoveryPath, body: discoveryBody, wantLevel: 4, want: []string{`"hook"="Discovery" "duration"=`, `"status"="Success"`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.path == "" {
				tc.path = beforeCreate
			}
			if tc.body == "" {
				tc.body = beforeCreateBody
			}
			var all lines
			s := creating(t, Options{Log: all.logger(4)}, func(_ context.Context, _ *createRequest, r *createResponse) error { return tc.handle(r) })
			do(s, tc.path, tc.body)
			if len(all.all) != 1 {
				t.Fatalf("got %d lines: %q", len(all.all), all.all)
			}
			for _, want := range append(tc.want, fmt.Sprintf(`"level"=%d `, tc.wantLevel)) {
				if !strings.Contains(all.all[0], want) {
					t.Errorf("got %s, want %s", all.all[0], want)
				}
			}
		})
	}
}

func TestTheStackOfAPanicIsLoggedAndNotSent(t *testing.T) {
	t.Parallel()
	var all lines
	s := creating(t, Options{Log: all.logger(0)}, func(context.Context, *createRequest, *createResponse) error { panic("oh no") })
	_, text := do(s, beforeCreate, beforeCreateBody)
	if strings.Contains(text, "goroutine") || strings.Contains(text, "oh no") {
		t.Errorf("sent %s", text)
	}
	got := all.matching(`"msg"="Handler panicked"`)
	if len(got) != 1 || !strings.Contains(got[0], "log_test.go") || !strings.Contains(got[0], `"panic"="oh no"`) || !strings.Contains(got[0], `"Cluster"={"name"="c1" "namespace"="ns"}`) {
		t.Errorf("logged %q", got)
	}
}

func TestTheLoggerOfTheContextKnowsTheCall(t *testing.T) {
	t.Parallel()
	var all lines
	s := creating(t, Options{Log: all.logger(0)}, func(ctx context.Context, _ *createRequest, _ *createResponse) error {
		log, err := logr.FromContext(ctx)
		log.Info("Asking the ledger")
		return err
	})
	do(s, beforeCreate, beforeCreateBody)
	got := all.matching(`"msg"="Asking the ledger"`)
	if len(got) != 1 || !strings.Contains(got[0], `"hook"="BeforeClusterCreate" "handler"="before-cluster-create" "Cluster"={"name"="c1" "namespace"="ns"}`) {
		t.Errorf("logged %q", got)
	}
}

func TestTheClusterOfARequestIsFound(t *testing.T) {
	t.Parallel()
	machine := clusterv1.Machine{ObjectMeta: objectMeta("ns", "m1"), Spec: clusterv1.MachineSpec{ClusterName: "c1"}}
	set := clusterv1.MachineSet{ObjectMeta: objectMeta("ns", "s1"), Spec: clusterv1.MachineSetSpec{ClusterName: "c1"}}
	variables := []hooksv1.Variable{
		{Name: "other", Value: apiextensionsv1.JSON{Raw: []byte(`{"cluster":{"name":"not this"}}`)}},
		{Name: "builtin", Value: apiextensionsv1.JSON{Raw: []byte(`{"cluster":{"name":"c1","namespace":"ns"}}`)}},
	}
	cluster := clusterv1.Cluster{ObjectMeta: objectMeta("ns", "c1")}
	tests := map[string]struct {
		request runtime.Object
		want    string
	}{
		"no request":                    {nil, ""},
		"a lifecycle hook":              {&hooksv1.AfterClusterUpgradeRequest{Cluster: cluster}, "ns/c1"},
		"an upgrade plan":               {&hooksv1.GenerateUpgradePlanRequest{Cluster: cluster}, "ns/c1"},
		"a machine to update":           {&hooksv1.UpdateMachineRequest{Desired: hooksv1.UpdateMachineRequestObjects{Machine: machine}}, "ns/c1"},
		"a machine that could be":       {&hooksv1.CanUpdateMachineRequest{Desired: hooksv1.CanUpdateMachineRequestObjects{Machine: machine}}, "ns/c1"},
		"machines that could be":        {&hooksv1.CanUpdateMachineSetRequest{Desired: hooksv1.CanUpdateMachineSetRequestObjects{MachineSet: set}}, "ns/c1"},
		"patches":                       {&hooksv1.GeneratePatchesRequest{Variables: variables}, "ns/c1"},
		"a topology":                    {&hooksv1.ValidateTopologyRequest{Variables: variables}, "ns/c1"},
		"a topology without builtin":    {&hooksv1.ValidateTopologyRequest{}, ""},
		"a builtin that makes no sense": {&hooksv1.GeneratePatchesRequest{Variables: []hooksv1.Variable{{Name: "builtin", Value: apiextensionsv1.JSON{Raw: []byte(`7`)}}}}, ""},
		"a request about no Cluster":    {&hooksv1.DiscoverVariablesRequest{}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ref, ok := clusterOf(tc.request)
			if got := ref.String(); got != tc.want || ok != (tc.want != "") {
				t.Errorf("got %q %t, want %q", got, ok, tc.want)
			}
		})
	}
}

func TestServerLogsStepsAndQuestionsByLevel(t *testing.T) {
	t.Parallel()
	got := map[int][]string{}
	for _, hook := range catalog.Default().Hooks() {
		got[level(hook)] = append(got[level(hook)], hook.Hook)
	}
	want := map[int][]string{
		0: {"AfterClusterUpgrade", "AfterControlPlaneInitialized", "AfterControlPlaneUpgrade", "AfterWorkersUpgrade", "BeforeClusterCreate", "BeforeClusterDelete", "BeforeClusterUpgrade", "BeforeControlPlaneUpgrade", "BeforeWorkersUpgrade", "UpdateMachine"},
		4: {"CanUpdateMachine", "CanUpdateMachineSet", "DiscoverVariables", "Discovery", "GeneratePatches", "GenerateUpgradePlan", "ValidateTopology"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
