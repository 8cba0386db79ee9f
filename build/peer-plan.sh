#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Compares plans of bin/capstan with the changes that upstream's controllers make. It
# starts a plane without controllers of Cluster API, installs upstream's managers in it,
# which are built from the modules that peer/e2e names, and runs the tests of
# internal/e2e for such a management cluster:
#
#   build/peer-plan.sh [PATTERN]         only the tests of this pattern
#
# With KEEP=1 the plane stays, and its folder is printed.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD out=$PWD/bin/test/peer-plan version=v1.14.2
mkdir -p "$out"
go build -o "$out/image" ./build/image
CAPSTAN_ROOT=$PWD go test -vet=off -ldflags '-s -w' -c -o "$out/e2e.test" ./internal/e2e
cd peer/e2e
go mod download sigs.k8s.io/cluster-api sigs.k8s.io/cluster-api/test
module() { go list -m -f '{{.Dir}}' "$1"; }
core=$(module sigs.k8s.io/cluster-api) test=$(module sigs.k8s.io/cluster-api/test)

# Each provider: its name, the name of its image, the package of its manager, and the
# folder of its manifests.
providers="\
cluster-api cluster-api-controller sigs.k8s.io/cluster-api/core $core/core
bootstrap-kubeadm kubeadm-bootstrap-controller sigs.k8s.io/cluster-api/bootstrap/kubeadm $core/bootstrap/kubeadm
control-plane-kubeadm kubeadm-control-plane-controller sigs.k8s.io/cluster-api/controlplane/kubeadm $core/controlplane/kubeadm
infrastructure-docker capd-manager sigs.k8s.io/cluster-api/test/infrastructure/docker $test/infrastructure/docker"

dir=$(mktemp -d)
capstan() { KUBECONFIG=$dir/plane/kubeconfig "$root/bin/capstan" "$@"; }
finish() {
	if [[ ${KEEP:-} ]]; then echo "plane: $dir/plane"; return; fi
	capstan down --data-dir "$dir/plane" 2>/dev/null || true
	rm -rf "$dir"
}
trap finish EXIT
trap 'exit 130' INT TERM

# Only the Docker backend of the last provider needs the socket and privileges.
withoutDocker='
  - target: {kind: Deployment}
    patch: |
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: any}
      spec:
        template:
          spec:
            volumes: [{name: dockersock, $patch: delete}]
            containers:
            - name: manager
              volumeMounts: [{mountPath: /var/run/docker.sock, $patch: delete}]
              securityContext: {privileged: false, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}'
while read -r name image package manifests; do
	if [[ ! -d $out/$image ]]; then
		"$out/image" -arch "$(go env GOARCH)" -program manager -name "gcr.io/k8s-staging-cluster-api/$image:main" -out "$out/$image" "$package"
	fi
	folder=$dir/repository/$name/$version
	mkdir -p "$folder" "$dir/overlay"
	cat >"$dir/overlay/kustomization.yaml" <<-EOF
	resources: [$(realpath --relative-to "$dir/overlay" "$manifests/config/default")]
	patches:
	  - target: {kind: Deployment}
	    patch: |
	      [{"op": "replace", "path": "/spec/template/spec/containers/0/imagePullPolicy", "value": "IfNotPresent"}]
	EOF
	if [[ $name == infrastructure-docker ]]; then echo "${withoutDocker#$'\n'}" >>"$dir/overlay/kustomization.yaml"; fi
	"$root/bin/kustomize" build --load-restrictor LoadRestrictionsNone "$dir/overlay" >"$folder/components.yaml"
	cp "$core/metadata.yaml" "$folder/"
	type=${name%%-*}Provider
	case $name in cluster-api) type=CoreProvider ;; control-plane-*) type=ControlPlaneProvider ;; esac
	short=${name##*-}
	if [[ $name == cluster-api ]]; then short=cluster-api; fi
	echo "- {name: $short, type: ${type^}, url: $folder/components.yaml}" >>"$dir/providers"
done <<<"$providers"
(echo "providers:"; cat "$dir/providers") >"$dir/clusterctl.yaml"

capstan up --detach --providers certificates --data-dir "$dir/plane" --listen 127.0.0.1:0 --simulated-dir "$dir/plane/simulated" --containers-dir "$dir/plane/containers"
while read -r _ image _; do capstan image import "$out/$image" --data-dir "$dir/plane"; done <<<"$providers"
CLUSTER_TOPOLOGY=true CAPI_INSECURE_DIAGNOSTICS=true capstan init --config "$dir/clusterctl.yaml" --core cluster-api --bootstrap kubeadm --control-plane kubeadm \
	--infrastructure docker --wait-providers --wait-provider-timeout 300

cd "$root/internal/e2e"
CAPSTAN_TEST_PROGRAMS=$root/bin CAPSTAN_TEST_UPSTREAM=$dir/plane/kubeconfig CAPSTAN_TEST_UPSTREAM_TEMPLATES=$test/infrastructure/docker/templates \
	"$out/e2e.test" -test.v -test.timeout 0 -test.run "${1:-TestUpstreamDoes|ForUpstream}"
