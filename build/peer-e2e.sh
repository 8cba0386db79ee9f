#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs Cluster API's own end-to-end specs (peer/e2e) against planes of bin/capstan:
#
#   build/peer-e2e.sh SETUPS LABELS      "local inmemory" 'quick-start || upgrade'
#
# Logs, reports and the data of each plane are in the folder ARTIFACTS, which is removed
# after a run without a failure if it was not given.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD out=$PWD/bin/test/peer-e2e setups=$1 labels=${2:-}
cd peer/e2e
mkdir -p "$out"
upstream=$(go mod download sigs.k8s.io/cluster-api/test && go list -m -f '{{.Dir}}' sigs.k8s.io/cluster-api/test)
go test -vet=off -tags e2e -ldflags '-s -w' -c -o "$out/suite" .
if [[ $setups == *inmemory* ]]; then
	(cd "$root" && go build -o "$out/image" ./build/image)
	for image in capd-manager:infrastructure/docker test-extension:extension; do
		rm -rf "$out/${image%:*}"
		"$out/image" -arch "$(go env GOARCH)" -program manager -name "gcr.io/k8s-staging-cluster-api/${image%:*}:main" -out "$out/${image%:*}" "sigs.k8s.io/cluster-api/test/${image#*:}"
	done
fi
artifacts=${ARTIFACTS:-$(mktemp -d)}
status=0
for setup in $setups; do
	"$out/suite" -test.timeout 0 -setup "$setup" -capstan "$root/bin/capstan" -upstream "$upstream" -images "$out" -artifacts "$artifacts/$setup" \
		--ginkgo.label-filter "$labels" --ginkgo.timeout 4h --ginkgo.no-color --ginkgo.succinct --ginkgo.json-report "$artifacts/$setup-report.json" || status=$?
done
if [[ $status == 0 && ! ${ARTIFACTS:-} ]]; then rm -rf "$artifacts"; else echo "artifacts: $artifacts"; fi
exit "$status"
