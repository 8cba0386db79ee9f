// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/decisions"
)

func TestDecisionPagesServeOneObjectOrAll(t *testing.T) {
	t.Parallel()
	r := decisions.New()
	for _, namespace := range []string{"one", "two"} {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m"}}
		decisions.Add(decisions.Of(decisions.Into(t.Context(), r), "machine", m, time.Time{}), struct{}{}, "delete <"+namespace+">")
	}
	handler := DecisionPages(r)[decisions.Path]
	for path, tc := range map[string]struct {
		method string
		code   int
		want   []string
	}{
		"":                       {"GET", 200, []string{"<one>", "<two>"}},
		"machine/one/m":          {"GET", 200, []string{"<one>"}},
		"machine/two/m":          {"HEAD", 200, []string{"<two>"}},
		"machine/three/m":        {"GET", 200, nil},
		"Machine/one/m":          {"GET", 404, nil},
		"machine/one":            {"GET", 404, nil},
		"machine/one/../two/m":   {"GET", 404, nil}, // the right to read below machine/one/ covers this path
		"machine/one/%2e%2e/m":   {"GET", 404, nil},
		"machine/one/m/":         {"GET", 404, nil},
		"machine/two/m?delete=1": {"POST", 405, nil},
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(tc.method, decisions.Path+path, nil))
			body := w.Body.String()
			if w.Code != tc.code || tc.code == 200 && !strings.HasPrefix(body, `{"decisions":[`) {
				t.Errorf("%d %s, want %d", w.Code, body, tc.code)
			}
			for _, namespace := range []string{"<one>", "<two>"} {
				want := strings.Contains(fmt.Sprint(tc.want), namespace)
				if strings.Contains(body, namespace) != want {
					t.Errorf("has %s: %v, in %s", namespace, !want, body)
				}
			}
		})
	}
}
