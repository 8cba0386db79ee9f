// SPDX-License-Identifier: Apache-2.0

// Package patches changes the templates of a ClusterClass for one Cluster.
//
// A class is compiled once. A Run is its patches on the templates of a Cluster:
// those that are defined inline are computed here, in the order of the class;
// for one that an extension makes, Next returns what to ask, and Answer takes
// what came back. Validations are asked when all is patched, and Finish copies
// the outcome to the desired objects.
//
// Patches change spec.template.spec and the labels and annotations, nothing else:
// other changes are ignored, as upstream does, where a patch may replace all of spec
// and add below. What the topology itself sets they do not change either, above all
// version and replicas: the topology's values stand.
// An error is one of the template that it concerns; other templates go on.
//
// The order of the items of a request, their UIDs and their variables depend on
// Cluster and class alone, so that equal requests are the same bytes.
package patches
