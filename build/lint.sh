#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The linters, pinned in go.tools.mod; docs/adr says why these. staticcheck reads
# the source of everything a package reaches, so it is spared the few packages
# that reach an API server: go vet reads those.
set -euo pipefail
cd "$(dirname "$0")/.."

go tool -modfile=go.tools.mod revive -config build/revive.toml -set_exit_status ./...
go build -modfile=go.tools.mod -o bin/errcheck build/errcheck/main.go
go vet -vettool=bin/errcheck ./...
go list ./... | grep -v -e /internal/mgmtplane$ -e /internal/app/plane$ -e /cmd/capstan$ | xargs go tool -modfile=go.tools.mod staticcheck
go test -count 1 -v -run TestHouse . | grep -v "^=== "
