#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the sample extension beside the running management plane: serves it on a
# free port of the loopback address, registers it as "sample", shows what the plane
# knows of it, and takes the registration away again on Ctrl-C. Flags of "capstan
# extension register" may be given as arguments, such as
# --setting retryAfterSeconds=3; --data-dir goes by XDG_DATA_HOME.
set -euo pipefail
set -m # the extension is to outlive Ctrl-C until it is unregistered
cd "$(dirname "$0")/.."
capstan=bin/capstan name=sample
unset KUBECONFIG # else it would be registered there

if ! "$capstan" status | grep -q '^State: *Running'; then
	echo "no management plane runs here: start one with $capstan up --detach" >&2
	exit 1
fi

dir=$(mktemp -d) pid='' registered=''
finish() {
	trap '' INT TERM
	if [[ $registered ]]; then "$capstan" extension unregister "$name" || true; fi
	if [[ $pid ]]; then kill "$pid" 2>/dev/null && wait "$pid" || true; fi
	rm -rf "$dir"
}
trap finish EXIT
trap 'exit 0' INT TERM

bin/sample-extension --address 127.0.0.1:0 --ca-out "$dir/ca.crt" 2> >(tee "$dir/log" >&2) &
pid=$!
url=''
for _ in {1..100}; do
	url=$(sed -n 's/.*Serving runtime extensions.* url=\([^ ]*\).*/\1/p' "$dir/log" 2>/dev/null || true)
	if [[ $url ]]; then break; fi
	kill -0 "$pid" 2>/dev/null || break
	sleep 0.1
done
if [[ ! $url ]]; then
	echo "the sample extension does not serve: see above" >&2
	exit 1
fi

registered=yes
"$capstan" extension register "$name" --url "$url" --ca-file "$dir/ca.crt" "$@" >/dev/null
echo
"$capstan" extension list "$name"
echo
echo "Serving at $url until Ctrl-C. Hold a Cluster up with"
echo "  kubectl annotate cluster NAME sample-extension.capstan.dev/hold=true"
echo "and ask it yourself: $capstan extension test $name, $capstan extension call HOOK --config $name"
wait "$pid"
