// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/clusterctl/apply"
	"github.com/capstan-dev/capstan/clusterctl/inventory"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/manifests"
)

// Source provides releases.
type Source interface {
	// Release reads the components of a version of a provider, the latest if none is
	// named, for a namespace, its own if that is empty.
	Release(ctx context.Context, w Wanted, namespace string) (Release, error)
	// Versions returns the released versions, in any order.
	Versions(ctx context.Context, w Wanted) ([]string, error)
	// Metadata returns that of a version.
	Metadata(ctx context.Context, w Wanted, version string) (*clusterctlv1.Metadata, error)
}

// Certificates installs a controller that issues the Certificates of providers.
type Certificates interface {
	// Ensure returns when Certificates are issued.
	Ensure(ctx context.Context) error
}

// Installer installs providers on one management cluster.
type Installer struct {
	Cluster *apply.Cluster
	Source  Source
	// Certificates is nil where they are issued by other means.
	Certificates Certificates
	// Progress receives what happens, for people.
	Progress func(text string)
}

// InitOptions define what to install.
type InitOptions struct {
	Selection Selection
	// Namespace is where all of it is installed; empty means each provider's own.
	Namespace string
	// Lenient only reports what Validate finds, and continues.
	Lenient bool
	// Wait is how long to wait for the controllers to be available, including those that
	// are installed already; 0 does not wait.
	Wait time.Duration
}

// InitResult is the result of an installation.
type InitResult struct {
	// First is true when no core provider was installed before.
	First bool
	// Installed are the providers that were installed.
	Installed []clusterctlv1.Provider
	// BuiltIn are those that the management cluster provides itself.
	BuiltIn inventory.Providers
}

// Init installs providers, core first. It reads and checks everything before the first
// write. An interrupted installation is resumed by running it again: what a provider
// needs is written before the provider is recorded in the inventory, and the core of a
// first installation is recorded last, so that it stays the first until it is complete.
func (i *Installer) Init(ctx context.Context, o InitOptions) (InitResult, error) {
	if err := i.Cluster.Supported(); err != nil {
		return InitResult{}, err
	}
	inv := inventory.New(i.Cluster.Client())
	installed, err := inv.List(ctx)
	if err != nil {
		return InitResult{}, err
	}
	if err := CheckCore(ctx, i.Cluster, contract.Versions()[:1]); err != nil {
		return InitResult{}, err
	}
	result := InitResult{First: len(installed.OfType(clusterctlv1.CoreProviderType)) == 0, BuiltIn: installed.BuiltIn()}
	releases, there, err := i.releases(ctx, o, installed, result.First)
	if err != nil {
		return result, err
	}
	if len(releases) > 0 {
		if err := i.prepare(ctx, inv, o, installed, releases); err != nil {
			return result, err
		}
		if result.Installed, err = i.install(ctx, inv, releases, result.First); err != nil {
			return result, err
		}
	}
	return result, i.wait(ctx, o, append(there, releases...))
}

// prepare checks releases, and installs what all of them need.
func (i *Installer) prepare(ctx context.Context, inv inventory.Inventory, o InitOptions, installed inventory.Providers, releases []Release) error {
	if err := i.check(ctx, o, installed, releases); err != nil {
		return err
	}
	if err := inv.Ensure(ctx); err != nil {
		return err
	}
	if i.Certificates == nil {
		return nil
	}
	return i.Certificates.Ensure(ctx)
}

// CheckCore refuses a cluster whose core stores its objects at a version other than the
// given ones. A cluster without a core passes.
func CheckCore(ctx context.Context, c *apply.Cluster, versions []string) error {
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	err := c.Client().Get(ctx, client.ObjectKey{Name: "clusters.cluster.x-k8s.io"}, crd)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get CustomResourceDefinition clusters.cluster.x-k8s.io: %w", err)
	}
	stored, err := storedAt(crd)
	if err == nil && !slices.Contains(versions, stored) {
		return fmt.Errorf("the core provider of the management cluster keeps the contract %s, and %s is needed: upgrade it first (`upgrade plan`, or that of a program which knows it)", stored, strings.Join(versions, " or "))
	}
	return err
}

// storedAt is the version at which objects of a definition are stored.
func storedAt(crd *unstructured.Unstructured) (string, error) {
	versions, _, err := contract.At[[]any]("spec.versions").Get(crd)
	for _, v := range versions {
		if m, ok := v.(map[string]any); ok && m["storage"] == true {
			return fmt.Sprint(m["name"]), nil
		}
	}
	return "", err
}

// releases reads the desired releases from their source: those that must be installed,
// and those that are present.
func (i *Installer) releases(ctx context.Context, o InitOptions, installed inventory.Providers, first bool) (all, present []Release, err error) {
	selection := o.Selection
	if first {
		selection = selection.withDefaults(installed)
	}
	wanted, err := selection.Wanted()
	if err != nil {
		return nil, nil, err
	}
	if o.Namespace == manifests.Namespace {
		return nil, nil, fmt.Errorf("namespace %s is for what a management cluster has built in: choose another", manifests.Namespace)
	}
	for _, w := range wanted {
		there := installed.Named(w.Name, w.Type)
		if builtIn := there.BuiltIn(); len(builtIn) > 0 {
			i.Progress(fmt.Sprintf("%s %s is built into the management cluster: nothing to install", w.Label(), builtIn[0].Version))
			continue
		}
		if w.Name == None {
			continue
		}
		r, err := i.Source.Release(ctx, w, o.Namespace)
		if err != nil {
			return nil, nil, err
		}
		if len(there) == 1 && there[0].Version == r.Version && there[0].Namespace == r.Namespace {
			i.Progress(fmt.Sprintf("%s is installed already", r))
			present = append(present, r)
			continue
		}
		if err := BindLocal(r, installed, i.Progress); err != nil {
			return nil, nil, err
		}
		all = append(all, r)
	}
	return all, present, nil
}

// check returns what is wrong before anything is written.
func (i *Installer) check(ctx context.Context, o InitOptions, installed inventory.Providers, releases []Release) error {
	if err := Validate(installed, releases); err != nil {
		if !o.Lenient {
			return err
		}
		i.Progress("Continuing, although " + err.Error())
	}
	p, err := Planned(releases)
	if err != nil {
		return err
	}
	if i.Certificates != nil {
		p.Coming = append(p.Coming, "cert-manager.io")
	}
	return i.Cluster.Check(ctx, p)
}

// Planned is everything that is written for releases, including their inventory objects.
func Planned(releases []Release) (p apply.Plan, err error) {
	p.Coming = []string{clusterctlv1.GroupVersion().Group}
	for _, r := range releases {
		noted, err := inventory.Written(*r.InventoryObject())
		if err != nil {
			return p, err
		}
		p.Objects = append(append(p.Objects, r.Objects()...), noted)
	}
	return p, nil
}

// install writes releases and records them.
func (i *Installer) install(ctx context.Context, inv inventory.Inventory, releases []Release, first bool) (done []clusterctlv1.Provider, err error) {
	var last []clusterctlv1.Provider // to be recorded
	for n, r := range releases {
		i.Progress(fmt.Sprintf("Installing %s in namespace %s (%d objects)", r, r.Namespace, len(r.Objects())))
		if err := i.Cluster.All(ctx, r.Objects()); err != nil {
			return done, fmt.Errorf("install %s: %w\ninstalled so far: %d of %d providers; run the same command to continue", r, err, n, len(releases))
		}
		if first && r.Provider.Type == clusterctlv1.CoreProviderType {
			last = append(last, *r.InventoryObject())
			continue
		}
		if err := inv.Record(ctx, *r.InventoryObject()); err != nil {
			return done, err
		}
		done = append(done, *r.InventoryObject())
	}
	for _, p := range last {
		if err := inv.Record(ctx, p); err != nil {
			return done, err
		}
		done = slices.Insert(done, 0, p)
	}
	return done, nil
}

// wait waits for the controllers of releases, if requested and if the releases have any.
func (i *Installer) wait(ctx context.Context, o InitOptions, releases []Release) error {
	var managers []*unstructured.Unstructured
	for _, r := range releases {
		managers = append(managers, apply.Managers(r.Objects())...)
	}
	if len(managers) == 0 {
		return nil
	}
	return WaitForManagers(ctx, i.Cluster, managers, o.Wait, i.Progress)
}

// WaitForManagers waits for Deployments of controllers for at most limit; 0 does not
// wait.
func WaitForManagers(ctx context.Context, c *apply.Cluster, managers []*unstructured.Unstructured, limit time.Duration, progress func(string)) error {
	if limit == 0 {
		return nil
	}
	progress("Waiting for providers to be available")
	limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("providers are not available after %s", limit))
	defer cancel()
	return c.WaitAvailable(limited, managers)
}
