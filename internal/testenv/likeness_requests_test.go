// SPDX-License-Identifier: Apache-2.0

package testenv_test

import "regexp"

const (
	maps1      = "/api/v1/namespaces/like/configmaps"
	patched    = "application/merge-patch+json"
	applied    = "application/apply-patch+yaml"
	jsoned     = "application/json-patch+json"
	merged     = "application/strategic-merge-patch+json"
	yamled     = "application/yaml"
	tabled     = "application/json;as=Table;v=v1;g=meta.k8s.io"
	partial    = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	partials   = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
	aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	born       = "?labelSelector=kubernetes.io/bootstrapping%3Drbac-defaults"
	widgetsV1  = "/apis/example.com/v1/namespaces/like/widgets"
)

// everywhere are the differences that many answers show.
var everywhere = []difference{
	{regexp.MustCompile(`^\.body\.items\[\d+\]\.(apiVersion|kind)$`), "items are sent as they are kept, each with its kind, as those of defined kinds are"},
	{regexp.MustCompile(`^\.body\.items\[\d+\]\.metadata\.managedFields$`), "no field manager for objects that all clusters share"},
}

// exchanges are sent in this order.
var exchanges = []exchange{
	{name: "create a namespace", method: "POST", path: "/api/v1/namespaces", body: `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"like"}}`},
	{name: "discover the core", method: "GET", path: "/api/v1"},
	{name: "discover apps", method: "GET", path: "/apis/apps/v1"},
	{name: "discover batch", method: "GET", path: "/apis/batch/v1"},
	{name: "discover rbac", method: "GET", path: "/apis/rbac.authorization.k8s.io/v1"},
	{name: "discover policy", method: "GET", path: "/apis/policy/v1"},
	{name: "discover storage", method: "GET", path: "/apis/storage.k8s.io/v1"},
	{name: "discover networking", method: "GET", path: "/apis/networking.k8s.io/v1"},
	{name: "discover admission", method: "GET", path: "/apis/admissionregistration.k8s.io/v1"},
	{name: "discover definitions", method: "GET", path: "/apis/apiextensions.k8s.io/v1"},
	{name: "discover services of others", method: "GET", path: "/apis/apiregistration.k8s.io/v1"},
	{name: "discover autoscaling", method: "GET", path: "/apis/autoscaling/v2"},
	{name: "discover old autoscaling", method: "GET", path: "/apis/autoscaling/v1"},
	{name: "discover events", method: "GET", path: "/apis/events.k8s.io/v1"},
	{name: "discover coordination", method: "GET", path: "/apis/coordination.k8s.io/v1"},
	{name: "discover certificates", method: "GET", path: "/apis/certificates.k8s.io/v1"},
	{name: "discover endpoints", method: "GET", path: "/apis/discovery.k8s.io/v1"},
	{name: "discover scheduling", method: "GET", path: "/apis/scheduling.k8s.io/v1"},
	{name: "discover runtimes", method: "GET", path: "/apis/node.k8s.io/v1"},
	{name: "discover flow control", method: "GET", path: "/apis/flowcontrol.apiserver.k8s.io/v1"},
	{name: "discover authentication", method: "GET", path: "/apis/authentication.k8s.io/v1"},
	{name: "discover authorization", method: "GET", path: "/apis/authorization.k8s.io/v1"},
	{name: "discover a group", method: "GET", path: "/apis/apps"},
	{name: "discover the groups", method: "GET", path: "/apis"},
	{name: "discover the versions", method: "GET", path: "/api"},
	{name: "discover the core at once", method: "GET", path: "/api", accept: aggregated},
	{name: "discover all at once", method: "GET", path: "/apis", accept: aggregated},

	// Default roles of every cluster:
	// internal/simulated/apiserver/defaulting/objects.jsonl.
	{name: "list roles", method: "GET", path: "/apis/rbac.authorization.k8s.io/v1/clusterroles" + born},
	{name: "list bindings", method: "GET", path: "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings" + born},
	{name: "list roles of namespaces", method: "GET", path: "/apis/rbac.authorization.k8s.io/v1/roles" + born},
	{name: "list bindings of namespaces", method: "GET", path: "/apis/rbac.authorization.k8s.io/v1/rolebindings" + born},

	// Objects of every day.
	{name: "create a config map", method: "POST", path: maps1, body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"num":"1"}},"data":{"k":"v"}}`},
	{name: "create it again", method: "POST", path: maps1, body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`},
	{name: "create one in YAML", method: "POST", path: maps1, contentType: yamled, body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, labels: {num: '2'}}\n"},
	{name: "create one by a prefix", method: "POST", path: maps1 + "?dryRun=All", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"gen-"}}`},
	{name: "create without a name", method: "POST", path: maps1, body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}`},
	{name: "create with a bad name", method: "POST", path: maps1, body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"A_"}}`},
	{name: "create with a bad label", method: "POST", path: maps1, body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","labels":{"a b":"c"}}}`},
	{name: "create with a bad key", method: "POST", path: maps1, body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c2"},"data":{"a b":"c"}}`},
	{name: "create in a namespace that is not there", method: "POST", path: "/api/v1/namespaces/nowhere/configmaps", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`},
	{name: "create in another namespace", method: "POST", path: maps1, body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"other"}}`},
	{name: "create with a version", method: "POST", path: maps1, body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","resourceVersion":"1"}}`},
	{name: "create another kind", method: "POST", path: maps1, body: `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"c"}}`},
	{name: "create no kind", method: "POST", path: maps1, body: `{"metadata":{"name":"nokind"}}`},
	{name: "create what is no JSON", method: "POST", path: maps1, body: `{`},
	{name: "create what is no object", method: "POST", path: maps1, body: `[]`},
	{name: "create nothing", method: "POST", path: maps1},
	{name: "create with a field of another type", method: "POST", path: maps1, body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":1}}`},
	{name: "create with an unknown field", method: "POST", path: maps1 + "?dryRun=All", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"bogus":1}`},
	{name: "create with an unknown field, strictly", method: "POST", path: maps1 + "?fieldValidation=Strict", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"bogus":1}`},
	{name: "create with a field twice, strictly", method: "POST", path: maps1 + "?fieldValidation=Strict", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"1"},"data":{"a":"1"}}`},
	{name: "create with a validation that is not there", method: "POST", path: maps1 + "?fieldValidation=Maybe", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`},
	{name: "create with a dry run that is not there", method: "POST", path: maps1 + "?dryRun=Some", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`},
	{name: "create as XML", method: "POST", path: maps1, contentType: "application/xml", body: `<a/>`},
	{name: "ask for XML", method: "GET", path: maps1, accept: "application/xml", differs: map[string]string{".body.message": "there is no protobuf"}},
	{name: "get one", method: "GET", path: maps1 + "/a"},
	{name: "get one as a table", method: "GET", path: maps1 + "/a", accept: tabled},
	{name: "get its metadata", method: "GET", path: maps1 + "/a", accept: partial},
	{name: "get one that is not there", method: "GET", path: maps1 + "/nope"},
	{name: "get a resource that is not there", method: "GET", path: "/api/v1/namespaces/like/things/a"},
	{name: "get a group that is not there", method: "GET", path: "/apis/nowhere.example.com/v1/things"},
	{name: "get a version that is not there", method: "GET", path: "/apis/apps/v9"},
	{name: "get a subresource that is not there", method: "GET", path: maps1 + "/a/status"},
	{name: "get a path that is not there", method: "GET", path: "/nowhere"},
	{name: "list", method: "GET", path: maps1 + "?labelSelector=num"},
	{name: "list the metadata", method: "GET", path: maps1 + "?labelSelector=num", accept: partials},
	{name: "list as a table", method: "GET", path: maps1 + "?labelSelector=num", accept: tabled},
	{name: "list by a label", method: "GET", path: maps1 + "?labelSelector=num%3D2"},
	{name: "list by labels in a set", method: "GET", path: maps1 + "?labelSelector=num+in+(1,3)"},
	{name: "list by a broken selector", method: "GET", path: maps1 + "?labelSelector=a%3D%3D%3D"},
	{name: "list by a name", method: "GET", path: maps1 + "?fieldSelector=metadata.name%3Db"},
	{name: "list by all but a name", method: "GET", path: maps1 + "?labelSelector=num&fieldSelector=metadata.name!%3Db"},
	{name: "list by a field that cannot be selected by", method: "GET", path: maps1 + "?fieldSelector=data.k%3Dv"},
	{name: "list by a broken field selector", method: "GET", path: maps1 + "?fieldSelector=metadata.name"},
	{name: "list a first page", method: "GET", path: maps1 + "?limit=1&labelSelector=num"},
	{name: "list the second", method: "GET", path: maps1 + "?limit=1&labelSelector=num&continue={continue}"},
	{name: "list from a broken token", method: "GET", path: maps1 + "?continue=x"},
	{name: "list with a token and a version", method: "GET", path: maps1 + "?continue=x&resourceVersion=1"},
	{name: "list a negative page", method: "GET", path: maps1 + "?limit=-1&labelSelector=num"},
	{name: "list a page of no number", method: "GET", path: maps1 + "?limit=x"},
	{name: "list at any version", method: "GET", path: maps1 + "?resourceVersion=0&labelSelector=num"},
	{name: "list at a match without a version", method: "GET", path: maps1 + "?resourceVersionMatch=Exact"},
	{name: "list at a match that is not there", method: "GET", path: maps1 + "?resourceVersion=1&resourceVersionMatch=Maybe"},
	{name: "list exactly at zero", method: "GET", path: maps1 + "?resourceVersion=0&resourceVersionMatch=Exact"},
	{name: "list at no number", method: "GET", path: maps1 + "?resourceVersion=x"},
	{name: "list in the future", method: "GET", path: maps1 + "?resourceVersion=99999999"},
	{name: "list exactly in the future", method: "GET", path: maps1 + "?resourceVersion=99999999&resourceVersionMatch=Exact"},
	{name: "list by a page", method: "GET", path: maps1 + "?limit=1&labelSelector=num"},
	{name: "list at that version", method: "GET", path: maps1 + "?labelSelector=num&resourceVersion={version}&resourceVersionMatch=Exact"},
	{name: "list not before that version", method: "GET", path: maps1 + "?labelSelector=num&resourceVersion={version}&resourceVersionMatch=NotOlderThan"},
	{name: "watch from there", method: "GET", path: maps1 + "?watch=true&timeoutSeconds=1&resourceVersion={version}"},
	{name: "watch with what there is", method: "GET", path: maps1 + "?watch=true&timeoutSeconds=1&labelSelector=num&resourceVersion=0"},
	{name: "watch as a list", method: "GET", path: maps1 + "?watch=true&timeoutSeconds=1&labelSelector=num&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"},
	{name: "watch as a list of tables", method: "GET", path: maps1 + "?watch=true&timeoutSeconds=1&labelSelector=num&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", accept: tabled},
	{name: "watch as a list of metadata", method: "GET", path: maps1 + "?watch=true&timeoutSeconds=1&labelSelector=num&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", accept: partial},
	{name: "watch as a list without a match", method: "GET", path: maps1 + "?watch=true&sendInitialEvents=true&allowWatchBookmarks=true"},
	{name: "watch with a match alone", method: "GET", path: maps1 + "?watch=true&resourceVersionMatch=NotOlderThan"},
	{name: "watch from no number", method: "GET", path: maps1 + "?watch=true&resourceVersion=x"},
	{name: "watch one", method: "GET", path: maps1 + "?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Da"},

	// Changes.
	{name: "replace", method: "PUT", path: maps1 + "/a", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"num":"1"}},"data":{"k":"w"}}`},
	{name: "replace an old version", method: "PUT", path: maps1 + "/a", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"1"},"data":{"k":"w"}}`},
	{name: "replace another", method: "PUT", path: maps1 + "/a", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`},
	{name: "replace what is not there", method: "PUT", path: maps1 + "/nope", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"nope"}}`},
	{name: "replace one with another identity", method: "PUT", path: maps1 + "/a", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","uid":"x"}}`, differs: map[string]string{".body.message": "it names the key in etcd, where nothing is kept"}},
	{name: "replace a collection", method: "PUT", path: maps1, body: `{}`},
	{name: "post to an object", method: "POST", path: maps1 + "/a", body: `{}`},
	{name: "merge a patch", method: "PATCH", path: maps1 + "/a", contentType: patched, body: `{"data":{"m":"1"}}`},
	{name: "merge a strategic patch", method: "PATCH", path: maps1 + "/a", contentType: merged, body: `{"data":{"s":"1"}}`},
	{name: "patch by JSON", method: "PATCH", path: maps1 + "/a", contentType: jsoned, body: `[{"op":"add","path":"/data/j","value":"1"}]`},
	{name: "patch by JSON what is not there", method: "PATCH", path: maps1 + "/a", contentType: jsoned, body: `[{"op":"remove","path":"/data/nope"}]`},
	{name: "patch by a test that fails", method: "PATCH", path: maps1 + "/a", contentType: jsoned, body: `[{"op":"test","path":"/data/j","value":"2"}]`},
	{name: "patch by no JSON", method: "PATCH", path: maps1 + "/a", contentType: patched, body: `{`},
	{name: "patch in an unknown way", method: "PATCH", path: maps1 + "/a", contentType: "application/json", body: `{}`},
	{name: "patch what is not there", method: "PATCH", path: maps1 + "/nope", contentType: patched, body: `{}`},
	{name: "patch nothing", method: "PATCH", path: maps1 + "/a", contentType: patched, body: `{}`},
	{name: "patch an unknown field, strictly", method: "PATCH", path: maps1 + "/a?fieldValidation=Strict", contentType: patched, body: `{"bogus":1}`, differs: map[string]string{".body.message": "it quotes the object, whose fields are in another order", ".body.details.causes[0].message": "as above"}},
	{name: "patch an old version", method: "PATCH", path: maps1 + "/a", contentType: patched, body: `{"metadata":{"resourceVersion":"1"}}`},
	{name: "apply", method: "PATCH", path: maps1 + "/applied?fieldManager=one", contentType: applied, body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: applied}\ndata: {a: '1', b: '1'}\n"},
	{name: "apply as another", method: "PATCH", path: maps1 + "/applied?fieldManager=two", contentType: applied, body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: applied}\ndata: {a: '2'}\n"},
	{name: "apply as another by force", method: "PATCH", path: maps1 + "/applied?fieldManager=two&force=true", contentType: applied, body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: applied}\ndata: {a: '2'}\n"},
	{name: "apply less", method: "PATCH", path: maps1 + "/applied?fieldManager=one", contentType: applied, body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: applied}\n"},
	{name: "apply without field manager", method: "PATCH", path: maps1 + "/applied", contentType: applied, body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: applied}\n"},
	{name: "apply an unknown field", method: "PATCH", path: maps1 + "/applied?fieldManager=one", contentType: applied, body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: applied}\nbogus: 1\n"},
	{name: "apply managed fields", method: "PATCH", path: maps1 + "/applied?fieldManager=one", contentType: applied, body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: applied, managedFields: [{manager: x}]}\n"},
	{name: "apply under another name", method: "PATCH", path: maps1 + "/other?fieldManager=one", contentType: applied, body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: applied}\n"},
	{name: "apply another kind", method: "PATCH", path: maps1 + "/applied?fieldManager=one", contentType: applied, body: "apiVersion: v1\nkind: Secret\nmetadata: {name: applied}\n"},
	{name: "apply no YAML", method: "PATCH", path: maps1 + "/applied?fieldManager=one", contentType: applied, body: "{"},
	{name: "force what is not applied", method: "PATCH", path: maps1 + "/applied?force=true", contentType: patched, body: "{}"},
	{name: "delete under another identity", method: "DELETE", path: maps1 + "/applied", body: `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"x"}}`},
	{name: "delete in a way that is not there", method: "DELETE", path: maps1 + "/applied?propagationPolicy=Sideways"},
	{name: "delete, dry", method: "DELETE", path: maps1 + "/applied?dryRun=All"},
	{name: "delete", method: "DELETE", path: maps1 + "/applied"},
	{name: "delete it again", method: "DELETE", path: maps1 + "/applied"},
	{name: "delete a selection", method: "DELETE", path: maps1 + "?labelSelector=num%3D2"},
	{name: "create one that is held", method: "POST", path: maps1, body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"held","finalizers":["example.com/hold"]}}`},
	{name: "delete what is held", method: "DELETE", path: maps1 + "/held"},
	{name: "add a finalizer to what goes", method: "PATCH", path: maps1 + "/held", contentType: patched, body: `{"metadata":{"finalizers":["example.com/hold","example.com/more"]}}`, differs: map[string]string{".body.details.causes": "a real one checks twice, and reports it"}},
	{name: "release what is held", method: "PATCH", path: maps1 + "/held", contentType: patched, body: `{"metadata":{"finalizers":null}}`},
	{name: "delete all namespaces", method: "DELETE", path: "/api/v1/namespaces"},
	{name: "delete the default namespace", method: "DELETE", path: "/api/v1/namespaces/default"},
}
