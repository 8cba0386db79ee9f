// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"strings"
	"testing"
)

func TestLatest(t *testing.T) {
	t.Parallel()
	series := []string{"1.8 v1alpha4", "1.9 v1beta1", "1.10 v1beta1", "1.11 v1beta2", "2.0 v1beta3"}
	for name, tc := range map[string]struct {
		versions string // those in parentheses have no files
		series   []string
		contract string
		want     string
		err      string
	}{
		"the newest":                         {"v1.9.0 v1.10.0 v1.9.1", series, "", "v1.10.0", ""},
		"a release before a pre-release":     {"v1.10.0-rc.1 v1.9.1 v2.0.0-alpha.0", series, "", "v1.9.1", ""},
		"a pre-release if there is no other": {"v1.10.0-alpha.1 v1.10.0-beta.0", series, "", "v1.10.0-beta.0", ""},
		"without its files":                  {"v1.9.0 (v1.10.0) (v1.10.1)", series, "", "v1.9.0", ""},
		"without the files of five":          {"v1.9.0 (v1.10.0) (v1.10.1) (v1.10.2) (v1.10.3) (v1.10.4)", series, "", "", "has no file metadata.yaml"},
		"of the contract":                    {"v1.10.0 v1.10.1 v1.11.0 v2.0.0", series, "v1beta1", "v1.10.1", ""},
		"of the contract, which is newest":   {"v1.10.0 v1.11.0 v1.11.1", series, "v1beta2", "v1.11.1", ""},
		"of the contract, a pre-release":     {"v1.10.0 v1.11.0-rc.0 v2.0.0", series, "v1beta2", "v1.11.0-rc.0", ""},
		"of two series of the contract":      {"v1.9.0 v1.9.1 v1.10.0-rc.0 v2.0.0", series, "v1beta1", "v1.9.1", ""},
		"of the contract, with its files":    {"v1.11.0 (v1.11.1) v2.0.0", series, "v1beta2", "v1.11.0", ""},
		"of a contract that is understood":   {"v1.9.0 v1.10.0", series[:3], "v1beta2", "v1.10.0", ""},
		"of an old contract, where none is":  {"v1.9.0 v1.10.0", series[:3], "v1alpha3", "", "no release keeps the contract v1alpha3: by metadata.yaml of release v1.10.0, the series are 1.8 (v1alpha4), 1.9 (v1beta1), 1.10 (v1beta1)"},
		"of a series without a release":      {"v1.9.0 v1.10.0", series, "v1beta2", "v1.10.0", ""}, // as OpenStack v0.14.0 has one
		"of no series with a release":        {"v2.0.0", series, "v1beta2", "", "no release keeps the contract v1beta2"},
		"none":                               {"nonsense", nil, "", "", "there is no release whose tag is a semantic version"},
		"without a v":                        {"1.9.0 1.10.0", series, "v1beta1", "1.10.0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{}
			for _, v := range strings.Fields(tc.versions) {
				name, files2 := strings.Trim(v, "()"), metadataFor(tc.series...)
				if v == name {
					files[name+"/metadata.yaml"] = files2
				} else {
					files[name+"/other.yaml"] = ""
				}
			}
			r, _ := repositoryOf(t, "latest", files)
			got, err := Latest(t.Context(), r, tc.contract)
			if tc.err != "" {
				wantError(t, err, tc.err)
			} else if err != nil || got != tc.want {
				t.Errorf("%s, %v, want %s", got, err, tc.want)
			}
		})
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	files := map[string]string{"v1.0.0/metadata.yaml": metadataFor("1.0 v1beta2"), "v1.0.1/metadata.yaml": metadataFor("1.0 v1beta2")}
	for _, tc := range []struct{ url, said, want, err string }{
		{"latest", "", "v1.0.1", ""},
		{"v1.0.0", "", "v1.0.0", ""},
		{"v1.0.0", "latest", "v1.0.1", ""},
		{"latest", "v0.1.0", "v0.1.0", ""},
		{"latest", "newest", "", `"newest" is no semantic version`},
	} {
		r, _ := repositoryOf(t, tc.url, files)
		got, err := Resolve(t.Context(), r, tc.said)
		if tc.err != "" {
			wantError(t, err, tc.err)
		} else if err != nil || got != tc.want {
			t.Errorf("%s, %v, want %s", got, err, tc.want)
		}
	}
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	good := metadataFor("0.3 v1alpha3", "1.0 v1beta1")
	for name, tc := range map[string]struct {
		text string
		want []string // of the error
	}{
		"good":                    {good, nil},
		"with a mark and CRLF":    {"\ufeff---\r\n" + strings.ReplaceAll(good, "\n", "\r\n"), nil},
		"with names of its own":   {"metadata: {name: x}\n" + good, nil},
		"empty":                   {"", []string{`apiVersion is ""`, "releaseSeries has no series"}},
		"without a kind":          {strings.Replace(good, "kind: Metadata\n", "", 1), nil},
		"of another kind":         {strings.NewReplacer("v1alpha3\nkind: Metadata", "v1alpha4\nkind: Meta").Replace(good), []string{`apiVersion is "clusterctl.cluster.x-k8s.io/v1alpha4", not clusterctl.cluster.x-k8s.io/v1alpha3`, `kind is "Meta", not Metadata`}},
		"with all that is wrong":  {good + "- {major: 1, minor: 0, contract: beta}\n- {major: -1, minor: 2, contract: v1beta1, x: y}\nreleaseserie: []\n", []string{"releaseSeries[2] (1.0): this series is there already", `releaseSeries[2] (1.0): contract "beta" has not the form v1beta2`, "releaseSeries[3] (-1.2): major and minor cannot be negative", `unknown field "releaseserie"`, `unknown field "releaseSeries[3].x"`}},
		"without a contract":      {metadataFor("1.0 v1beta1") + "- {major: 1, minor: 1}\n", []string{`releaseSeries[1] (1.1): contract "" has not the form`}},
		"keys twice":              {good + "kind: Metadata\n", []string{`it is not valid YAML: yaml: unmarshal errors:`, `key "kind" already set in map`}},
		"no YAML":                 {"a: [", []string{"it is not valid YAML"}},
		"a page":                  {"<!DOCTYPE html><html>", []string{"it is no Metadata"}},
		"a text as a number":      {strings.Replace(good, "major: 0", "major: zero", 1), []string{"it is no Metadata", "releaseSeries.major"}},
		"two documents":           {good + "---\nmore: x\n", []string{"more than one document"}},
		"a document that is none": {good + "---\n- [\n", []string{"it is not valid YAML"}},
		"large":                   {good + strings.Repeat("#", maxMetadata), []string{"larger than 1 MiB"}},
		"a bomb":                  {bomb(), []string{"aliases that make too much of it"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := repositoryOf(t, "v1.0.0", map[string]string{"v1.0.0/metadata.yaml": tc.text})
			m, err := Metadata(t.Context(), r, "v1.0.0")
			if len(tc.want) == 0 && (err != nil || len(m.ReleaseSeries) != 2) {
				t.Errorf("%v, %v", m, err)
			}
			for _, want := range append(tc.want, "metadata.yaml of release v1.0.0: ")[:len(tc.want)] {
				wantError(t, err, want)
			}
		})
	}
}

// bomb is a document whose aliases expand to 9^9 items.
func bomb() string {
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i, before := range []string{"a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7"} {
		name := "a" + string(rune('1'+i))
		text += name + ": &" + name + " [" + strings.TrimSuffix(strings.Repeat("*"+before+", ", 9), ", ") + "]\n"
	}
	return text
}

func TestTheContractOfAVersion(t *testing.T) {
	t.Parallel()
	m, err := parseMetadata([]byte(metadataFor("1.10 v1beta2", "1.9 v1beta1")))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Contract(m, "v1.9.7-rc.0"); err != nil || got != "v1beta1" {
		t.Errorf("%s, %v", got, err)
	}
	_, err = Contract(m, "v1.11.0")
	wantError(t, err, "metadata.yaml has no series 1.11 of version v1.11.0, but 1.9 (v1beta1), 1.10 (v1beta2)")
}
