// SPDX-License-Identifier: Apache-2.0

package items_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/kit/items"
)

func TestNamedFindsTheItemItself(t *testing.T) {
	t.Parallel()
	list := []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}}}
	all := items.Pointers(list)
	if got := items.Named(all, "b"); got != &list[1] {
		t.Errorf("found %v, want the item of the list", got)
	}
	if got := items.Named(all, "c"); got != nil {
		t.Errorf("found %v, want none", got)
	}
	if got := items.Named(items.Pointers[metav1.PartialObjectMetadata](nil), "a"); got != nil {
		t.Errorf("found %v in nothing", got)
	}
}
