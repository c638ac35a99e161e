# Helpers of the topology scripts. They run as root in the guest, with the
# environment that the command will get, before it starts.
set -eu

ip link set lo up

fail() {
	echo "$*" >&2
	exit 1
}

# eventually WHAT COMMAND...: polls until COMMAND succeeds, at most 60 seconds,
# else fails with WHAT. For states that the kernel reaches in its own time.
eventually() {
	what=$1
	shift
	end=$(($(uptime_seconds) + 60))
	until "$@" >/dev/null 2>&1; do
		[ "$(uptime_seconds)" -lt "$end" ] || {
			dmesg | tail -n 5 >&2
			fail "after 60 s: $what"
		}
		sleep 0.05
	done
}

uptime_seconds() {
	read -r up _ </proc/uptime
	echo "${up%%.*}"
}

# load_rdma loads the connection manager, user-space verbs and the transport.
load_rdma() {
	case $RAILBIND_TRANSPORT in
	rxe) modprobe -a crc32_generic ib_uverbs rdma_ucm rdma_rxe ;; # rxe wants a crc32, and does not ask for it
	siw) modprobe -a crc32c_generic ib_uverbs rdma_ucm siw ;;
	*) fail "unknown transport $RAILBIND_TRANSPORT" ;;
	esac
	eventually "no /dev/infiniband/rdma_cm" test -c /dev/infiniband/rdma_cm
}

# rdma_dev NUMBER NETDEV: makes rxe0 or siw0 and so on, on a netdev.
rdma_dev() {
	rdma link add "$RAILBIND_TRANSPORT$1" type "$RAILBIND_TRANSPORT" netdev "$2" || {
		dmesg | tail -n 5 >&2
		fail "cannot make $RAILBIND_TRANSPORT$1 on $2"
	}
}

# gids NUMBER ADDRESS...: waits until the device's port is active and its GID
# table has every address. iWARP has no addresses in its table.
gids() {
	dev=$RAILBIND_TRANSPORT$1
	shift
	eventually "$dev is not active" grep -q ACTIVE "/sys/class/infiniband/$dev/ports/1/state"
	[ "$RAILBIND_TRANSPORT" = rxe ] || return 0
	for address; do
		eventually "$dev has no GID for $address" has_gid "$dev" "$(gid "$address")"
	done
}

has_gid() {
	cat /sys/class/infiniband/"$1"/ports/1/gids/* 2>/dev/null | grep -qx "$2"
}

# gid ADDRESS: as sysfs prints it.
gid() {
	case $1 in
	*:*) gid6 "$1" ;;
	*) gid4 "$1" ;;
	esac
}

gid4() {
	old=$IFS
	IFS=.
	# shellcheck disable=SC2086 # split at the dots
	set -- $1
	IFS=$old
	printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x\n' "$@"
}

gid6() {
	head=${1%%::*} tail=
	case $1 in *::*) tail=${1##*::} ;; esac
	old=$IFS
	IFS=:
	# shellcheck disable=SC2086 # split at the colons
	set -- $head
	h=$#
	# shellcheck disable=SC2086
	set -- $head $tail
	IFS=$old
	zeros=$((8 - $#)) out= n=0
	for part; do
		if [ "$n" = "$h" ]; then
			out=$out$(zero_words "$zeros")
			zeros=0
		fi
		out=$out$(printf '%04x:' "0x$part")
		n=$((n + 1))
	done
	out=$out$(zero_words "$zeros")
	echo "${out%:}"
}

zero_words() {
	i=0
	while [ "$i" -lt "$1" ]; do
		printf '0000:'
		i=$((i + 1))
	done
}

# warm ADDRESS [NETDEV]: waits for an answer, so that the neighbour is known
# and no test pays for a kernel's late wake-up.
warm() {
	eventually "$1 does not answer" ping -n -q -c 1 -W 1 ${2:+-I "$2"} "$1"
}
