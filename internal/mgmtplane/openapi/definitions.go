// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	informers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// ServeDefinitions is Serve for the server of custom resources. That server itself
// documents their kinds in version 2, already on demand. The loop that follows the
// definitions is a start hook of outer, the server that receives requests: outer
// has already collected the hooks of the servers behind it.
func ServeDefinitions(outer, server *genericapiserver.GenericAPIServer, c *genericapiserver.Config) error {
	client, err := clientset.NewForConfig(c.LoopbackClientConfig)
	if err != nil {
		return fmt.Errorf("document custom resources: %w", err)
	}
	d := &definitions{
		build: build(c.OpenAPIV3Config.Info.Version), client: client, informer: informers.NewCustomResourceDefinitionInformer(client, 0, nil), written: handler3.NewOpenAPIService(), hashes: map[string]string{},
	}
	if err := d.informer.SetTransform(slim); err != nil {
		return fmt.Errorf("document custom resources: %w", err)
	}
	err = outer.AddPostStartHook("capstan-openapi-definitions", func(hook genericapiserver.PostStartHookContext) error {
		go recovery.Func(context.Background(), func() { d.informer.RunWithContext(hook) })()
		return nil
	})
	if err != nil {
		return fmt.Errorf("document custom resources: %w", err)
	}
	to := server.Handler.NonGoRestfulMux
	server.OpenAPIVersionedService, server.StaticOpenAPISpec = routes.OpenAPI{Config: c.OpenAPIConfig}.InstallV2(server.Handler.GoRestfulContainer, to)
	own := builtIn(server, c)
	groups{
		hashes: func() map[string]string {
			all := d.defined()
			maps.Copy(all, own.hashes())
			return all
		},
		documents: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if name := strings.TrimPrefix(r.URL.Path, root+"/"); own.hashes()[name] == "" {
				d.document(w, r, name)
				return
			}
			own.documents.ServeHTTP(w, r)
		}),
	}.serve(to)
	return nil
}

// definitions are the input of the documents of custom resources.
type definitions struct {
	build    string
	client   clientset.Interface
	informer cache.SharedIndexInformer // of slimmed definitions

	mu      sync.Mutex // guards what follows
	written *handler3.OpenAPIService
	hashes  map[string]string // of the written documents, by the names of the groups
}

// slim drops all of a CustomResourceDefinition except what identifies its kinds,
// and whether they have changed.
func slim(obj any) (any, error) {
	crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return obj, nil
	}
	out := &apiextensionsv1.CustomResourceDefinition{}
	out.Name, out.UID, out.ResourceVersion, out.Generation = crd.Name, crd.UID, crd.ResourceVersion, crd.Generation
	out.Spec.Group, out.Status.Conditions = crd.Spec.Group, crd.Status.Conditions
	for _, v := range crd.Spec.Versions {
		out.Spec.Versions = append(out.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: v.Name, Served: v.Served})
	}
	return out, nil
}

// of calls found for each served version of a definition.
func (d *definitions) of(found func(crd *apiextensionsv1.CustomResourceDefinition, version string)) {
	keys := d.informer.GetStore().ListKeys()
	slices.Sort(keys)
	for _, key := range keys {
		obj, exists, err := d.informer.GetStore().GetByKey(key)
		crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
		if !exists || err != nil || !ok || !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
			continue
		}
		for _, v := range crd.Spec.Versions {
			if v.Served {
				found(crd, v.Name)
			}
		}
	}
}

// defined returns the existing groups, with their hashes.
func (d *definitions) defined() map[string]string {
	texts := map[string][]byte{}
	d.of(func(crd *apiextensionsv1.CustomResourceDefinition, version string) {
		name := group(crd, version)
		texts[name] = fmt.Append(texts[name], crd.Name, crd.UID, crd.Generation, "\n")
	})
	hashes := map[string]string{}
	for name, text := range texts {
		hashes[name] = fmt.Sprintf("%X", sha256.Sum256(fmt.Append(text, d.build)))
	}
	return hashes
}

func group(crd *apiextensionsv1.CustomResourceDefinition, version string) string {
	return "apis/" + schema.GroupVersion{Group: crd.Spec.Group, Version: version}.String()
}

// document serves the document of a group, and writes it first if it has changed.
func (d *definitions) document(w http.ResponseWriter, r *http.Request, name string) {
	if err := d.write(r.Context(), name); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	d.written.HandleGroupVersion(w, r)
}

func (d *definitions) write(ctx context.Context, name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	hash := d.defined()[name]
	if d.hashes[name] == hash {
		return nil
	}
	var documents []*spec3.OpenAPI
	var errs error
	d.of(func(slimmed *apiextensionsv1.CustomResourceDefinition, version string) {
		if group(slimmed, version) != name || errs != nil {
			return
		}
		crd, err := d.client.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, slimmed.Name, metav1.GetOptions{})
		if err != nil {
			errs = err
			return
		}
		document, err := builder.BuildOpenAPIV3(crd, version, builder.Options{IncludeSelectableFields: true})
		documents, errs = append(documents, document), err
	})
	if errs != nil {
		return fmt.Errorf("document %s: %w", name, errs)
	}
	merged, err := builder.MergeSpecsV3(documents...)
	if err != nil {
		return fmt.Errorf("document %s: %w", name, err)
	}
	d.written.UpdateGroupVersion(name, merged)
	d.hashes[name] = hash
	return nil
}
