// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/extensionconfig"
)

const success = `{"status":"Success"}`

func TestCallSendsWhatTheHandlerUnderstands(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), serve(t, `{"status":"Success","message":"go","retryAfterSeconds":3}`)
	config := e.config("ext", handles("Upgrade-It", "BeforeClusterUpgrade"))
	config.Spec.Settings = map[string]string{"a": "config", "b": "config"}
	w.set(t, config)
	request := &BeforeClusterUpgradeRequest{Cluster: *demo(), From: "v1.35.0", To: "v1.36.0", Reason: "why not"}
	request.Settings = map[string]string{"b": "request", "c": "request"}
	before := request.DeepCopyObject()
	response := &BeforeClusterUpgradeResponse{}
	if err := w.CallExtension(t.Context(), BeforeClusterUpgrade, demo(), "Upgrade-It.ext", request, response); err != nil {
		t.Fatal(err)
	}
	cluster := map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
		"metadata": map[string]any{"name": "demo", "namespace": "default", "uid": "demo-uid"}, "spec": map[string]any{},
	}
	want := []received{{Path: "/" + v1alpha1 + "/beforeclusterupgrade/upgrade-it", Body: map[string]any{
		"apiVersion": v1alpha1, "kind": "BeforeClusterUpgradeRequest", "cluster": cluster,
		"fromKubernetesVersion": "v1.35.0", "toKubernetesVersion": "v1.36.0",
		"settings": map[string]any{"a": "config", "b": "request", "c": "request"},
	}}}
	got := e.received()
	delete(got[0].Body["cluster"].(map[string]any), "spec") // its zero value is not relevant here
	delete(cluster, "spec")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	if response.Message != "go (as v1alpha1 says)" || response.RetryAfterSeconds != 3 || response.APIVersion != v1alpha2 || response.Kind != "BeforeClusterUpgradeResponse" {
		t.Errorf("response: got %+v", response)
	}
	if diff := cmp.Diff(before, request); diff != "" {
		t.Errorf("the caller's request was changed (-before +after):\n%s", diff)
	}
}

func TestCallOfTheSameVersionLeavesTheCallersRequestAlone(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), serve(t, success)
	config := e.config("ext", handles("h", "BeforeClusterCreate"))
	config.Spec.Settings = map[string]string{"a": "config"}
	w.set(t, config)
	request := &hooksv1.BeforeClusterCreateRequest{Cluster: *demo()}
	request.Settings = map[string]string{"b": "request"}
	before := request.DeepCopy()
	response := &hooksv1.BeforeClusterCreateResponse{}
	response.Message, response.RetryAfterSeconds = "from before", 12
	if err := w.CallExtension(t.Context(), hooksv1.BeforeClusterCreate, demo(), "h.ext", request, response); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, request); diff != "" {
		t.Errorf("the caller's request was changed (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"a": "config", "b": "request"}, e.received()[0].Body["settings"]); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	if response.Message != "" || response.RetryAfterSeconds != 0 {
		t.Errorf("response: got %+v, want nothing of what it held before", response)
	}
}

func TestCallRefusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), serve(t, success)
	w.set(t, e.config("ext", handles("create", "BeforeClusterCreate"), handles("patch", "GeneratePatches")), e.config("bare"))
	create, created := &hooksv1.BeforeClusterCreateRequest{}, &hooksv1.BeforeClusterCreateResponse{}
	tests := map[string]struct {
		hook     any
		handler  string
		request  hooksv1.RequestObject
		response hooksv1.ResponseObject
		want     string
	}{
		"an unknown hook": {func(*int, *int) {}, "create.ext", create, created,
			`call extension handler "create.ext": look up hook TestCallRefusesWhatDoesNotFit.func1: it is not in this catalog`},
		"no hook": {nil, "create.ext", create, created, `call extension handler "create.ext": look up a hook: <nil> is not a function`},
		"another request": {hooksv1.BeforeClusterDelete, "create.ext", create, &hooksv1.BeforeClusterDeleteResponse{},
			`call extension handler "create.ext": hook BeforeClusterDelete takes a *v1alpha1.BeforeClusterDeleteRequest: got *v1alpha1.BeforeClusterCreateRequest`},
		"another response": {hooksv1.BeforeClusterCreate, "create.ext", create, &hooksv1.BeforeClusterDeleteResponse{},
			`call extension handler "create.ext": hook BeforeClusterCreate answers with a *v1alpha1.BeforeClusterCreateResponse: got *v1alpha1.BeforeClusterDeleteResponse`},
		"a nil request": {hooksv1.BeforeClusterCreate, "create.ext", (*hooksv1.BeforeClusterCreateRequest)(nil), created,
			`call extension handler "create.ext": hook BeforeClusterCreate takes a *v1alpha1.BeforeClusterCreateRequest: got *v1alpha1.BeforeClusterCreateRequest`},
		"a nil response": {hooksv1.BeforeClusterCreate, "create.ext", create, nil,
			`call extension handler "create.ext": hook BeforeClusterCreate answers with a *v1alpha1.BeforeClusterCreateResponse: got <nil>`},
		"a handler of another hook": {hooksv1.BeforeClusterCreate, "patch.ext", create, created,
			`call extension handler "patch.ext" of hook BeforeClusterCreate for Cluster default/demo: it answers hook ` + v1alpha1 + `/GeneratePatches`},
		"a name without a config": {hooksv1.BeforeClusterCreate, "create", create, created,
			`handler "create" is not known: a name is a handler's name, a dot, and an ExtensionConfig's name`},
		"a config that is not there": {hooksv1.BeforeClusterCreate, "create.other", create, created,
			`handler "create.other" is not known: ExtensionConfig "other" does not exist or was never discovered`},
		"a config without handlers": {hooksv1.BeforeClusterCreate, "create.bare", create, created,
			`handler "create.bare" is not known: ExtensionConfig "bare" has no handlers`},
		"a handler that is not there": {hooksv1.BeforeClusterCreate, "creat.ext", create, created,
			`handler "creat.ext" is not known: ExtensionConfig "ext" has create.ext, patch.ext`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := w.CallExtension(t.Context(), tc.hook, demo(), tc.handler, tc.request, tc.response)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want it to hold %s", err, tc.want)
			}
		})
	}
	err := w.CallAllExtensions(t.Context(), hooksv1.GeneratePatches, demo(), &hooksv1.GeneratePatchesRequest{}, &hooksv1.GeneratePatchesResponse{})
	if want := "its answers cannot be made one"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("all of GeneratePatches: got %v, want it to hold %s", err, want)
	}
	if n := e.calls(); n != 0 {
		t.Errorf("%d calls were made, want none", n)
	}
}

// answers are responses of a server, by their effect in the client.
var answers = map[string]struct {
	handle  http.HandlerFunc
	failure bool   // status Failure
	want    string // of the error with failurePolicy Fail
	code    string // of the metric
}{
	"Failure":         {write(200, `{"status":"Failure","message":"no quota"}`), true, "the extension answered Failure: no quota", "200"},
	"rubbish":         {write(200, `{"status":`), false, "decode answer", "Unusable"},
	"no body":         {write(200, ``), false, "decode answer: it is empty", "Unusable"},
	"another kind":    {write(200, `{"kind":"DiscoveryResponse","status":"Success"}`), false, "want a BeforeClusterCreateResponse", "Unusable"},
	"an odd status":   {write(200, `{"status":"Maybe"}`), false, `status "Maybe"`, "Unusable"},
	"a negative wait": {write(200, `{"status":"Success","retryAfterSeconds":-5}`), false, "retryAfterSeconds -5", "Unusable"},
	"HTTP 404":        {write(404, success), false, "404", "404"},
	"HTTP 500":        {write(500, success), false, "500", "500"},
	"a redirect":      {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, false, "redirects are not followed", "302"},
	"a broken line":   {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, false, "server 127.0.0.1", "Connection"},
	"not JSON at all": {func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html>")
	}, false, "text/html", "ContentType"},
}

func write(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestFailurePolicyIgnoreHidesUnusableAnswersAlone(t *testing.T) {
	t.Parallel()
	for name, tc := range answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := serveFunc(t, tc.handle)
			for policy, handler := range map[string]runtimev1.ExtensionHandler{
				"Fail": handles("h", "BeforeClusterCreate"), "Ignore": ignoring(handles("h", "BeforeClusterCreate")),
			} {
				w := newWorld(t)
				w.set(t, e.config("ext", handler))
				got := &hooksv1.BeforeClusterCreateResponse{}
				got.Message, got.RetryAfterSeconds = "from before", 12
				err := w.CallAllExtensions(t.Context(), hooksv1.BeforeClusterCreate, demo(), &hooksv1.BeforeClusterCreateRequest{Cluster: *demo()}, got)
				if counted := w.counted(t); counted[tc.code] != 1 {
					t.Errorf("%s: metric: got %v, want one of code %s", policy, counted, tc.code)
				}
				_, failed := errors.AsType[*extensionconfig.FailureError](err)
				if failed != tc.failure {
					t.Errorf("%s: is a FailureError: got %v, want %v", policy, failed, tc.failure)
				}
				if policy == "Ignore" && !tc.failure {
					if err != nil || got.Status != hooksv1.ResponseStatusSuccess || got.Message != "" || got.RetryAfterSeconds != 0 {
						t.Errorf("Ignore: got %+v, %v, want an empty Success", got, err)
					}
					continue
				}
				if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), `call extension handler "h.ext" of hook BeforeClusterCreate for Cluster default/demo: `) {
					t.Errorf("%s: got %v, want handler, hook, object and %s", policy, err, tc.want)
				}
				if got.Status != "" || got.Message != "" {
					t.Errorf("%s: got %+v in addition to the error, want nothing", policy, got)
				}
			}
		})
	}
}

func TestFailurePolicyIgnoreDoesNotTakeSilenceForAMachineThatIsUpdated(t *testing.T) {
	t.Parallel()
	e := serveFunc(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	w := newWorld(t)
	w.set(t, e.config("ext", ignoring(handles("h", "UpdateMachine"))))
	got := &hooksv1.UpdateMachineResponse{}
	if err := w.CallAllExtensions(t.Context(), hooksv1.UpdateMachine, demo(), &hooksv1.UpdateMachineRequest{}, got); err == nil || got.Status != "" {
		t.Errorf("got %+v, %v, want an error", got, err)
	}
}

func TestFailurePolicyIgnoreDoesNotHideThatTheCallerGaveUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("shutting down")
	e := serveFunc(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel(stop)
		<-r.Context().Done()
	})
	w.set(t, e.config("ext", ignoring(handles("h", "BeforeClusterCreate"))))
	err := w.CallAllExtensions(ctx, hooksv1.BeforeClusterCreate, demo(), &hooksv1.BeforeClusterCreateRequest{}, &hooksv1.BeforeClusterCreateResponse{})
	if !errors.Is(err, stop) {
		t.Errorf("got %v, want %v", err, stop)
	}
}

func TestFailurePolicyIgnoreDoesNotHideOurOwnMistakes(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), serve(t, success)
	config := e.config("ext", ignoring(handles("h", "BeforeClusterUpgrade")))
	config.Status.Handlers[0].RequestHook.APIVersion = v1alpha2
	w.set(t, config)
	// A caller of an older version cannot use a newer handler.
	err := w.CallAllExtensions(t.Context(), hooksv1.BeforeClusterUpgrade, demo(), &hooksv1.BeforeClusterUpgradeRequest{}, &hooksv1.BeforeClusterUpgradeResponse{})
	if err == nil || !strings.Contains(err.Error(), "older") {
		t.Errorf("got %v, want that the request cannot be converted", err)
	}
	bad := e.config("bad", ignoring(handles("h", "BeforeClusterCreate")))
	bad.Spec.ClientConfig.CABundle = []byte("rubbish")
	w.set(t, bad)
	if _, err := w.create(t); err == nil || !strings.Contains(err.Error(), "CA bundle") {
		t.Errorf("got %v, want that the CA bundle cannot be used", err)
	}
}

func TestCallAllTakesTurnsInOrderOfNamesAndStopsAtTheFirstError(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := serveFunc(t, func(rw http.ResponseWriter, r *http.Request) {
		name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		switch name {
		case "c":
			write(200, `{"status":"Success","message":"c waits","retryAfterSeconds":30}`)(rw, r)
		case "x":
			write(200, `{"status":"Failure","message":"x does not"}`)(rw, r)
		default:
			write(200, `{"status":"Success","message":"`+name+`","retryAfterSeconds":0}`)(rw, r)
		}
	})
	w.set(t, e.config("z", handles("d", "BeforeClusterCreate"), handles("b", "BeforeClusterCreate")), e.config("a", handles("c", "BeforeClusterCreate")))
	names, err := w.GetAllExtensions(t.Context(), hooksv1.BeforeClusterCreate, demo())
	if diff := cmp.Diff([]string{"b.z", "c.a", "d.z"}, names); err != nil || diff != "" {
		t.Errorf("all handlers: %v (-want +got):\n%s", err, diff)
	}
	got, err := w.create(t)
	if err != nil || got.Message != "b, c waits, d" || got.RetryAfterSeconds != 30 {
		t.Errorf("got %+v, %v, want all messages and a wait of 30", got, err)
	}
	w.set(t, e.config("y", handles("x", "BeforeClusterCreate"), handles("y", "BeforeClusterCreate")))
	before := e.calls()
	if _, err := w.create(t); err == nil || !strings.Contains(err.Error(), `"x.y"`) {
		t.Errorf("got %v, want an error of x.y", err)
	}
	if n := e.calls() - before; n != 4 {
		t.Errorf("%d calls, want 4: y.y comes after the one that failed", n)
	}
}

func TestCallAllWithoutHandlersIsAnEmptySuccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got, err := w.create(t)
	if err != nil || got.Status != hooksv1.ResponseStatusSuccess || got.Kind != "BeforeClusterCreateResponse" {
		t.Errorf("got %+v, %v, want an empty Success", got, err)
	}
	names, err := w.GetAllExtensions(t.Context(), hooksv1.BeforeClusterCreate, demo())
	if err != nil || len(names) != 0 {
		t.Errorf("got %v, %v, want none", names, err)
	}
}

func TestDiscover(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answer string
		want   int
		err    string
	}{
		"handlers":     {`{"status":"Success","handlers":[{"name":"a","requestHook":{"apiVersion":"` + v1alpha1 + `","hook":"BeforeClusterCreate"}}]}`, 1, ""},
		"Failure":      {`{"status":"Failure","message":"no licence"}`, 0, "discover the handlers of ExtensionConfig ext: the extension answered Failure: no licence"},
		"another kind": {`{"kind":"BeforeClusterCreateResponse","status":"Success"}`, 0, "want a DiscoveryResponse"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, e := newWorld(t), serve(t, tc.answer)
			got, err := w.Discover(t.Context(), e.config("ext"))
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got %v, want %s", err, tc.err)
				}
				return
			}
			if err != nil || len(got.Handlers) != tc.want {
				t.Errorf("got %+v, %v, want %d handlers", got, err, tc.want)
			}
			want := []received{{"/" + v1alpha1 + "/discovery", map[string]any{"apiVersion": v1alpha1, "kind": "DiscoveryRequest"}}}
			if diff := cmp.Diff(want, e.received()); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}
