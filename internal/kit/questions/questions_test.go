// SPDX-License-Identifier: Apache-2.0

package questions

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// dinner plans a meal: it asks for the price of each item on the list in order, as
// long as the purse is not known to be empty.
func dinner(list []string, prices *Asker[string, int]) (string, error) {
	sum := 0
	for _, item := range list {
		price, known := prices.Ask(item)
		switch {
		case !known:
			return fmt.Sprintf("%d so far", sum), nil
		case price < 0:
			return "none", fmt.Errorf("%s: %w", item, io.EOF)
		}
		sum += price
	}
	return fmt.Sprintf("%d in all", sum), nil
}

var planner Planner[[]string, string, int, string] = dinner

func price(item string) (int, error) {
	switch item {
	case "caviar":
		return 0, errors.New("sold out")
	case "stone":
		return -1, nil
	}
	return len(item), nil
}

func TestMakeAsksForWhatThePlanNeeds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		facts         []string
		want, wantErr string
		wantAsked     string
	}{
		"nothing":              {want: "0 in all"},
		"one after the other":  {facts: []string{"soup", "bread"}, want: "9 in all", wantAsked: "soup bread"},
		"none after a failure": {facts: []string{"soup", "caviar", "bread"}, want: "4 so far", wantErr: "sold out", wantAsked: "soup caviar"},
		"none after the end":   {facts: []string{"stone", "bread"}, want: "none", wantErr: "stone: EOF", wantAsked: "stone"},
		"nor for ever":         {facts: many(30), want: "38 so far", wantErr: "the plan still asks after 20 rounds", wantAsked: strings.Join(many(20), " ")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked []string
			r, err := planner.Make(tc.facts, func(q string) (int, error) {
				asked = append(asked, q)
				return price(q)
			})
			got := ""
			if err != nil {
				got = err.Error()
			}
			if r.Plan != tc.want || got != tc.wantErr || strings.Join(asked, " ") != tc.wantAsked {
				t.Errorf("plan %q, error %q, asked %q; want %q, %q, %q", r.Plan, got, asked, tc.want, tc.wantErr, tc.wantAsked)
			}
		})
	}
}

// many lists items of two or three letters, all different.
func many(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%c%c", 'a'+i/10, 'a'+i%10))
	}
	return all
}

func TestMakeRefusesToAskTwice(t *testing.T) {
	t.Parallel()
	calls := 0
	stammers := Planner[int, string, int, int](func(_ int, a *Asker[string, int]) (int, error) {
		a.Ask("evict p0")
		a.Ask("evict p0")
		return 0, nil
	})
	_, err := stammers.Make(0, func(string) (int, error) { calls++; return 0, nil })
	if err == nil || err.Error() != "the plan asks twice: evict p0" || calls != 1 {
		t.Errorf("error %v after %d calls", err, calls)
	}
}

func TestARecordGivesTheSamePlanAgain(t *testing.T) {
	t.Parallel()
	for _, facts := range [][]string{nil, {"soup", "bread"}, {"soup", "caviar"}, {"stone", "bread"}} {
		r, err := planner.Make(facts, price)
		text, encodeErr := json.Marshal(r)
		var read Record[[]string, string, int, string]
		if encodeErr = errors.Join(encodeErr, json.Unmarshal(text, &read)); encodeErr != nil {
			t.Fatal(encodeErr)
		}
		plan, again := planner.Again(read)
		if plan != r.Plan || fmt.Sprint(again) != fmt.Sprint(err) {
			t.Errorf("%v: plan %q (%v), at first %q (%v)", facts, plan, again, r.Plan, err)
		}
	}
}

func TestAgainReturnsDifferences(t *testing.T) {
	t.Parallel()
	told := func(items ...string) (all Answers[string, int]) {
		for _, i := range items {
			all = append(all, Answer[string, int]{i, len(i)})
		}
		return all
	}
	for want, r := range map[string]Record[[]string, string, int, string]{
		"the plan asks what it did not ask then: bread":     {Facts: []string{"soup", "bread"}, Answers: told("soup")},
		"the plan asks soup, and asked bread then":          {Facts: []string{"soup"}, Answers: told("bread")},
		"the plan does not ask what it asked then: bread":   {Facts: []string{"soup"}, Answers: told("soup", "bread")},
		"the plan asks what it did not ask then: some fish": {Facts: []string{"some fish"}},
		"the plan asks what it did not ask then: rice":      {Facts: []string{"rice"}, Failure: Failed(io.EOF), Unanswered: new("fish")},
	} {
		if _, err := planner.Again(r); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func TestFailureUnwrapsCause(t *testing.T) {
	t.Parallel()
	if f := Failed(nil); f != nil {
		t.Errorf("%v of no error", f)
	}
	if err := fmt.Errorf("read: %w", Failed(io.EOF)); !errors.Is(err, io.EOF) || err.Error() != "read: EOF" {
		t.Errorf("error %v is not the one that happened", err)
	}
	text, err := json.Marshal(Failed(io.EOF))
	if diff := cmp.Diff(`"EOF"`, string(text)); err != nil || diff != "" {
		t.Error(err, diff)
	}
}
