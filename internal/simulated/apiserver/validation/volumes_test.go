// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestObjectChecksVolumes(t *testing.T) {
	t.Parallel()
	volume := func(text, want string) change {
		return change{"spec: {", "spec: {volumes: [{name: v, " + text + "}], ", want}
	}
	projected := func(text, want string) change { return volume("projected: {sources: [{"+text+"}]}", want) }
	downward := func(text, want string) change { return volume("downwardAPI: {items: [{"+text+"}]}", want) }
	const at, source, item = "spec.volumes[0].", "spec.volumes[0].projected.sources[0]", "spec.volumes[0].downwardAPI.items[0]"
	compare(t, &corev1.Pod{}, onePod, []change{
		{"spec: {", "spec: {volumes: [{name: A_b, emptyDir: {}}], ", at + "name: Invalid value"},
		{"spec: {", "spec: {volumes: [{emptyDir: {}}], ", at + "name: Required value"},
		{"spec: {", "spec: {volumes: [{name: v, emptyDir: {}}, {name: v, emptyDir: {}}], ", "spec.volumes[1].name: Duplicate value"},
		volume("emptyDir: {sizeLimit: 1Gi}", ""),
		volume("emptyDir: {sizeLimit: -1}", at+"emptyDir.sizeLimit: Forbidden"),
		volume("emptyDir: {}, secret: {secretName: a}", "spec.volumes[0]: Forbidden"),
		volume("hostPath: {path: /a, type: Directory}", ""),
		volume("hostPath: {}", at+"hostPath.path: Required value"),
		volume("hostPath: {path: /a/../b}", at+"hostPath.path: Invalid value"),
		volume("hostPath: {path: /a, type: Pipe}", at+"hostPath.type: Unsupported value"),
		volume("secret: {secretName: a, defaultMode: 511, items: [{key: a, path: b/c}]}", ""),
		volume("secret: {}", at+"secret.secretName: Required value"),
		volume("secret: {secretName: a, defaultMode: 512}", at+"secret.defaultMode: Invalid value: 512"),
		volume("secret: {secretName: a, items: [{path: b}]}", at+"secret.items[0].key: Required value"),
		volume("secret: {secretName: a, items: [{key: a}]}", at+"secret.items[0].path: Required value"),
		volume("secret: {secretName: a, items: [{key: a, path: /b}]}", at+"secret.items[0].path: Invalid value"),
		volume("secret: {secretName: a, items: [{key: a, path: b/../../c}]}", at+"secret.items[0].path: Invalid value"),
		volume("secret: {secretName: a, items: [{key: a, path: ..b}]}", at+"secret.items[0].path: Invalid value"),
		volume("secret: {secretName: a, items: [{key: a, path: b, mode: -1}]}", at+"secret.items[0].mode: Invalid value: -1"),
		volume("configMap: {}", at+"configMap.name: Required value"),
		volume("configMap: {name: a, defaultMode: 512}", at+"configMap.defaultMode: Invalid value: 512"),
		volume("persistentVolumeClaim: {claimName: a}", ""),
		volume("persistentVolumeClaim: {}", at+"persistentVolumeClaim.claimName: Required value"),
		volume("nfs: {server: a, path: /b}", ""),
		volume("nfs: {path: /b}", at+"nfs.server: Required value"),
		volume("nfs: {server: a, path: b}", at+"nfs.path: Invalid value"),
		volume("csi: {driver: csi.example.com}", ""),
		volume("csi: {}", at+"csi.driver: Required value"),
		volume("csi: {driver: a b}", at+"csi.driver: Invalid value"),
		volume("csi: {driver: a123456789b123456789c123456789d123456789e123456789f123456789.xyz}", at+"csi.driver: Invalid value"),

		downward("path: a, fieldRef: {fieldPath: metadata.labels}", ""),
		downward("path: a, resourceFieldRef: {containerName: c, resource: limits.cpu}", ""),
		downward("fieldRef: {fieldPath: metadata.name}", item+".path: Required value"),
		downward("path: ../a, fieldRef: {fieldPath: metadata.name}", item+".path: Invalid value"),
		downward("path: a", item+": Required value"),
		downward("path: a, fieldRef: {fieldPath: metadata.name}, resourceFieldRef: {containerName: c, resource: limits.cpu}", item+": Required value"),
		downward("path: a, fieldRef: {fieldPath: status.podIP}", item+".fieldRef.fieldPath: Unsupported value"),
		downward("path: a, resourceFieldRef: {resource: limits.cpu}", item+".resourceFieldRef.containerName: Required value"),
		downward("path: a, mode: 512, fieldRef: {fieldPath: metadata.name}", item+".mode: Invalid value: 512"),

		projected("secret: {name: a}", ""),
		projected("secret: {}", source+".secret.name: Required value"),
		projected("configMap: {name: a, items: [{key: a, path: /b}]}", source+".configMap.items[0].path: Invalid value"),
		projected("secret: {name: a}, configMap: {name: a}", source+": Forbidden"),
		projected("downwardAPI: {items: [{path: a}]}", source+".downwardAPI.items[0]: Required value"),
		projected("serviceAccountToken: {path: a, expirationSeconds: 600}", ""),
		projected("serviceAccountToken: {}", source+".serviceAccountToken.path: Required value"),
		projected("serviceAccountToken: {path: a, expirationSeconds: 599}", source+".serviceAccountToken.expirationSeconds: Invalid value: 599"),
		projected("serviceAccountToken: {path: a, expirationSeconds: 4294967297}", source+".serviceAccountToken.expirationSeconds: Invalid value"),
	})
}

func TestObjectChecksMounts(t *testing.T) {
	t.Parallel()
	mount := func(text, want string) change { return change{"mountPath: /a", text, want} }
	const at = "spec.containers[0].volumeMounts[0]."
	compare(t, &corev1.Pod{}, "spec: {volumes: [{name: v, emptyDir: {}}], containers: [{name: c, image: v1, volumeMounts: [{name: v, mountPath: /a}]}]}", []change{
		{"{name: v, mountPath", "{mountPath", at + "name: Required value"},
		{"{name: v, mountPath", "{name: w, mountPath", at + "name: Not found"},
		mount("mountPath: ''", at+"mountPath: Required value"),
		mount("mountPath: /a, subPath: b/c", ""),
		mount("mountPath: /a, subPath: /b", at+"subPath: Invalid value"),
		mount("mountPath: /a, subPath: b/../c", at+"subPath: Invalid value"),
		mount("mountPath: /a, subPathExpr: ../c", at+"subPathExpr: Invalid value"),
		mount("mountPath: /a, subPath: b, subPathExpr: c", at+"subPathExpr: Invalid value"),
		{"/a}]", "/a}, {name: v, mountPath: /a}]", "spec.containers[0].volumeMounts[1].mountPath: Duplicate value"},
	})
}
