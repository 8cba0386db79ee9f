// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"testing"

	dto "github.com/prometheus/client_model/go"
)

// counted sums up requests by code.
func (w *world) counted(t testing.TB) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for _, m := range w.series(t, "capi_runtime_sdk_requests_total") {
		out[label(m, "code")] += m.GetCounter().GetValue()
	}
	return out
}

func (w *world) series(t testing.TB, name string) []*dto.Metric {
	t.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()
		}
	}
	return nil
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}
