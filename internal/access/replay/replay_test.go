// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/internal/kit/decisions"
)

// suspicious matches names of fields that may hold a secret.
var suspicious = regexp.MustCompile(`(?i)passw|token|secret|key$|keys$|content|data|cert|config$|credential|command|script|user|value$|args$|env$`)

// within is the field of an object in which values of a type are, where that matters.
var within = map[string]string{
	"v1.EnvVar": "env", "v1beta2.KubeConfigAuthExecEnv": "env", "v1beta2.Arg": "extraArgs", "v1.HTTPHeader": "httpHeaders", "v1beta2.KubeConfigAuthProvider": "authProvider",
}

// harmless are the fields that hold no secret although their names suggest it, by field
// or by type and field.
var harmless = func() map[string]string {
	all := map[string]string{"v1beta2.KubeConfigCluster.certificateAuthorityData": "a public certificate", "v1beta2.JoinConfiguration.caCertPath": "a path"}
	for why, names := range map[string]string{
		"the name of an object":   "dataSecretName secretName gmsaCredentialSpecName datasetName datasetUUID",
		"the name of a user":      "user runAsUserName",
		"a key, not its value":    "key kubeletConfigKey",
		"the name of a label":     "matchLabelKeys mismatchLabelKeys topologyKey",
		"a path":                  "certificateChainPath certificatesDir certFile dataDir",
		"a public name or digest": "certSANs peerCertSANs serverCertSANs caCertHashes contentFormat description",
		"part of a request":       "userAnnotations attachmentMetadata",
	} {
		for _, name := range strings.Fields(names) {
			all[name] = why
		}
	}
	for _, of := range []string{"v1.Taint", "v1.Toleration", "v1beta2.MachineTaint", "v1.Sysctl", "v1.PodDNSConfigOption"} {
		all[of+".value"] = "a setting"
	}
	return all
}()

// fields calls do for each field of a type, and of the types of its fields.
func fields(t reflect.Type, seen map[reflect.Type]bool, do func(owner reflect.Type, name string, of reflect.Type)) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		fields(t.Elem(), seen, do)
	case reflect.Map:
		fields(t.Key(), seen, do)
		fields(t.Elem(), seen, do)
	case reflect.Struct:
		if seen[t] {
			return
		}
		seen[t] = true
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "-" || !f.IsExported() {
				continue
			}
			if name == "" {
				name = f.Name
			}
			do(t, name, f.Type)
			fields(f.Type, seen, do)
		}
	}
}

// text returns a value with which JSON can show a field of a type, if it holds texts.
func text(t reflect.Type) (any, bool) {
	const secret = "a secret value"
	switch t.Kind() {
	case reflect.String:
		return secret, true
	case reflect.Pointer:
		return text(t.Elem())
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return secret, true
		}
		v, is := text(t.Elem())
		return []any{v}, is
	case reflect.Map:
		v, is := text(t.Elem())
		return map[string]any{"a": v}, is
	}
	return nil, false
}

func TestRecordedTypesHoldNoSecrets(t *testing.T) {
	t.Parallel()
	r := decisions.New()
	used := map[string]bool{}
	for _, p := range planners() {
		for _, of := range p.types {
			fields(of, map[reflect.Type]bool{}, func(owner reflect.Type, name string, of reflect.Type) {
				for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
					if of = of.Elem(); of == reflect.TypeFor[corev1.Secret]() {
						t.Errorf("%s: %s.%s holds Secrets", p.name, owner, name)
					}
				}
			})
			fields(of, map[reflect.Type]bool{}, func(owner reflect.Type, name string, of reflect.Type) {
				value, holdsText := text(of)
				bytes := of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.Uint8
				if !holdsText || !bytes && !suspicious.MatchString(name) {
					return
				}
				obj := map[string]any{name: value}
				if list := within[owner.String()]; list != "" {
					obj = map[string]any{list: []any{obj}}
				}
				doc, err := json.Marshal(obj)
				if err != nil {
					t.Fatal(err)
				}
				key := owner.String() + "." + name
				if strings.Contains(string(r.Redact(doc)), "a secret value") {
					used[key], used[name] = true, true
					if harmless[key] == "" && harmless[name] == "" {
						t.Errorf("%s: %s is recorded as it is: redact it, or list it as harmless with the reason", p.name, key)
					}
				}
			})
		}
	}
	for key := range harmless {
		if !used[key] {
			t.Errorf("%s is listed as harmless without need", key)
		}
	}
}

// TestEveryRecordedPlannerIsReplayed finds the planners that controllers record.
func TestEveryRecordedPlannerIsReplayed(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../controller/*/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	calls := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		calls += strings.Count(string(content), "decisions.Make(") + strings.Count(string(content), "decisions.Add(")
		if strings.Contains(string(content), ".Planner.Make(") {
			t.Errorf("%s makes a plan that is not recorded: use decisions.Make", file)
		}
	}
	if want := len(planners()); calls != want {
		t.Errorf("controllers record %d planners, and %d can be replayed", calls, want)
	}
	var names []string
	for _, p := range planners() {
		names = append(names, p.name)
	}
	if slices.Sort(names); len(slices.Compact(names)) != len(planners()) {
		t.Errorf("two planners have one name: %v", names)
	}
}

func FuzzAgain(f *testing.F) {
	for i := range planners() {
		f.Add(i, `{"Want":3,"Machines":[null,{"metadata":{"name":"a"}}],"Sets":[{}],"machine":{},"Deployment":{"spec":{"replicas":2}},"Check":{}}`, `[{"question":{},"answer":{}}]`)
		f.Add(i, `{}`, ``)
	}
	f.Fuzz(func(t *testing.T, i int, facts, answers string) {
		all := planners()
		d := decisions.Decision{Planner: all[uint(i)%uint(len(all))].name, Facts: json.RawMessage(facts), Answers: json.RawMessage(answers)}
		Again(t.Context(), d) // it must return for any facts
	})
}

// TestFactsWithGeneratedNamesAreNaming finds facts that have names for objects that may be
// created: without NewNames, each retry of a refused creation would be recorded.
func TestFactsWithGeneratedNamesAreNaming(t *testing.T) {
	t.Parallel()
	found := 0
	for _, p := range planners() {
		facts := p.types[0]
		_, names := facts.FieldByName("Names")
		_, name := facts.FieldByName("Name")
		if !names && !name {
			continue
		}
		if found++; !facts.Implements(reflect.TypeFor[decisions.Naming]()) {
			t.Errorf("%s has generated names: let its facts implement decisions.Naming", p.name)
		}
	}
	if found == 0 {
		t.Error("no planner has generated names")
	}
}
