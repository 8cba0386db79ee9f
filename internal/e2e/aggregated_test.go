// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// aggregated is an API server behind a Service, whose APIService is given the authority
// of its Certificate.
const aggregated = `
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: things, namespace: default}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: things, namespace: default}
spec: {secretName: things, dnsNames: [things.default.svc], issuerRef: {name: things, kind: Issuer}}
---
apiVersion: v1
kind: Service
metadata: {name: things, namespace: default}
spec: {selector: {app: things}, ports: [{port: 443, targetPort: 8443}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: things, namespace: default}
spec:
  selector: {matchLabels: {app: things}}
  template:
    metadata: {labels: {app: things}}
    spec:
      containers:
      - name: c
        image: example.com/things:v1
        readinessProbe: {tcpSocket: {port: 8443}, periodSeconds: 1}
        volumeMounts: [{name: certs, mountPath: /certs, readOnly: true}]
      volumes: [{name: certs, secret: {secretName: things}}]
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.things.example.com, annotations: {cert-manager.io/inject-ca-from: default/things}}
spec: {group: things.example.com, version: v1, groupPriorityMinimum: 100, versionPriority: 100, service: {name: things, namespace: default}}
`

// TestAnAggregatedAPIIsServedByAPod: the API server of a plane forwards requests to
// one behind a Service, and continues when its certificate is replaced, which the
// Pod reads without a restart.
func TestAnAggregatedAPIIsServedByAPod(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	needSandboxes(t)
	plane := &ownPlane{T: t, dir: t.TempDir(), metrics: testenv.FreeAddress(t)}
	f := plane.start("--providers=certificates")
	importImage(t, plane.dir, programImage(t, "example.com/things:v1", "test/aggregated"))
	f.apply(aggregated)
	typed, err := kubernetes.NewForConfig(f.Config)
	f.must(err)
	serves := func(serial string) error {
		out, err := typed.RESTClient().Get().AbsPath("/apis/things.example.com/v1/namespaces/default/things").DoRaw(t.Context())
		if err == nil && !strings.Contains(string(out), `"serial":"`+serial+`"`) {
			err = fmt.Errorf("the API behind the Service answers %q, want that it has certificate %s", out, serial)
		}
		return err
	}
	issued := func(but string) (serial string) {
		f.eventually(func() error {
			secret := &corev1.Secret{}
			if err := f.Client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "things"}, secret); err != nil {
				return err
			}
			c, err := certs.ParseCertificate(secret.Data["tls.crt"])
			if err != nil {
				return err
			}
			if serial = c.SerialNumber.String(); serial == but {
				return fmt.Errorf("it is still certificate %s", serial)
			}
			return nil
		})
		return serial
	}
	first := issued("")
	f.eventually(func() error { return serves(first) })
	for path, want := range map[string]string{"/apis": `"things.example.com"`, "/apis/things.example.com/v1": `"things"`} {
		if out, err := typed.RESTClient().Get().AbsPath(path).DoRaw(t.Context()); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v: it does not mention %s", path, err, want)
		}
	}

	f.must(f.Client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "things"}}))
	second := issued(first)
	f.eventually(func() error { return serves(second) })
	registration := &unstructured.Unstructured{}
	registration.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
	f.eventually(func() error {
		if err := f.Client.Get(t.Context(), client.ObjectKey{Name: "v1.things.example.com"}, registration); err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(registration.Object, "status", "conditions")
		if text := fmt.Sprint(conditions); !strings.Contains(text, "status:True type:Available") {
			return fmt.Errorf("it has %s", text)
		}
		return nil
	})
	all, err := typed.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=things"})
	if err != nil || len(all.Items) != 1 || all.Items[0].Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("its Pods: %v, %v: want the one that there was, never restarted", all.Items, err)
	}
}
