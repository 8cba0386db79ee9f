#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the tests of sandboxes on another kernel, with control groups of version 2 alone, in
# an emulated machine: as root, as a plain user, and with files where owners cannot be
# mapped. It needs qemu-system-x86_64, a static busybox, cpio and mkfs.ext4, but no root.
#
#   build/on-kernel.sh VMLINUZ MODULES     as of a package of a distribution, such as
#                                          boot/vmlinuz-6.1.0-56-cloud-amd64 and
#                                          lib/modules/6.1.0-56-cloud-amd64
#
# ACCEL=kvm is faster where the host has it.
set -euo pipefail
kernel=${1:?the file of a kernel} modules=${2:?the folder of its modules}
busybox=$(command -v busybox)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
root=$dir/root
mkdir -p "$root"/{bin,new,t,lib/modules}
cp "$busybox" "$root/bin/"
cp -r "$modules" "$root/lib/modules/"
depmod -b "$root" "$(basename "$modules")"
export CGO_ENABLED=0 GOOS=linux GOARCH=amd64
go test -c -o "$root/t/pods.test" ./internal/host/pods
go test -c -o "$root/t/holder.test" ./internal/host/pods/holder
go test -c -o "$root/t/containerproc.test" ./internal/host/containerproc
go test -c -o "$root/t/rootfs.test" ./internal/host/rootfs
go test -c -o "$root/t/cgroups.test" ./internal/host/cgroups
go build -o "$root/t/probe" ./internal/host/pods/testdata/probe

# The first root cannot be pivoted away from, so all moves to a second one.
cat >"$root/init" <<'EOF'
#!/bin/busybox sh
/bin/busybox mount -t tmpfs -o size=1g tmpfs /new
/bin/busybox cp -a /bin /lib /t /new/
/bin/busybox mkdir -p /new/proc /new/sys /new/dev /new/etc /new/tmp /new/disk
exec /bin/busybox switch_root /new /t/init
EOF
cat >"$root/t/init" <<'EOF'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm; mount -t devpts pts /dev/pts; mount -t tmpfs shm /dev/shm
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for m in virtio_pci virtio_blk ext4 overlay nf_tables nft_chain_nat nft_nat nft_redir nft_masq nft_ct; do modprobe $m 2>/dev/null; done
until [ -b /dev/vda ]; do sleep 0.1; done
mount -t ext4 /dev/vda /disk; chmod 1777 /disk /tmp; ip link set lo up
echo 'root:x:0:0::/:/bin/sh
nobody:x:65534:65534::/:/bin/sh' >/etc/passwd; echo 'nobody:x:65534:' >/etc/group
uname -r; cat /sys/fs/cgroup/cgroup.controllers
cd /t; failed=
run() { echo "== $1"; shift; "$@" || failed="$failed $1"; }
export CAPSTAN_TEST_PODS_PROBE=/t/probe TMPDIR=/disk
run "control groups" ./cgroups.test
run "the holder" ./holder.test
run "processes" ./containerproc.test
run "roots" ./rootfs.test
run "as root, and from it as a plain user" ./pods.test -test.timeout=30m
run "as a plain user" su nobody -s /bin/sh -c './pods.test -test.timeout=30m'
echo "failed:$failed."
poweroff -f
EOF
chmod +x "$root/init" "$root/t/init"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1 >"$dir/initrd.gz")
truncate -s 2G "$dir/disk"
mkfs.ext4 -q -F "$dir/disk"
qemu-system-x86_64 -accel "${ACCEL:-tcg,thread=multi}" -cpu max -smp 2 -m 3G -nographic -no-reboot \
	-kernel "$kernel" -initrd "$dir/initrd.gz" -drive "file=$dir/disk,if=virtio,format=raw" \
	-append "console=ttyS0 quiet panic=-1 rdinit=/init" </dev/null | tee "$dir/log"
grep -q '^failed:\.' "$dir/log"
