// SPDX-License-Identifier: Apache-2.0

package testenv_test

const (
	definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

	// gadgets is a definition with all that one may have.
	gadgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget, shortNames: [gd], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}
    additionalPrinterColumns:
    - {name: Size, type: string, jsonPath: .spec.size}
    - {name: Most, type: integer, jsonPath: .spec.most, priority: 1}
    selectableFields: [{jsonPath: .spec.size}]
    schema:
      openAPIV3Schema: &schema
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [size]
            x-kubernetes-validations:
            - {rule: "!has(self.replicas) || self.replicas <= self.most", message: "no more than most"}
            - {rule: "self.size == oldSelf.size", message: "the size stays"}
            properties:
              size: {type: string, enum: [small, large]}
              name: {type: string, maxLength: 5, pattern: "^[a-z]*$"}
              replicas: {type: integer, minimum: 0}
              most: {type: integer, default: 3}
              when: {type: string, format: date-time}
              any: {type: object, x-kubernetes-preserve-unknown-fields: true}
              amount: {x-kubernetes-int-or-string: true}
              ports:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [port]
                items: {type: object, required: [port], properties: {port: {type: integer}, name: {type: string}}}
          status: {type: object, properties: {replicas: {type: integer}, selector: {type: string}, phase: {type: string}}}
  - name: v1alpha1
    served: true
    storage: false
    deprecated: true
    subresources: {status: {}}
    selectableFields: [{jsonPath: .spec.size}]
    schema: {openAPIV3Schema: *schema}
`
	gadgetsPath = "/apis/example.com/v1/namespaces/like/gadgets"
	oldPath     = "/apis/example.com/v1alpha1/namespaces/like/gadgets"
)

func gadget(name, spec string) string {
	return `{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"` + name + `"},"spec":` + spec + `}`
}

// definedExchanges are about a kind that is defined.
var definedExchanges = []exchange{
	{name: "define", method: "POST", path: definitionsPath, contentType: yamled, body: gadgets},
	{name: "define again", method: "POST", path: definitionsPath, contentType: yamled, body: gadgets},
	{name: "define without a schema", method: "POST", path: definitionsPath, contentType: yamled, body: `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: as.example.com}, spec: {group: example.com, scope: Cluster, names: {plural: as, kind: A}, versions: [{name: v1, served: true, storage: true}]}}`},
	{name: "define nothing", method: "POST", path: definitionsPath, contentType: yamled, body: `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: as.example.com}}`},
	{name: "define in the old version", method: "POST", path: "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions", contentType: yamled, body: gadgets},
	{name: "wait for what is defined", method: "GET", path: gadgetsPath, until: 200},
	{name: "get the definition", method: "GET", path: definitionsPath + "/gadgets.example.com", differs: map[string]string{".body.metadata.managedFields": "what accepts a definition manages none of its fields"}},
	{name: "discover what is defined", method: "GET", path: "/apis/example.com/v1", until: 200},
	{name: "discover its old version", method: "GET", path: "/apis/example.com/v1alpha1"},
	{name: "discover its group", method: "GET", path: "/apis/example.com"},
	{name: "list none", method: "GET", path: gadgetsPath},
	{name: "make a gadget", method: "POST", path: gadgetsPath, body: gadget("a", `{"size":"small","any":{"x":{"y":1}},"amount":"5%"}`)},
	{name: "make one with unknown fields", method: "POST", path: gadgetsPath + "?dryRun=All", body: gadget("b", `{"size":"small","bogus":1,"ports":[{"port":1,"bogus":2}]}`)},
	{name: "make one with unknown fields, strictly", method: "POST", path: gadgetsPath + "?fieldValidation=Strict", body: gadget("b", `{"size":"small","bogus":1}`)},
	{name: "make one twice", method: "POST", path: gadgetsPath, body: gadget("a", `{"size":"small"}`)},
	{name: "make one of a size that is not there", method: "POST", path: gadgetsPath, body: gadget("b", `{"size":"huge"}`)},
	{name: "make one without a size", method: "POST", path: gadgetsPath, body: gadget("b", `{}`)},
	{name: "make one without a spec", method: "POST", path: gadgetsPath, body: `{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"b"}}`},
	{name: "make one with another type", method: "POST", path: gadgetsPath, body: gadget("b", `{"size":"small","replicas":"x"}`)},
	{name: "make one that breaks a rule", method: "POST", path: gadgetsPath, body: gadget("b", `{"size":"small","replicas":4}`)},
	{name: "make one with a bad time", method: "POST", path: gadgetsPath, body: gadget("b", `{"size":"small","when":"now"}`)},
	{name: "make one with a port twice", method: "POST", path: gadgetsPath, body: gadget("b", `{"size":"small","ports":[{"port":1},{"port":1}]}`)},
	{name: "make one of another kind", method: "POST", path: gadgetsPath, body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`},
	{name: "make one of another version", method: "POST", path: gadgetsPath, body: `{"apiVersion":"example.com/v1alpha1","kind":"Gadget","metadata":{"name":"b"}}`},
	{name: "make one of no JSON", method: "POST", path: gadgetsPath, body: `{`},
	{name: "make one in the old version", method: "POST", path: oldPath, contentType: yamled, body: "{apiVersion: example.com/v1alpha1, kind: Gadget, metadata: {name: old}, spec: {size: large}}"},
	{name: "get one gadget", method: "GET", path: gadgetsPath + "/a"},
	{name: "get the old one in the new version", method: "GET", path: gadgetsPath + "/old"},
	{name: "get the new one in the old version", method: "GET", path: oldPath + "/a"},
	{name: "get a gadget that is not there", method: "GET", path: gadgetsPath + "/nope"},
	{name: "get the metadata of a gadget", method: "GET", path: gadgetsPath + "/a", accept: partial},
	{name: "list gadgets", method: "GET", path: gadgetsPath},
	{name: "list gadgets of all namespaces", method: "GET", path: "/apis/example.com/v1/gadgets"},
	{name: "list gadgets as a table", method: "GET", path: gadgetsPath, accept: tabled},
	{name: "list gadgets by size", method: "GET", path: gadgetsPath + "?fieldSelector=spec.size%3Dlarge"},
	{name: "list gadgets by what cannot be selected by", method: "GET", path: gadgetsPath + "?fieldSelector=spec.most%3D3"},
	{name: "list gadgets in pages", method: "GET", path: gadgetsPath + "?limit=1"},
	{name: "list the rest of the gadgets", method: "GET", path: gadgetsPath + "?limit=1&continue={continue}"},
	{name: "watch gadgets", method: "GET", path: gadgetsPath + "?watch=true&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"},
	{name: "change the size of a gadget", method: "PATCH", path: gadgetsPath + "/a", contentType: patched, body: `{"spec":{"size":"large"}}`},
	{name: "change a gadget", method: "PATCH", path: gadgetsPath + "/a", contentType: patched, body: `{"spec":{"replicas":2}}`},
	{name: "change a gadget by JSON", method: "PATCH", path: gadgetsPath + "/a", contentType: jsoned, body: `[{"op":"replace","path":"/spec/replicas","value":1}]`},
	{name: "change a gadget strategically", method: "PATCH", path: gadgetsPath + "/a", contentType: merged, body: `{}`},
	{name: "change the status by the way", method: "PATCH", path: gadgetsPath + "/a", contentType: patched, body: `{"status":{"phase":"no"}}`},
	{name: "change the status of a gadget", method: "PATCH", path: gadgetsPath + "/a/status", contentType: patched, body: `{"spec":{"replicas":3},"status":{"phase":"yes","replicas":1,"selector":"a=b"}}`},
	{name: "change the status to another type", method: "PATCH", path: gadgetsPath + "/a/status", contentType: patched, body: `{"status":{"replicas":"x"}}`},
	{name: "get the scale of a gadget", method: "GET", path: gadgetsPath + "/a/scale"},
	{name: "scale a gadget", method: "PATCH", path: gadgetsPath + "/a/scale", contentType: patched, body: `{"spec":{"replicas":3}}`},
	{name: "scale a gadget too far", method: "PATCH", path: gadgetsPath + "/a/scale", contentType: patched, body: `{"spec":{"replicas":4}}`},
	{name: "apply a gadget", method: "PATCH", path: gadgetsPath + "/applied?fieldManager=one", contentType: applied, body: gadget("applied", `{"size":"small","ports":[{"port":1,"name":"x"}]}`)},
	{name: "apply a gadget as another", method: "PATCH", path: gadgetsPath + "/applied?fieldManager=two", contentType: applied, body: gadget("applied", `{"ports":[{"port":2}]}`)},
	{name: "apply a gadget in conflict", method: "PATCH", path: gadgetsPath + "/applied?fieldManager=two", contentType: applied, body: gadget("applied", `{"size":"large"}`)},
	{name: "apply a gadget with an unknown field", method: "PATCH", path: gadgetsPath + "/applied?fieldManager=two", contentType: applied, body: gadget("applied", `{"bogus":1}`)},
	{name: "apply a gadget in the old version", method: "PATCH", path: oldPath + "/applied?fieldManager=three", contentType: applied, body: `{"apiVersion":"example.com/v1alpha1","kind":"Gadget","metadata":{"name":"applied"},"spec":{"most":4}}`},
	{name: "replace a gadget without a version", method: "PUT", path: gadgetsPath + "/a", body: gadget("a", `{"size":"small"}`)},
	{name: "delete a gadget", method: "DELETE", path: gadgetsPath + "/a"},
	{name: "delete all gadgets", method: "DELETE", path: gadgetsPath},
	{name: "take a name that is taken", method: "POST", path: definitionsPath, contentType: yamled, body: `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: bs.example.com}, spec: {group: example.com, scope: Cluster, names: {plural: bs, kind: Gadget}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}`},
	{name: "describe what is defined", method: "GET", path: "/openapi/v3/apis/example.com/v1", until: 200},
}
