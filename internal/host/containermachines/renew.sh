# Makes the Kubernetes of this machine that of another node image, whose files are in
# the folder $1. kubeadm leaves out the checks $3. The file
# $2 is locked meanwhile. The machine's own files are below $4: nothing is /.
set -eu
umask 022
exec 9>"$2"
if ! flock --wait 60 9; then
	echo "another renewal is under way in the machine: it is waited for" >&2
	exit 1
fi
new=$1/node store=$1/store ignore=$3 root=${4-}
work=$root/run/capstan-renewal
pkill --full "^containerd --config $work/" || true # that of one that was killed
rm -rf "$work"
mkdir -m 700 "$work"

# Container images: a second containerd reads the store that came, and the machine's
# own takes over what it lacks. Pods run on.
cat >"$work/config.toml" <<END
version = 3
root = "$store"
state = "$work/state"
disabled_plugins = ["io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", "io.containerd.nri.v1.nri", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.opt"]
[grpc]
  address = "$work/s"
[ttrpc]
  address = "$work/s.ttrpc"
END
containerd --config "$work/config.toml" >"$work/log" 2>&1 9>&- &
daemon=$!
trap 'kill "$daemon" 2>/dev/null || true; wait "$daemon" 2>/dev/null || true; rm -rf "$work"' EXIT
export CONTAINERD_SUPPRESS_DEPRECATION_WARNINGS=1
there="ctr --address $work/s --namespace k8s.io" here="ctr --namespace k8s.io"
tries=0
until $there version >/dev/null 2>&1; do
	tries=$((tries + 1))
	if [ "$tries" -gt 300 ] || ! kill -0 "$daemon" 2>/dev/null; then
		echo "the containerd that reads the images does not answer:" >&2
		tail -n 5 "$work/log" >&2
		exit 1
	fi
	sleep 0.1
done
have=$($here images list --quiet)
for image in $($there images list --quiet); do
	case "$image" in sha256:*) continue ;; esac
	if printf '%s\n' "$have" | grep -qxF "$image"; then continue; fi
	# Without --local it may end before all of it is written.
	$there images export --local "$1/image.tar" "$image"
	$here images import --snapshotter overlayfs "$1/image.tar" >/dev/null
	rm "$1/image.tar"
done

# What kubelet starts of a control plane is changed first, as kubeadm has it: no
# kubelet may be newer than its API server.
kubeadm=$new/usr/local/bin/kubeadm
if [ ! -x "$kubeadm" ]; then kubeadm=kubeadm; fi
"$kubeadm" upgrade node ${ignore:+"--ignore-preflight-errors=$ignore"}

# A program that runs cannot be written to: each file takes the place of another.
if [ -d "$new" ]; then
	(
		cd "$new"
		find . -type f | while read -r file; do
			mkdir -p "$root/${file%/*}"
			cp --preserve=mode "$file" "$root/$file.renewal"
			mv "$root/$file.renewal" "$root/$file"
		done
	)
fi
systemctl daemon-reload
if [ -e "$new/usr/local/bin/containerd" ] || [ -e "$new/etc/containerd/config.toml" ]; then
	systemctl restart containerd.service
fi
systemctl restart kubelet.service
tries=0
until systemctl is-active --quiet kubelet.service; do
	tries=$((tries + 1))
	if [ "$tries" -gt 100 ]; then
		echo "kubelet does not run:" >&2
		journalctl --unit kubelet.service --lines 5 --no-pager >&2
		exit 1
	fi
	sleep 0.1
done
rm -rf "$1"
