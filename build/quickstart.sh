#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A cluster in one command: starts a management plane if none runs, creates the
# cluster "demo" if it is not there, and shows its tree and its nodes. Flags for
# "capstan up" may be given as arguments; --data-dir goes by XDG_DATA_HOME.
set -euo pipefail
cd "$(dirname "$0")/.."
capstan=bin/capstan
unset KUBECONFIG # else the cluster would be made there

"$capstan" up --detach "$@"
if ! "$capstan" describe cluster demo >/dev/null 2>&1; then
	"$capstan" create cluster demo --control-plane-machine-count 3 --worker-machine-count 2
fi
echo
"$capstan" describe cluster demo
echo
if command -v kubectl >/dev/null; then
	config=$(mktemp)
	trap 'rm -f "$config"' EXIT
	"$capstan" get kubeconfig demo >"$config"
	kubectl --kubeconfig "$config" get nodes
else
	"$capstan" get nodes demo
fi
echo
echo "bin/capstan status, bin/capstan describe cluster demo, bin/capstan down: see README.md"
