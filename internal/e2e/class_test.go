// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/certs"
)

// definitions is an extension whose one handler answers with what it holds; ""
// is a failure.
func definitions(answer *atomic.Pointer[string]) http.HandlerFunc {
	discovery := handlers(handler("vars", "v1alpha1", "DiscoverVariables"))
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, discoveryPath) {
			discovery(w, r)
			return
		}
		body := fmt.Sprintf(`{"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "kind": "DiscoverVariablesResponse", "status": "Success", "variables": [%s]}`, *answer.Load())
		if *answer.Load() == "" {
			body = `{"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "kind": "DiscoverVariablesResponse", "status": "Failure", "message": "the catalogue is closed"}`
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

// TestClassReportsVariablesOfExtension: no answer, a failure, an unusable answer,
// and then variables, with which a Cluster is defaulted in a dry run.
func TestClassReportsVariablesOfExtension(t *testing.T) {
	t.Parallel()
	x := &extension{fleet: newFleet(t)}
	template := func(kind string) clusterv1.ClusterClassTemplateReference {
		return clusterv1.ClusterClassTemplateReference{APIVersion: infrav1.GroupVersion().String(), Kind: kind, Name: "t"}
	}
	at := metav1.ObjectMeta{Namespace: x.Namespace, Name: "t"}
	infra, host := &infrav1.LocalClusterTemplate{ObjectMeta: at}, &infrav1.LocalMachineTemplate{ObjectMeta: at}
	infra.Spec.Template.Spec.Simulated, host.Spec.Template.Spec.Simulated = &infrav1.LocalClusterSimulated{}, &infrav1.LocalMachineSimulated{}
	class := &clusterv1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Namespace: x.Namespace, Name: "class"}}
	class.Spec.Infrastructure.TemplateRef = template("LocalClusterTemplate")
	class.Spec.ControlPlane.TemplateRef = template("LocalClusterTemplate") // a provider may have one for both
	class.Spec.Patches = []clusterv1.ClusterClassPatch{{Name: "p", External: &clusterv1.ExternalPatchDefinition{DiscoverVariablesExtension: "vars." + x.Namespace}}}
	x.make(infra, host, class)
	says := func(want string) {
		t.Helper()
		x.eventually(func() error {
			if err := x.Client.Get(x.Context(), client.ObjectKeyFromObject(class), class); err != nil {
				return err
			}
			c := conditions.Get(class, clusterv1.ClusterClassVariablesReadyCondition)
			if c == nil || !strings.Contains(string(c.Status)+" "+c.Message, want) {
				return fmt.Errorf("VariablesReady is %+v, want %q", c, want)
			}
			return nil
		})
	}
	says(fmt.Sprintf("False VariableDiscovery failed: patch \"p\": call an extension handler of hook DiscoverVariables for ClusterClass %s/class: handler %q is not known", x.Namespace, "vars."+x.Namespace))

	var answer atomic.Pointer[string]
	answer.Store(new(""))
	ca, err := certs.NewCA(certs.ECDSAP256, "vars", time.Now().Add(-time.Hour), 24*time.Hour)
	x.must(err)
	x.serveBadly(ca, definitions(&answer), nil)
	x.config("", func(c *runtimev1.ExtensionConfig) { c.Annotations, c.Spec.ClientConfig.CABundle = nil, ca.Cert })
	says("the catalogue is closed")

	answer.Store(new(`{"name": "size", "required": false, "schema": {"openAPIV3Schema": {"type": "integer", "default": "x"}}}`))
	says("variables[size].schema.openAPIV3Schema.default: Invalid value")

	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: x.Namespace}}
	answer.Store(new(`{"name": "size", "required": false, "schema": {"openAPIV3Schema": {"type": "integer", "default": 3}}}`))

	x.must(x.Client.Get(x.Context(), client.ObjectKeyFromObject(config), config))
	before := config.DeepCopy()
	config.Spec.Settings = map[string]string{"catalogue": "new"}
	x.must(x.Client.Patch(x.Context(), config, client.MergeFrom(before)))
	says("True")
	x.eventually(func() error { // admission's cache may be behind
		c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: x.Namespace, Name: "c"}}
		c.Spec.Topology.ClassRef.Name, c.Spec.Topology.Version = "class", "v1.34.0"
		if err := x.Client.Create(x.Context(), c, client.DryRunAll); err != nil {
			return err
		}
		if v := c.Spec.Topology.Variables; len(v) != 1 || v[0].Name != "size" || string(v[0].Value.Raw) != "3" {
			return fmt.Errorf("variables %+v", v)
		}
		return nil
	})
}
