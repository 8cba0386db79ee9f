// SPDX-License-Identifier: Apache-2.0

package testenv_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/migration"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// manifold is a Certificate with fields that Capstan does not act on, and with some
// that cert-manager does not have either.
const manifold = `
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: manifold}
spec:
  secretName: manifold
  issuerRef: {name: none, later: x}
  dnsNames: [a.example.com]
  encodeUsagesInRequest: true
  revisionHistoryLimit: 3
  otherNames: [{oid: 1.2.3, utf8Value: x}]
  nameConstraints: {critical: true, permitted: {dnsDomains: [example.com]}}
  keystores: {pkcs12: {create: true, passwordSecretRef: {name: p, key: k}}}
  privateKey: {algorithm: RSA, size: 4096, hardware: {slot: 1}}
  subject: {organizations: [o], titles: [t]}
  secretTemplate: {labels: {a: b}, finalizers: [x]}
  additionalOutputFormats: [{type: DER, mode: "0600"}]
  inSomeLaterVersion: {a: [1]}
`

func TestFieldsOfCertificatesThatAreNotHonouredAreKept(t *testing.T) {
	t.Parallel()
	env := testenv.Start(t)
	obj := &unstructured.Unstructured{}
	raw, err := yaml.YAMLToJSON([]byte(manifold))
	if err == nil {
		err = obj.UnmarshalJSON(raw) // which distinguishes integers from other numbers
	}
	if err != nil {
		t.Fatal(err)
	}
	obj.SetNamespace(env.Namespace)
	want := obj.DeepCopy().Object["spec"]
	if err := env.Client.Create(t.Context(), obj, client.FieldValidation("Strict")); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, func() error {
		c := &certmanagerv1.Certificate{}
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), c); err != nil {
			return err
		}
		for _, field := range []string{"otherNames", "nameConstraints", "keystores"} {
			if m := conditions.Message(c, certmanagerv1.ReadyCondition); !strings.Contains(m, "spec."+field+": it is not honoured") {
				return fmt.Errorf("nothing is said of %s: %q", field, m)
			}
		}
		return nil
	})
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, obj.Object["spec"]); diff != "" {
		t.Errorf("spec (-created +read):\n%s", diff)
	}
}

// TestDefinitionsOfCertManagersOwnAreLeftAlone has a plane started without
// certificates, then with them, and then again after cert-manager's definition has
// replaced ours.
func TestDefinitionsOfCertManagersOwnAreLeftAlone(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	dir := t.TempDir()
	p := startOn(t, dir, "--providers=core")
	crd, key := &apiextensionsv1.CustomResourceDefinition{}, client.ObjectKey{Name: "certificates.cert-manager.io"}
	if err := connect(t, dir).Get(t.Context(), key, crd); !apierrors.IsNotFound(err) {
		t.Errorf("a plane without certificates has their definition: %v", err)
	}
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	p = startOn(t, dir)
	c := connect(t, dir)
	if err := c.Get(t.Context(), key, crd); err != nil || !certmanagerv1.Ours(crd.Labels) {
		t.Fatalf("labels %v, error %v", crd.Labels, err)
	}
	crd.Labels["app.kubernetes.io/name"] = "cert-manager"
	crd.Spec.Names.Categories = []string{"theirs"}
	if err := c.Update(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	startOn(t, dir)
	c = connect(t, dir)
	if err := c.Get(t.Context(), key, crd); err != nil || len(crd.Spec.Names.Categories) != 1 || crd.Spec.Names.Categories[0] != "theirs" {
		t.Errorf("categories %v, error %v", crd.Spec.Names.Categories, err)
	}
}

func TestObjectsOfDefinitionAreMigrated(t *testing.T) {
	t.Parallel()
	env := testenv.Start(t)
	kind := testenv.Kind("storage.example.com", "Shelf")
	kind.Spec.Names.Plural, kind.Spec.Names.Singular, kind.Name = "shelfs", "shelf", "shelfs.storage.example.com"
	env.Define(t, kind)
	shelf := func(version, name string) *unstructured.Unstructured {
		obj := &unstructured.Unstructured{}
		obj.SetAPIVersion("storage.example.com/" + version)
		obj.SetKind("Shelf")
		obj.SetNamespace(env.Namespace)
		obj.SetName(name)
		return obj
	}
	for i := range 120 { // more than a page
		testenv.Eventually(t, func() error {
			return client.IgnoreAlreadyExists(env.Client.Create(t.Context(), shelf("v1", fmt.Sprintf("s%03d", i))))
		})
	}
	change := func(how func(*apiextensionsv1.CustomResourceDefinition)) {
		t.Helper()
		testenv.Eventually(t, func() error {
			if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(kind), kind); err != nil {
				return err
			}
			how(kind)
			return env.Client.Update(t.Context(), kind)
		})
	}
	change(func(crd *apiextensionsv1.CustomResourceDefinition) {
		second := *crd.Spec.Versions[0].DeepCopy()
		second.Name, crd.Spec.Versions[0].Storage = "v2", false
		crd.Spec.Versions = append(crd.Spec.Versions, second)
	})
	testenv.Eventually(t, func() error { // until the new version is served
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(kind), kind); err != nil || !migration.Needed(kind) {
			return errors.Join(err, fmt.Errorf("stored at %v", kind.Status.StoredVersions))
		}
		return env.Client.Get(t.Context(), client.ObjectKey{Namespace: env.Namespace, Name: "s000"}, shelf("v2", ""))
	})
	written, err := migration.Run(t.Context(), env.Client, kind.Name)
	if err != nil || written != 120 {
		t.Errorf("%d written, error %v", written, err)
	}
	change(func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions = crd.Spec.Versions[1:] }) // which is refused while any is stored at it
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(shelf("v2", "").GroupVersionKind())
	if err := env.Client.List(t.Context(), list, client.InNamespace(env.Namespace)); err != nil || len(list.Items) != 120 {
		t.Errorf("%d are left, error %v", len(list.Items), err)
	}
}
