// SPDX-License-Identifier: Apache-2.0

package extensionconfig

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/extension/catalog"
)

// Limits of an extension's answer to discovery. The first two are those of an
// ExtensionConfig's status.
const (
	MaxHandlers    = 512
	MaxNameLength  = 512
	DefaultTimeout = 10 * time.Second
	MaxTimeout     = 30 * time.Second
)

// Handlers returns the handlers to register from an extension's answer to discovery:
// with their full names, sorted, with default timeout and failure policy. The error
// lists every mistake; then no handler must be registered.
func Handlers(c *catalog.Catalog, config string, answer *hooksv1.DiscoveryResponse) ([]runtimev1.ExtensionHandler, error) {
	if err := Success(answer); err != nil {
		return nil, err
	}
	if n := len(answer.Handlers); n > MaxHandlers {
		return nil, fmt.Errorf("%d handlers: at most %d can be registered", n, MaxHandlers)
	}
	var errs []error
	first := map[string]int{}
	handlers := make([]runtimev1.ExtensionHandler, 0, len(answer.Handlers))
	for i, h := range answer.Handlers {
		where := fmt.Sprintf("handlers[%d] %s", i, quote(h.Name))
		if at, twice := first[h.Name]; twice && h.Name != "" {
			errs = append(errs, fmt.Errorf("%s: name: handlers[%d] has it already", where, at))
		} else {
			first[h.Name] = i
		}
		handler, mistakes := check(c, config, h)
		for _, mistake := range mistakes {
			errs = append(errs, fmt.Errorf("%s: %w", where, mistake))
		}
		handlers = append(handlers, handler)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	slices.SortFunc(handlers, func(a, b runtimev1.ExtensionHandler) int { return cmp.Compare(a.Name, b.Name) })
	return handlers, nil
}

// check validates one handler without the others; each mistake starts with its field.
func check(c *catalog.Catalog, config string, h hooksv1.ExtensionHandler) (runtimev1.ExtensionHandler, []error) {
	out := runtimev1.ExtensionHandler{
		Name:           h.Name + "." + config,
		RequestHook:    runtimev1.GroupVersionHook{APIVersion: h.RequestHook.APIVersion, Hook: h.RequestHook.Hook},
		TimeoutSeconds: int32(DefaultTimeout / time.Second),
		FailurePolicy:  runtimev1.FailurePolicyFail,
	}
	var errs []error
	if h.Name == "" {
		errs = append(errs, errors.New("name: must be set"))
	} else if wrong := validation.IsDNS1123Label(h.Name); len(wrong) > 0 {
		errs = append(errs, errors.New("name: "+nameAdvice(h.Name, wrong)))
	} else if n := len(out.Name); n > MaxNameLength {
		errs = append(errs, fmt.Errorf("name: %d characters together with the ExtensionConfig's name: at most %d are allowed", n, MaxNameLength))
	}
	if err := checkHook(c, h.RequestHook); err != nil {
		errs = append(errs, err)
	}
	if h.TimeoutSeconds != nil && *h.TimeoutSeconds != 0 {
		out.TimeoutSeconds = *h.TimeoutSeconds
		if *h.TimeoutSeconds < 0 || *h.TimeoutSeconds > int32(MaxTimeout/time.Second) {
			errs = append(errs, fmt.Errorf("timeoutSeconds: %d: must be 0 to %d", *h.TimeoutSeconds, int32(MaxTimeout/time.Second)))
		}
	}
	if h.FailurePolicy != nil {
		out.FailurePolicy = runtimev1.FailurePolicy(*h.FailurePolicy)
		if *h.FailurePolicy != hooksv1.FailurePolicyFail && *h.FailurePolicy != hooksv1.FailurePolicyIgnore {
			errs = append(errs, fmt.Errorf("failurePolicy: %s: must be Ignore or Fail", quote(string(*h.FailurePolicy))))
		}
	}
	return out, errs
}

func nameAdvice(name string, wrong []string) string {
	if lower := strings.ToLower(name); lower != name && len(validation.IsDNS1123Label(lower)) == 0 {
		return fmt.Sprintf("must be lower-case, as paths are: %q", lower)
	}
	return wrong[0]
}

func checkHook(c *catalog.Catalog, hook hooksv1.GroupVersionHook) error {
	gv, err := schema.ParseGroupVersion(hook.APIVersion)
	if err != nil || gv.Group == "" || gv.Version == "" {
		return fmt.Errorf("requestHook.apiVersion: %s: must be group/version", quote(hook.APIVersion))
	}
	if hook.Hook == "" {
		return errors.New("requestHook.hook: must be set")
	}
	d, err := c.Find(catalog.GroupVersionHook{Group: gv.Group, Version: gv.Version, Hook: hook.Hook})
	if err != nil {
		return fmt.Errorf("requestHook: %s of %s is not known%s", quote(hook.Hook), quote(hook.APIVersion), known(c, hook))
	}
	if d.Singleton {
		return fmt.Errorf("requestHook: %s is answered by the extension as a whole: it needs no handler", hook.Hook)
	}
	return nil
}

// known suggests which hook an unknown hook may be meant to be.
func known(c *catalog.Catalog, hook hooksv1.GroupVersionHook) string {
	var versions, spellings []string
	groupVersion := false
	for _, d := range c.Hooks() {
		gv := d.Group + "/" + d.Version
		groupVersion = groupVersion || gv == hook.APIVersion
		switch {
		case d.Hook == hook.Hook:
			versions = append(versions, gv)
		case strings.EqualFold(d.Hook, hook.Hook) && gv == hook.APIVersion:
			spellings = append(spellings, d.Hook)
		}
	}
	switch {
	case len(versions) > 0:
		return "; known of it: " + strings.Join(versions, ", ")
	case len(spellings) > 0:
		return "; it is written " + spellings[0]
	case groupVersion:
		return "; that version has no hook of this name"
	}
	return ""
}

// Only is the one handler of a hook that allows at most one, such as those of in-place
// updates; empty if there is none. It is for callers: any number can be registered,
// since namespaceSelectors can separate them.
func Only(hook string, names []string) (string, error) {
	switch len(names) {
	case 0:
		return "", nil
	case 1:
		return names[0], nil
	}
	return "", fmt.Errorf("hook %s must have no more than one handler, but has %s: remove all but one ExtensionConfig, or keep them apart by namespaceSelector", hook, strings.Join(names, ", "))
}

// quote quotes a text that an extension sent, cut to a length that suits a message.
func quote(s string) string { return fmt.Sprintf("%q", Shorten(s, 100)) }
