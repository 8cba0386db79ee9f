// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	theirbootstrap "sigs.k8s.io/cluster-api/bootstrap/kubeadm/webhooks/conversion"
	theircontrolplane "sigs.k8s.io/cluster-api/controlplane/kubeadm/webhooks/conversion"
	theircore "sigs.k8s.io/cluster-api/core/webhooks/conversion"

	"github.com/capstan-dev/capstan/internal/builder/conversiontests"
	"github.com/capstan-dev/capstan/internal/pure/conversion/core"
	"github.com/capstan-dev/capstan/internal/pure/conversion/kubeadm"
	"github.com/capstan-dev/capstan/internal/pure/conversion/rules"
)

// rounds is how many objects of a kind are converted each way; PEER_ROUNDS sets another
// number. With fewer, some field of a kubeadm config is never set.
func rounds(t *testing.T) int {
	n := os.Getenv("PEER_ROUNDS")
	if n == "" {
		return 300
	}
	rounds, err := strconv.Atoi(n)
	if err != nil {
		t.Fatal(err)
	}
	return rounds
}

// theirs converts as upstream does, from JSON to JSON.
type theirs struct{ up, down func([]byte) ([]byte, error) }

func theirsOf[O, H any](up func(context.Context, *O, *H) error, down func(context.Context, *H, *O) error) theirs {
	return theirs{through(up), through(down)}
}

func through[A, B any](convert func(context.Context, *A, *B) error) func([]byte) ([]byte, error) {
	return func(data []byte) (result []byte, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("%w: %v", errPanic, p)
			}
		}()
		from, to := new(A), new(B)
		if err := json.Unmarshal(data, from); err != nil {
			return nil, err
		}
		if err := convert(context.Background(), from, to); err != nil {
			return nil, err
		}
		return json.Marshal(to)
	}
}

// conversions are upstream's, by kind and older version.
var conversions = map[string]theirs{
	"Cluster v1beta1":            theirsOf(theircore.ConvertClusterV1Beta1ToHub, theircore.ConvertClusterHubToV1Beta1),
	"ClusterClass v1beta1":       theirsOf(theircore.ConvertClusterClassV1Beta1ToHub, theircore.ConvertClusterClassHubToV1Beta1),
	"Machine v1beta1":            theirsOf(theircore.ConvertMachineV1Beta1ToHub, theircore.ConvertMachineHubToV1Beta1),
	"MachineSet v1beta1":         theirsOf(theircore.ConvertMachineSetV1Beta1ToHub, theircore.ConvertMachineSetHubToV1Beta1),
	"MachineDeployment v1beta1":  theirsOf(theircore.ConvertMachineDeploymentV1Beta1ToHub, theircore.ConvertMachineDeploymentHubToV1Beta1),
	"MachinePool v1beta1":        theirsOf(theircore.ConvertMachinePoolV1Beta1ToHub, theircore.ConvertMachinePoolHubToV1Beta1),
	"MachineHealthCheck v1beta1": theirsOf(theircore.ConvertMachineHealthCheckV1Beta1ToHub, theircore.ConvertMachineHealthCheckHubToV1Beta1),
	"MachineDrainRule v1beta1":   theirsOf(theircore.ConvertMachineDrainRuleV1Beta1ToHub, theircore.ConvertMachineDrainRuleHubToV1Beta1),

	"KubeadmConfig v1beta1":               theirsOf(theirbootstrap.ConvertKubeadmConfigV1Beta1ToHub, theirbootstrap.ConvertKubeadmConfigHubToV1Beta1),
	"KubeadmConfigTemplate v1beta1":       theirsOf(theirbootstrap.ConvertKubeadmConfigTemplateV1Beta1ToHub, theirbootstrap.ConvertKubeadmConfigTemplateHubToV1Beta1),
	"KubeadmControlPlane v1beta1":         theirsOf(theircontrolplane.ConvertKubeadmControlPlaneV1Beta1ToHub, theircontrolplane.ConvertKubeadmControlPlaneHubToV1Beta1),
	"KubeadmControlPlaneTemplate v1beta1": theirsOf(theircontrolplane.ConvertKubeadmControlPlaneTemplateV1Beta1ToHub, theircontrolplane.ConvertKubeadmControlPlaneTemplateHubToV1Beta1),

	"ClusterResourceSet v1beta1":        theirsOf(theircore.ConvertClusterResourceSetV1Beta1ToHub, theircore.ConvertClusterResourceSetHubToV1Beta1),
	"ClusterResourceSetBinding v1beta1": theirsOf(theircore.ConvertClusterResourceSetBindingV1Beta1ToHub, theircore.ConvertClusterResourceSetBindingHubToV1Beta1),
	"IPAddress v1alpha1":                theirsOf(theircore.ConvertIPAddressV1Alpha1ToHub, theircore.ConvertIPAddressHubToV1Alpha1),
	"IPAddress v1beta1":                 theirsOf(theircore.ConvertIPAddressV1Beta1ToHub, theircore.ConvertIPAddressHubToV1Beta1),
	"IPAddressClaim v1alpha1":           theirsOf(theircore.ConvertIPAddressClaimV1Alpha1ToHub, theircore.ConvertIPAddressClaimHubToV1Alpha1),
	"IPAddressClaim v1beta1":            theirsOf(theircore.ConvertIPAddressClaimV1Beta1ToHub, theircore.ConvertIPAddressClaimHubToV1Beta1),
	"ExtensionConfig v1alpha1":          theirsOf(theircore.ConvertExtensionConfigV1Alpha1ToHub, theircore.ConvertExtensionConfigHubToV1Alpha1),
}

// ours are the conversions that are compared.
func ours() []rules.Kind {
	return slices.Concat(core.Kinds(), core.AddonKinds(), core.IPAMKinds(), core.RuntimeKinds(), kubeadm.Kinds())
}

// version is the lookup of both sides; one kind has none.
func version(gk schema.GroupKind) (string, error) {
	if gk.Kind == "c" {
		return "", errors.New("no version")
	}
	return gk.Group + "/v1beta1", nil
}

// TestConversionsAreTheirs converts the same objects by our functions and by upstream's,
// and requires the same JSON or an error from both: up, down, up again with the
// annotation that down wrote, and up with that annotation on an object that is entirely
// different by then.
func TestConversionsAreTheirs(t *testing.T) {
	lookup := func(_ context.Context, gk schema.GroupKind) (string, error) { return version(gk) }
	theircore.SetAPIVersionGetter(lookup)
	theircontrolplane.SetAPIVersionGetter(lookup)
	for _, k := range ours() {
		t.Run(k.Hub.Kind+" "+k.Old.Version, func(t *testing.T) {
			t.Parallel()
			theirs, ok := conversions[k.Hub.Kind+" "+k.Old.Version]
			if !ok {
				t.Fatal("no conversion of theirs to compare with")
			}
			hitOld, hitHub := map[string]bool{}, map[string]bool{}
			for seed := range rounds(t) {
				makeOld, makeHub := conversiontests.NewMaker(uint64(seed)), conversiontests.NewMaker(uint64(seed))
				old := encoded(t, makeOld.Object(reflect.TypeOf(k.NewOld()).Elem(), k.Old))
				hub := encoded(t, makeHub.Object(reflect.TypeOf(k.NewHub()).Elem(), k.Hub))
				if same(t, seed, "up", old, ourUp(k), theirs.up) != nil {
					add(hitOld, makeOld.Hit())
				}
				shown := same(t, seed, "down", hub, ourDown(k), theirs.down)
				if shown != nil {
					add(hitHub, makeHub.Hit())
					same(t, seed, "up with the annotation", shown, ourUp(k), theirs.up)
					if grafted := graft(t, shown, old); grafted != nil {
						same(t, seed, "up with the annotation of another", grafted, ourUp(k), theirs.up)
					}
				}
			}
			everyFieldIsHit(t, k.Old, k, hitOld)
			everyFieldIsHit(t, k.Hub, k, hitHub)
		})
	}
}

func ourUp(k rules.Kind) func([]byte) ([]byte, error) {
	return func(data []byte) ([]byte, error) {
		obj := k.NewOld()
		if err := json.Unmarshal(data, obj); err != nil {
			return nil, err
		}
		to, err := k.Up(obj)
		if err != nil {
			return nil, err
		}
		return json.Marshal(to)
	}
}

func ourDown(k rules.Kind) func([]byte) ([]byte, error) {
	return func(data []byte) ([]byte, error) {
		obj := k.NewHub()
		if err := json.Unmarshal(data, obj); err != nil {
			return nil, err
		}
		to, err := k.Down(obj, version)
		if err != nil {
			return nil, err
		}
		return json.Marshal(to)
	}
}

// same returns their result, nil after an error.
func same(t *testing.T, seed int, what string, data []byte, ours, theirs func([]byte) ([]byte, error)) []byte {
	t.Helper()
	got, err := ours(data)
	want, theirErr := theirs(data)
	if err == nil && (errors.Is(theirErr, errPanic) || refusesDuplicates(theirErr) || refusesNoToken(theirErr)) {
		return nil
	}
	if (err == nil) != (theirErr == nil) {
		t.Fatalf("seed %d: %s: our error is %v, theirs %v\n%s", seed, what, err, theirErr, data)
	}
	if err != nil {
		return nil
	}
	wanted, gotten, source := plain(t, want), plain(t, got), object(t, data)
	for _, level := range deviations {
		level(source, wanted, gotten)
	}
	if diff := cmp.Diff(wanted, gotten); diff != "" {
		t.Fatalf("seed %d: %s (-theirs +ours):\n%s\n%s", seed, what, diff, data)
	}
	return want
}

// value is the value at a path in a tree, nil without it.
func value(obj any, path ...string) any {
	for _, name := range path {
		of, _ := obj.(map[string]any)
		obj = of[name]
	}
	return obj
}

// plain is an object as a tree, without the version, which upstream does not set. In the
// annotation, upstream leaves empty metadata where nothing follows it.
func plain(t *testing.T, data []byte) map[string]any {
	t.Helper()
	obj := object(t, data)
	delete(obj, "apiVersion")
	delete(obj, "kind")
	if in, ok := kept(obj).(map[string]any); ok {
		delete(in, "metadata")
	}
	return obj
}

// object is an object with its annotation decoded as a tree.
func object(t *testing.T, data []byte) map[string]any {
	t.Helper()
	obj := map[string]any{}
	if err := json.Unmarshal(data, &obj); err != nil {
		t.Fatal(err)
	}
	annotations, _ := value(obj, "metadata", "annotations").(map[string]any)
	if text, ok := annotations[rules.DataAnnotation].(string); ok {
		var in map[string]any
		if err := json.Unmarshal([]byte(text), &in); err != nil {
			t.Fatal(err)
		}
		annotations[rules.DataAnnotation] = in
	}
	return obj
}

// kept is the object in an annotation.
func kept(obj map[string]any) any {
	return value(obj, "metadata", "annotations", rules.DataAnnotation)
}

// graft copies the annotation of one object to another, nil if it has none.
func graft(t *testing.T, from, to []byte) []byte {
	t.Helper()
	var a, b struct {
		Metadata map[string]any `json:"metadata"`
	}
	if err := errors.Join(json.Unmarshal(from, &a), json.Unmarshal(to, &b)); err != nil {
		t.Fatal(err)
	}
	annotations, _ := a.Metadata["annotations"].(map[string]any)
	if annotations[rules.DataAnnotation] == nil {
		return nil
	}
	obj := map[string]any{}
	if err := json.Unmarshal(to, &obj); err != nil {
		t.Fatal(err)
	}
	b.Metadata["annotations"] = annotations
	obj["metadata"] = b.Metadata
	return encoded(t, obj)
}

func encoded(t *testing.T, obj any) []byte {
	t.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func add(to, from map[string]bool) {
	for path := range from {
		to[path] = true
	}
}

// everyFieldIsHit requires that each field in the facts was set once in an object that
// both sides convert: a field that is never set is not compared.
func everyFieldIsHit(t *testing.T, gvk schema.GroupVersionKind, k rules.Kind, hit map[string]bool) {
	t.Helper()
	plural := strings.ToLower(k.Hub.Kind) + "s"
	if strings.HasSuffix(plural, "ss") {
		plural = strings.TrimSuffix(plural, "s") + "es"
	}
	file, err := os.Open(filepath.Join("..", "manifests", "testdata", "facts", "crds", fmt.Sprintf("%s_%s_%s.txt", gvk.Group, plural, gvk.Version)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var path []string
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line := lines.Text()
		text := strings.TrimLeft(line, " ")
		if strings.HasPrefix(text, "#") {
			continue
		}
		name, _, _ := strings.Cut(text, ":")
		path = append(path[:(len(line)-len(text))/2], strings.TrimSuffix(name, "*"))
		if !hit[strings.Join(path, ".")] {
			t.Errorf("%s %s: %s was never set", k.Hub.Kind, gvk.Version, strings.Join(path, "."))
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}
