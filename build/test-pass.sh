#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the tests of one pass (see internal/testenv) with test binaries that "make
# test-programs" built:
#
#   build/test-pass.sh PASS FOLDER...      PASS is shared, own, alone, or all
#
# The tests of the passes shared and own use one plane, which is started here, and run in
# two packages at a time; those of the pass alone run one after the other, and yield to
# everything else. RUN selects tests by a pattern, COUNT repeats them, V=1 prints the
# output of tests that pass.
set -euo pipefail
cd "$(dirname "$0")/.."
pass=$1
shift
dir=$(mktemp -d)
export CAPSTAN_TEST_PROGRAMS=$PWD/bin CAPSTAN_TEST_PASS=${pass/all/} dir
export CAPSTAN_TEST_PODS_PROBE=$PWD/bin/test/probe
if [[ -x bin/helm ]]; then export CAPSTAN_HELM=$PWD/bin/helm; fi
plane='' runner=''
finish() {
	if [[ $runner ]]; then kill -- "-$runner" 2>/dev/null || true; fi
	if [[ $plane ]]; then kill "$plane" 2>/dev/null && wait "$plane" || true; fi
	rm -rf "$dir"
}
trap finish EXIT
trap 'exit 130' INT TERM

if [[ $pass != alone ]]; then
	data=$dir/plane
	bin/capstan up --data-dir="$data" --simulated-dir="$data/simulated" --containers-dir="$data/containers" --listen=127.0.0.1:0 >"$dir/ready" 2>"$dir/up" &
	plane=$!
	until [[ -s $dir/ready ]]; do
		kill -0 "$plane" 2>/dev/null || { cat "$dir/up" >&2; plane=; exit 1; }
		sleep 0.1
	done
	export CAPSTAN_TEST_KUBECONFIG=$data/kubeconfig
fi

# one runs the tests of a package and prints a line, and what they print if one fails.
one() {
	local package=${1#./} TIMEFORMAT='%R %U %S' out status=0 wall user system
	local binary=$PWD/bin/test/binaries/${package//\//_}.test
	[[ -x $binary ]] || { echo "FAIL $package: no test binary: run make test-programs"; return 1; }
	out=$(mktemp "$dir/out.XXXXXX")
	local flags=(-test.run="${RUN:-}" -test.count="${COUNT:-1}" -test.timeout="${TIMEOUT:-40m}" -test.v)
	if [[ ${CAPSTAN_TEST_PASS:-} == alone ]]; then flags+=(-test.parallel=1); fi
	{ time env -C "$package" "$binary" "${flags[@]}" >"$out" 2>&1; } 2>"$out.time" || status=$?
	read -r wall user system <"$out.time"
	if [[ $status != 0 || ${V:-} ]]; then cat "$out"; fi
	printf '%s %-34s %6.1f s %6.1f CPU s, %d passed, %d skipped\n' "$([[ $status == 0 ]] && echo 'ok  ' || echo FAIL)" "$package" \
		"$wall" "$(echo "$user $system" | awk '{ print $1 + $2 }')" "$(grep -c '^--- PASS' "$out" || true)" "$(grep -c '^--- SKIP' "$out" || true)"
	return "$status"
}
export -f one

packages=2
if [[ $pass == alone ]]; then
	packages=1
	renice -n 19 $$ >/dev/null
fi
set -m # a process group of their own, for finish
printf '%s\n' "$@" | xargs -I{} -P "$packages" bash -c 'one {}' &
runner=$!
wait "$runner"
