// SPDX-License-Identifier: Apache-2.0

package changeplan_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/internal/app/changeplan"
)

// identified is a management cluster that can be identified.
func identified(t *testing.T, uid string, changed ...func(client.Object)) mgmt {
	t.Helper()
	m := serve(t, changed...)
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}
	if err := m.world.Put(system); err != nil {
		t.Fatal(err)
	}
	m.Client = withUID{m.Client, uid}
	return m
}

func save(t *testing.T, m mgmt, change ...changeplan.Write) *planv1.SavedPlan {
	t.Helper()
	s, err := changeplan.Save(t.Context(), changeplan.Options{Mgmt: m, Now: now, Program: "v1"}, change)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSavedPlanIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	m := identified(t, "here")
	s := save(t, m, upgrade())
	file := filepath.Join(t.TempDir(), "a.plan")
	if err := changeplan.WriteSaved(file, s); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v: the file has the change, and with it Secrets", info.Mode(), err)
	}
	got, err := changeplan.ReadSaved(file)
	if err != nil {
		t.Fatal(err)
	}
	if got.ID() != s.ID() || len(got.ID()) != 12 || got.Plan.Summary != s.Plan.Summary || got.Plan.Summary.Replaced == 0 {
		t.Errorf("plan %s, %+v, want %s, %+v", got.ID(), got.Plan.Summary, s.ID(), s.Plan.Summary)
	}
	stale, err := changeplan.Stale(t.Context(), changeplan.Options{Mgmt: m, Now: now}, got)
	if err != nil || len(stale) > 0 {
		t.Errorf("nothing has changed: %v, %v", stale, err)
	}
	if err := changeplan.SameManagement(t.Context(), m, got); err != nil {
		t.Error(err)
	}
	if err := changeplan.SameManagement(t.Context(), identified(t, "elsewhere"), got); err == nil || !strings.Contains(err.Error(), "another management cluster") {
		t.Errorf("of another management cluster: %v", err)
	}
}

func TestSavedPlanThatIsNotWholeIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "a.plan")
	if err := changeplan.WriteSaved(file, save(t, identified(t, "here"), shrink())); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		content []byte
		want    string
	}{
		"cut off":            {whole[:len(whole)/2], "is cut off"},
		"empty":              {nil, "is no saved plan"},
		"of another kind":    {bytes.Replace(whole, []byte(`"SavedPlan"`), []byte(`"Plan"`), 1), "has plan.capstan.dev/v1alpha1 Plan, and not a SavedPlan"},
		"of another version": {bytes.Replace(whole, []byte(`plan.capstan.dev/v1alpha1`), []byte(`plan.capstan.dev/v2`), 1), "has plan.capstan.dev/v2 SavedPlan"},
		"forged":             {bytes.Replace(whole, []byte(`"action": "Kept"`), []byte(`"action": "Deleted"`), 1), "was changed after it was saved"},
		"YAML":               {[]byte("kind: SavedPlan\n"), "is no saved plan"},
	} {
		broken := filepath.Join(dir, "broken")
		if err := os.WriteFile(broken, tc.content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := changeplan.ReadSaved(broken); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

func TestStaleNamesWhatHasChanged(t *testing.T) {
	t.Parallel()
	s := save(t, identified(t, "here"), set("MachineDeployment", "plain-workers", int64(3), "spec", "replicas"))
	sick := func(obj client.Object) {
		if m, is := obj.(*clusterv1.Machine); is && m.Spec.ClusterName == "plain" {
			m.Status.Conditions[0].Message = "something else"
		}
	}
	taken := func(obj client.Object) {
		if d, is := obj.(*clusterv1.MachineDeployment); is && d.Name == "plain-workers" {
			d.Spec.Replicas = new(int32(2))
		}
	}
	touched := func(obj client.Object) {
		obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "x", Operation: "Update"}})
	}
	for name, tc := range map[string]struct {
		change func(client.Object)
		want   []string
	}{
		"managed fields alone": {touched, nil},
		"status of Machines":   {sick, []string{"Machine default/plain-control-plane-* has changed", "Machine default/plain-workers-* has changed"}},
		"the object itself":    {taken, []string{"MachineDeployment default/plain-workers has changed", "the change does something else to MachineDeployment plain-workers now"}},
	} {
		got, err := changeplan.Stale(t.Context(), changeplan.Options{Mgmt: identified(t, "here", tc.change), Now: now}, s)
		if err != nil {
			t.Fatal(err)
		}
		for i, text := range got {
			for _, prefix := range []string{"plain-control-plane-", "plain-workers-"} {
				if before, after, found := strings.Cut(text, prefix); found {
					_, rest, _ := strings.Cut(after, " ")
					got[i] = before + prefix + "* " + rest
				}
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestStaleTriesAllObjects has a server that refuses the last object of a saved plan now.
func TestStaleTriesAllObjects(t *testing.T) {
	t.Parallel()
	m := identified(t, "here")
	label := func(name string) changeplan.Write {
		return set("MachineDeployment", name, "b", "metadata", "labels", "a")
	}
	var workers clusterv1.MachineDeploymentList
	if err := m.List(t.Context(), &workers, client.MatchingLabels{clusterv1.ClusterNameLabel: "demo"}); err != nil || len(workers.Items) != 1 {
		t.Fatalf("%d MachineDeployments, error %v", len(workers.Items), err)
	}
	last := workers.Items[0].Name
	s := save(t, m, shrink(), label(last))
	m.Client = refusing{m.Client, last}
	if stale, err := changeplan.Stale(t.Context(), changeplan.Options{Mgmt: m, Now: now}, s); err == nil || !strings.Contains(err.Error(), "the management cluster refuses the change of MachineDeployment default/"+last+": no") {
		t.Errorf("%v, error %v", stale, err)
	}
}

// refusing refuses to patch an object.
type refusing struct {
	client.Client
	name string
}

// Patch implements client.Writer.
func (c refusing) Patch(ctx context.Context, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
	if obj.GetName() == c.name {
		return errors.New("no")
	}
	return c.Client.Patch(ctx, obj, p, opts...)
}

func TestSavedPlanHasNoDigestOfASecretsContent(t *testing.T) {
	t.Parallel()
	other := func(obj client.Object) {
		if secret, is := obj.(*corev1.Secret); is && len(secret.Data) > 0 {
			for key := range secret.Data {
				if key == "value" {
					secret.Data[key] = []byte("another value")
				}
			}
		}
	}
	change := set("MachineDeployment", "plain-workers", int64(3), "spec", "replicas")
	a, b := save(t, identified(t, "here"), change), save(t, identified(t, "here", other), change)
	if diff := cmp.Diff(a.Digests, b.Digests); diff != "" {
		t.Errorf("the digests depend on the content of Secrets:\n%s", diff)
	}
}

// withUID gives the namespace kube-system, which memory does not identify, a UID.
type withUID struct {
	client.Client
	uid string
}

// Get implements client.Reader.
func (c withUID) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := c.Client.Get(ctx, key, obj, opts...)
	if _, is := obj.(*corev1.Namespace); is && key.Name == metav1.NamespaceSystem {
		obj.SetUID(types.UID(c.uid))
	}
	return err
}
