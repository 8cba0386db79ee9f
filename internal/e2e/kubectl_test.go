// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// kubectl replaces kubectl on machines without it, as far as the pages of the book
// use it. The test binary acts as kubectl when it is called by that name.
type kubectl struct {
	context.Context
	client.Client
	out   io.Writer
	args  []string          // without flags: a verb, and what it is about
	flags map[string]string // by their names without dashes
}

func runKubectl(ctx context.Context, out io.Writer, args []string) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	groups, err := restmapper.GetAPIGroupResources(kinds)
	if err != nil {
		return err
	}
	mgmt, err := client.New(config, client.Options{Mapper: restmapper.NewDiscoveryRESTMapper(groups)})
	if err != nil {
		return err
	}
	k := kubectl{Context: ctx, Client: mgmt, out: out, flags: map[string]string{}}
	for i := 0; i < len(args); i++ {
		name, value, given := strings.Cut(args[i], "=")
		if !strings.HasPrefix(args[i], "-") {
			k.args = append(k.args, args[i])
			continue
		}
		if i++; !given && i < len(args) {
			value = args[i]
		} else {
			i--
		}
		k.flags[strings.TrimLeft(name, "-")] = value
	}
	verb := map[string]func() error{"apply": k.apply, "delete": k.remove, "get": k.get, "patch": k.patch, "wait": k.wait}[strings.Join(k.args[:min(1, len(k.args))], "")]
	if verb == nil {
		return fmt.Errorf("this is no kubectl: it cannot %q", args)
	}
	return verb()
}

// named is the object that the arguments name, as KIND NAME or KIND/NAME; without a
// name if they have none.
func (k kubectl) named() (*unstructured.Unstructured, error) {
	kind, name, _ := strings.Cut(strings.Join(k.args[1:], "/"), "/")
	found, err := k.RESTMapper().KindFor(schema.GroupVersionResource{Resource: kind})
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(found)
	u.SetNamespace("default")
	u.SetName(name)
	return u, nil
}

// did prints what was done to an object.
func (k kubectl) did(u *unstructured.Unstructured, what string) {
	_, _ = fmt.Fprintf(k.out, "%s.%s/%s %s\n", strings.ToLower(u.GetKind()), u.GroupVersionKind().Group, u.GetName(), what)
}

func (k kubectl) apply() error {
	text, err := os.ReadFile(k.flags["f"])
	if err != nil {
		return err
	}
	objects, err := template.Objects(text)
	if err != nil {
		return err
	}
	for _, u := range objects {
		u.SetNamespace("default")
		if err := k.Create(k, u, client.FieldValidation("Strict")); err != nil {
			return err
		}
		k.did(u, "created")
	}
	return nil
}

func (k kubectl) remove() error {
	u, err := k.named()
	if err == nil {
		err = k.Delete(k, u)
	}
	return err
}

func (k kubectl) get() error {
	u, err := k.named()
	if err != nil {
		return err
	}
	path, is := strings.CutPrefix(k.flags["o"], "jsonpath=")
	if !is {
		return errors.New("this is no kubectl: it supports only jsonpath")
	}
	p := jsonpath.New("out").AllowMissingKeys(true)
	if err := p.Parse(path); err != nil {
		return err
	}
	if u.GetName() != "" {
		err = k.Client.Get(k, client.ObjectKeyFromObject(u), u)
		return errors.Join(err, p.Execute(k.out, u.Object))
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(u.GroupVersionKind())
	err = k.List(k, list, client.InNamespace("default"))
	return errors.Join(err, p.Execute(k.out, list.UnstructuredContent()))
}

func (k kubectl) patch() error {
	u, err := k.named()
	if err != nil {
		return err
	}
	text := []byte(k.flags["p"])
	if file := k.flags["patch-file"]; file != "" {
		if text, err = os.ReadFile(file); err != nil {
			return err
		}
	}
	if text, err = yaml.YAMLToJSON(text); err != nil {
		return err
	}
	as := types.MergePatchType
	if k.flags["type"] == "json" {
		as = types.JSONPatchType
	}
	if err := k.Client.Patch(k, u, client.RawPatch(as, text)); err != nil {
		return err
	}
	k.did(u, "patched")
	return nil
}

func (k kubectl) wait() error {
	u, err := k.named()
	if err != nil {
		return err
	}
	limit := testenv.Limit(stepTimeout)
	if text := k.flags["timeout"]; text != "" {
		if limit, err = time.ParseDuration(text); err != nil {
			return err
		}
		limit = testenv.Limit(limit)
	}
	want := strings.TrimPrefix(k.flags["for"], "condition=")
	err = wait.PollUntilContextTimeout(k, 100*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		if err := k.Client.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
			return false, err
		}
		all, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
		for _, c := range all {
			if c, is := c.(map[string]any); is && c["type"] == want && c["status"] == "True" {
				return true, err
			}
		}
		return false, err
	})
	if err != nil {
		return fmt.Errorf("wait for %s: %w", want, err)
	}
	k.did(u, "condition met")
	return nil
}
