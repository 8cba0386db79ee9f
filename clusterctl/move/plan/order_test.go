// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// random are objects of a namespace that own each other at random. With circles, an object
// can also own one that was created before it.
func random(t *testing.T, seed uint64, circles bool) (in Input) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	kinds := []string{"Cluster", "ClusterClass", "Machine", "MachineSet", "Secret", "ConfigMap", "ClusterResourceSet", "Identity"}
	in = Input{Namespace: "ns", Kinds: map[schema.GroupKind]Kind{}, CertificateOf: func(cluster, secret string) bool { return strings.HasPrefix(secret, cluster+"-") }}
	var lines []string
	for n := range 3 + r.IntN(30) {
		kind := kinds[r.IntN(len(kinds))]
		line := fmt.Sprintf("%s ns/o%d", kind, n)
		if kind == "Identity" {
			line = fmt.Sprintf("%s o%d", kind, n)
		}
		lines = append(lines, line)
	}
	for n, line := range lines {
		var owners []string
		for range r.IntN(3) {
			if at := r.IntN(len(lines)); at < n || circles {
				owners = append(owners, lines[at])
			}
		}
		if len(owners) > 0 {
			line += " <- " + strings.Join(owners, ", ")
		}
		rest := ""
		if r.IntN(4) == 0 {
			rest = "metadata: {labels: {clusterctl.cluster.x-k8s.io/move: ''}}"
		}
		obj := object(t, line, rest)
		obj.SetUID(types.UID(lines[n]))
		in.Kinds[obj.GroupVersionKind().GroupKind()] = Kind{GroupVersionKind: obj.GroupVersionKind(), Namespaced: obj.GetKind() != "Identity"}
		in.Objects = append(in.Objects, obj)
	}
	return in
}

// TestMakeOrdersAnyObjects: each object is planned once or left once, after all of its
// owners that move, the same in any order in which a server lists them; or a circle is
// reported that exists.
func TestMakeOrdersAnyObjects(t *testing.T) {
	t.Parallel()
	refused := 0
	for seed := range uint64(300) {
		in := random(t, seed, seed%3 == 0)
		p, err := Make(in)
		shuffled := in
		shuffled.Objects = append([]*unstructured.Unstructured{}, in.Objects...)
		rand.New(rand.NewPCG(seed, 2)).Shuffle(len(shuffled.Objects), func(i, j int) {
			shuffled.Objects[i], shuffled.Objects[j] = shuffled.Objects[j], shuffled.Objects[i]
		})
		again, errAgain := Make(shuffled)
		if fmt.Sprint(err) != fmt.Sprint(errAgain) || !reflect.DeepEqual(p, again) {
			t.Fatalf("seed %d: the plan depends on the order of objects: %v, %v", seed, err, errAgain)
		}
		if err != nil {
			refused++
			circle := (*CycleError)(nil)
			if !errors.As(err, &circle) || len(circle.Circle) < 2 || circle.Circle[0] != circle.Circle[len(circle.Circle)-1] {
				t.Fatalf("seed %d: %v", seed, err)
			}
			continue
		}
		groups, left := map[types.UID]int{}, map[string]bool{}
		for _, i := range p.Items {
			if _, twice := groups[i.UID]; twice {
				t.Fatalf("seed %d: %s is planned twice", seed, i)
			}
			groups[i.UID] = i.Group
		}
		for _, l := range p.Left {
			left[l.Object] = true
		}
		for _, obj := range in.Objects {
			group, moves := groups[obj.GetUID()]
			if moves == left[Name(obj)] && obj.GetNamespace() != "" {
				t.Fatalf("seed %d: %s moves: %t, is left: %t", seed, Name(obj), moves, left[Name(obj)])
			}
			for _, ref := range obj.GetOwnerReferences() {
				if owner, ownerMoves := groups[ref.UID]; moves && ownerMoves && owner >= group {
					t.Fatalf("seed %d: %s is in group %d, and its owner %s in group %d", seed, Name(obj), group, ref.Name, owner)
				}
			}
		}
	}
	if refused == 0 || refused > 100 {
		t.Errorf("%d of 300 have a circle", refused)
	}
}
