// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"context"
	"errors"
	"testing"
	"time"
)

func step(name string, next Next, err error) Phase[*[]string] {
	return Do(name, func(_ context.Context, ran *[]string) (Next, error) {
		*ran = append(*ran, name)
		return next, err
	})
}

func TestInOrderStopsAtWait(t *testing.T) {
	var ran []string
	res, err := InOrder(
		step("a", RequeueAfter(time.Minute), nil),
		step("b", Wait(5*time.Second), nil),
		step("c", Continue(), nil))(t.Context(), &ran)
	if err != nil || res.RequeueAfter != 5*time.Second || len(ran) != 2 {
		t.Errorf("ran %v, result %v, error %v", ran, res, err)
	}
}

func TestAFailureKeepsTheTimersOfOtherPhases(t *testing.T) {
	for name, run := range map[string]func(...Phase[*[]string]) Steps[*[]string]{
		"in order": InOrder[*[]string], "all": All[*[]string],
	} {
		var ran []string
		res, err := run(
			step("a", RequeueAfter(time.Minute), nil),
			step("b", RequeueAfter(time.Second), errors.New("quota")))(t.Context(), &ran)
		if err == nil || res.RequeueAfter != time.Second {
			t.Errorf("%s: result %v, error %v", name, res, err)
		}
	}
}

func TestAllRunsEverythingAndNamesTheFailure(t *testing.T) {
	var ran []string
	_, err := All(
		step("bootstrap", Continue(), errors.New("no data secret")),
		step("node", Continue(), nil))(t.Context(), &ran)
	if len(ran) != 2 || err == nil || err.Error() != "bootstrap: no data secret" {
		t.Errorf("ran %v, error %v", ran, err)
	}
}

func TestAPanicIsTheErrorOfItsPhase(t *testing.T) {
	broken := Do("endpoint", func(context.Context, *[]string) (Next, error) { panic("index out of range") })
	for name, run := range map[string]func(...Phase[*[]string]) Steps[*[]string]{
		"in order": InOrder[*[]string], "all": All[*[]string],
	} {
		_, err := run(broken)(t.Context(), new([]string))
		if err == nil || err.Error() != "endpoint: panic: index out of range" {
			t.Errorf("%s: error = %v, want the panic", name, err)
		}
	}
}
