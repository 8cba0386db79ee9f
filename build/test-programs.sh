#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds what tests run, so that no test compiles anything:
#
#   build/test-programs.sh LDFLAGS FOLDER...
#
# bin/                  the programs of cmd/
# bin/test/             programs that run in Pods, and an API server without Capstan
# bin/test/images/      images of capstan and capstan-manager for this machine
# bin/test/example/     both releases of examples/provider-example
# bin/test/binaries/    the test binaries of the folders
#
# It builds nothing if no file has changed since it last succeeded with these arguments.
set -euo pipefail
cd "$(dirname "$0")/.."
ldflags=$1
shift
stamp=bin/test/stamp
unchanged() {
	[[ -f $stamp && $(<"$stamp") == "$ldflags $*" && -x bin/capstan ]] &&
		[[ -z $(git ls-files -coz --exclude-standard | xargs -0 sh -c 'find "$@" -newer bin/test/stamp' sh 2>&1) ]]
}
if unchanged "$@"; then exit; fi
arch=$(go env GOARCH)
mkdir -p bin/test/binaries bin/test/images
rm -f "$stamp"
echo "$ldflags $*" >"$stamp.new" # as old as this start
go build -ldflags "$ldflags" -o bin/ ./cmd/...
go build -ldflags '-s -w' -o bin/test/ ./internal/testenv/foreign ./internal/host/pods/testdata/probe ./internal/host/podrunner/testdata/server \
	./internal/e2e/testdata/{aggregated,manager,misbehaves,served,toolbox}

for program in capstan capstan-manager; do
	if [[ ! bin/test/images/$program -nt bin/$program ]]; then
		rm -rf "bin/test/images/$program"
		go run ./build/image -ldflags "$ldflags" -arch "$arch" -name "example.com/$program:v1" -out "bin/test/images/$program" "./cmd/$program"
	fi
done

out=$PWD/bin/test/example
(
	cd examples/provider-example
	rm -rf "$out/dist"
	go run ./pack -images=false -out "$out/dist"
	go build -ldflags '-s -w' -tags first -o "$out/v0.1.0/provider-example" .
	go build -ldflags '-s -w' -o "$out/v0.2.0/provider-example" .
)

CAPSTAN_ROOT=$PWD go test -vet=off -ldflags '-s -w' -exec "$PWD/build/keep-test.sh" "${@/#/./}" >/dev/null
mv "$stamp.new" "$stamp"
