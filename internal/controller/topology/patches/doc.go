// SPDX-License-Identifier: Apache-2.0

// Package patches changes the templates of a ClusterClass for one Cluster.
//
// A class is compiled once. A Run applies its patches to the templates of a Cluster:
// inline patches are computed here, in the order of the class; for an external patch,
// Next returns the question to the extension, and Answer applies the response.
// Validations run after all patches, and Finish copies the result to the desired
// objects.
//
// Patches change spec.template.spec and the labels and annotations, and no other fields:
// other changes are ignored, as upstream does, where a patch can replace all of spec and
// add below. They also do not change the fields that the topology itself sets, in
// particular version and replicas: the topology's values are final. An error concerns
// the template on which it occurred; other templates continue.
//
// The order of the items of a request, their UIDs and their variables depend only on
// Cluster and class, so that equal requests are identical byte for byte.
//
// ClusterBuiltins and its siblings build the values of the variable builtin, which
// patches can use without a value in the Cluster: data of the Cluster, and of the
// group of machines that a template is for. The fields are those of hooksv1.Builtins,
// since extensions get the same.
package patches
