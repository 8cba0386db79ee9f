// SPDX-License-Identifier: Apache-2.0

package references

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestShortListOmitsOnlyManagedFields(t *testing.T) {
	t.Parallel()
	const item = `{"apiVersion":"v1","kind":"K","metadata":{"namespace":"n","name":"a","uid":"u","creationTimestamp":"2026-11-28T07:00:00Z","deletionTimestamp":"2026-11-28T08:00:00Z","labels":{"l":"1"},"annotations":{"a":"2"},"finalizers":["f"],"ownerReferences":[{"apiVersion":"v1","kind":"O","name":"o","uid":"w"}]},"spec":{"replicas":3},"status":{"conditions":[{"type":"Ready"}]}}`
	var short shortList
	for _, text := range []string{`{"items":[` + item + `]}`, `{"items":[` + strings.Replace(item, `"metadata":{`, `"metadata":{"managedFields":[{"manager":"m"}],`, 1) + `]}`} {
		if err := json.Unmarshal([]byte(text), &short); err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(short.Items[0].Object)
		if err != nil {
			t.Fatal(err)
		}
		var want map[string]any
		if err := json.Unmarshal([]byte(item), &want); err != nil {
			t.Fatal(err)
		}
		if text, _ := json.Marshal(want); string(text) != string(got) {
			t.Errorf("got  %s\nwant %s", got, text)
		}
	}
	if err := json.Unmarshal([]byte(`{"apiVersion":"apps/v1","kind":"DeploymentList","items":[{"metadata":{"name":"a"}}]}`), &short); err != nil || short.Items[0].GroupVersionKind().String() != "apps/v1, Kind=Deployment" {
		t.Errorf("an item without a kind is a %s (%v)", short.Items[0].GroupVersionKind(), err)
	}
	if err := json.Unmarshal([]byte(`{"items":{}}`), &short); err == nil {
		t.Error("an object was read as a list")
	}
}
