# Takes an archive into an empty folder. What an interrupted program has begun may
# still be under way, and reads what is there.
set -eu
umask 077
exec 9>"$2"
if ! flock --wait 60 9; then
	echo "another renewal is under way in the machine: it is waited for" >&2
	exit 1
fi
rm -rf "$1"
mkdir -p "$1"
exec tar --extract --directory "$1"
