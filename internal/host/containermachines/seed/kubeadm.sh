#!/bin/sh
# Runs kubeadm as machines of this host need it.
umask 077
real=
for at in /usr/local/bin/kubeadm /usr/bin/kubeadm; do
	if [ -x "$at" ]; then real=$at; break; fi
done
if [ -z "$real" ]; then
	echo "kubeadm: neither /usr/local/bin nor /usr/bin has it: build the node image again" >&2
	exit 127
fi
case "$1 $2" in
"init phase" | "join phase") exec "$real" "$@" ;;
"init "* | "join "*) ;;
*) exec "$real" "$@" ;;
esac
verb=$1 before=
shift
set -- "$@"@IGNORE@
if [ "$verb" = init ]; then
	n=$#
	while [ "$n" -gt 0 ]; do
		arg=$1 file=
		shift
		case "$arg" in
		--config=*) file=${arg#--config=} ;;
		*) [ "$before" = --config ] && file=$arg ;;
		esac
		before=$arg
		if [ -f "$file" ] && ! grep -q KubeProxyConfiguration "$file"; then
			mkdir -p /run/capstan
			cat "$file" /etc/capstan/kube-proxy.yaml >/run/capstan/kubeadm.yaml || exit 1
			case "$arg" in
			--config=*) arg=--config=/run/capstan/kubeadm.yaml ;;
			*) arg=/run/capstan/kubeadm.yaml ;;
			esac
		fi
		set -- "$@" "$arg"
		n=$((n - 1))
	done
fi
exec "$real" "$verb" "$@"
