// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/clusterctl/apply"
	"github.com/capstan-dev/capstan/clusterctl/components"
	"github.com/capstan-dev/capstan/clusterctl/config"
	"github.com/capstan-dev/capstan/clusterctl/repository"
	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/internal/access/migration"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
)

const (
	// component is the key under which images of cert-manager are configured.
	component = "cert-manager"
	// probePeriod is the time between two probes while it starts.
	probePeriod = 500 * time.Millisecond
)

// CertManager installs cert-manager on one management cluster.
type CertManager struct {
	Cluster *apply.Cluster
	Config  *config.Config
	Options repository.Options
	// Progress receives what happens, for people.
	Progress func(text string)
}

// Ensure returns when Certificates are issued: either they are already, or cert-manager
// is installed.
func (m *CertManager) Ensure(ctx context.Context) error {
	how, err := m.Config.CertManager()
	if err != nil {
		return err
	}
	asked := m.probe(ctx)
	switch {
	case asked == nil:
		m.Progress("Certificates are honoured here already: cert-manager is not installed")
		return nil
	case !absent(asked):
		return fmt.Errorf("ask for a Certificate to see whether cert-manager works: %w", asked)
	case how.ExternallyProvisioned:
		return fmt.Errorf("cert-manager does not work, and the configuration says that others install it (cert-manager.externallyProvisioned): %w", asked)
	}
	if err := m.ours(ctx, asked); err != nil {
		return err
	}
	objects, err := m.load(ctx, how)
	if err != nil {
		return err
	}
	if err := m.Cluster.Check(ctx, apply.Plan{Objects: objects}); err != nil {
		return fmt.Errorf("install cert-manager: %w", err)
	}
	return m.install(ctx, how, objects)
}

// ours refuses to overwrite a cert-manager that Capstan did not install, and that only
// does not respond.
func (m *CertManager) ours(ctx context.Context, asked error) error {
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	err := m.Cluster.Client().Get(ctx, client.ObjectKey{Name: "certificates.cert-manager.io"}, crd)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get CustomResourceDefinition certificates.cert-manager.io: %w", err)
	}
	if crd.GetLabels()[clusterctlv1.ClusterctlCoreLabel] != clusterctlv1.ClusterctlCoreLabelCertManagerValue {
		return fmt.Errorf("cert-manager, which others have installed, does not answer: check its webhook, or leave it out with --skip-cert-manager: %w", asked)
	}
	return nil
}

func (m *CertManager) install(ctx context.Context, how config.CertManager, objects []*unstructured.Unstructured) error {
	m.Progress("Installing cert-manager " + how.Version)
	if err := m.Cluster.All(ctx, objects); err != nil {
		return fmt.Errorf("install cert-manager: %w", err)
	}
	m.Progress("Waiting for cert-manager to be available")
	limited, cancel := context.WithTimeoutCause(ctx, how.Timeout, fmt.Errorf("cert-manager is not available after %s", how.Timeout))
	defer cancel()
	for {
		err := m.probe(limited)
		if err == nil {
			return nil
		}
		if ended := lifecycle.Sleep(limited, probePeriod); ended != nil {
			return errors.Join(ended, fmt.Errorf("it last said: %w", err))
		}
	}
}

// probe has an Issuer and a Certificate checked by the installed controller, and creates
// neither.
func (m *CertManager) probe(ctx context.Context) error {
	for _, obj := range []map[string]any{
		{"kind": "Issuer", "spec": map[string]any{"selfSigned": map[string]any{}}},
		{"kind": "Certificate", "spec": map[string]any{"dnsNames": []any{"example.com"}, "secretName": "capstan-probe", "issuerRef": map[string]any{"name": "capstan-probe"}}},
	} {
		u := &unstructured.Unstructured{Object: obj}
		u.SetAPIVersion("cert-manager.io/v1")
		u.SetNamespace("default")
		u.SetName("capstan-probe")
		if err := m.Cluster.Client().Create(ctx, u, client.DryRunAll); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// absent reports whether the response to a probe means that no controller issues
// Certificates: the kinds do not exist, or the webhook does not respond.
func absent(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err)
}

// load reads the manifest of a release.
func (m *CertManager) load(ctx context.Context, how config.CertManager) ([]*unstructured.Unstructured, error) {
	r, err := repository.Open(ctx, how.Provider(), m.Options)
	if err != nil {
		return nil, err
	}
	raw, err := r.File(ctx, how.Version, r.ComponentsFile())
	if err != nil {
		return nil, fmt.Errorf("read the manifest of cert-manager: %w: correct cert-manager.url of the configuration; a plane of capstan needs none with certificates among its --providers", err)
	}
	objects, err := template.Objects(raw)
	if err != nil {
		return nil, fmt.Errorf("read the manifest of cert-manager %s: %w", how.Version, err)
	}
	if _, err := components.ReplaceImages(objects, component, m.Config.Image); err != nil {
		return nil, err
	}
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return turn(a) - turn(b) })
	for _, obj := range objects {
		labels, annotations := obj.GetLabels(), obj.GetAnnotations()
		obj.SetLabels(with(labels, clusterctlv1.ClusterctlLabel, "", clusterctlv1.ClusterctlCoreLabel, clusterctlv1.ClusterctlCoreLabelCertManagerValue))
		obj.SetAnnotations(with(annotations, clusterctlv1.CertManagerVersionAnnotation, how.Version))
	}
	return objects, nil
}

// turn is the position of an object in the order of writes. Definitions are last, and of
// them the kind that is probed first: until it exists, a probe finds no cert-manager, so
// that the next run after an interruption installs the rest.
func turn(obj *unstructured.Unstructured) int {
	switch {
	case !apply.IsDefinition(obj):
		return 0
	case obj.GetName() != "issuers.cert-manager.io":
		return 1
	}
	return 2
}

func with(m map[string]string, pairs ...string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

// Images returns the images that an installation would use.
func (m *CertManager) Images(ctx context.Context) ([]string, error) {
	how, err := m.Config.CertManager()
	if err != nil || how.ExternallyProvisioned {
		return nil, err
	}
	objects, err := m.load(ctx, how)
	if err != nil {
		return nil, err
	}
	return components.ReplaceImages(objects, component, nil)
}

// CertManagerState is how the installed version relates to the configured one.
type CertManagerState struct {
	// Theirs is true when cert-manager is not managed by Capstan, or is not installed.
	Theirs bool
	// From and To are versions; Due means that To must be installed in place of From.
	From, To string
	Due      bool

	objects, live []*unstructured.Unstructured
	how           config.CertManager
}

// Plan compares the installed version with the configuration.
func (m *CertManager) Plan(ctx context.Context) (CertManagerState, error) {
	how, err := m.Config.CertManager()
	if err != nil {
		return CertManagerState{}, err
	}
	s := CertManagerState{To: how.Version, how: how}
	s.live, err = m.Cluster.Labelled(ctx, map[string]string{clusterctlv1.ClusterctlCoreLabel: clusterctlv1.ClusterctlCoreLabelCertManagerValue}, "")
	if s.Theirs = len(s.live) == 0 || how.ExternallyProvisioned; err != nil || s.Theirs {
		return s, err
	}
	if s.objects, err = m.load(ctx, how); err != nil {
		return s, err
	}
	s.From, s.Due, err = s.due()
	return s, err
}

// due compares the installed state with the desired state: versions, and if they are
// equal, the number of objects and their images.
func (s *CertManagerState) due() (from string, due bool, err error) {
	for _, obj := range s.live {
		v, ok := obj.GetAnnotations()[clusterctlv1.CertManagerVersionAnnotation]
		if !ok {
			return "", true, nil // written before versions were recorded
		}
		if from == "" || older(v, from) {
			from = v
		}
	}
	if older(s.how.Version, from) {
		return from, false, nil
	}
	if older(from, s.how.Version) || build(from) != build(s.how.Version) {
		return from, true, nil
	}
	have, err := components.ReplaceImages(s.live, component, nil)
	if err != nil {
		return from, false, err
	}
	want, err := components.ReplaceImages(s.objects, component, nil)
	return from, len(s.live) != len(s.objects) || !slices.Equal(have, want), err
}

// older reports whether a precedes b; text that is no version precedes all versions.
func older(a, b string) bool {
	va, errA := version.ParseSemantic(a)
	vb, errB := version.ParseSemantic(b)
	return errB == nil && (errA != nil || va.LessThan(vb))
}

func build(v string) string {
	_, metadata, _ := strings.Cut(v, "+")
	return metadata
}

// Upgrade upgrades what Capstan installed to the configured version. Before that, it
// migrates stored objects where the new definitions drop one of their versions.
func (m *CertManager) Upgrade(ctx context.Context) error {
	s, err := m.Plan(ctx)
	if err != nil || s.Theirs || !s.Due {
		return err
	}
	m.Progress(fmt.Sprintf("Upgrading cert-manager from %s to %s", s.From, s.To))
	var old []*unstructured.Unstructured
	for _, obj := range s.live {
		switch kind := obj.GroupVersionKind(); {
		case apply.IsDefinition(obj):
			if _, err := migration.Run(ctx, m.Cluster.Client(), obj.GetName()); err != nil {
				return err
			}
		case kind.Kind == "Namespace", kind.Group == "admissionregistration.k8s.io":
		default:
			old = append(old, obj)
		}
	}
	if err := m.Cluster.Delete(ctx, old); err != nil {
		return fmt.Errorf("upgrade cert-manager: %w", err)
	}
	return m.install(ctx, s.how, s.objects)
}
