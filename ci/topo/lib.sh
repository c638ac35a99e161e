# shellcheck shell=sh
# Helpers of the topology scripts. These run as root in the guest, with the
# environment that the command will get, before it starts. A process costs a
# tenth of a second under pure emulation, hence ip's batches and few subshells.
set -eu

fail() {
	echo "$*" >&2
	exit 1
}

# eventually WHAT COMMAND...: polls until COMMAND succeeds, at most 60 seconds,
# else fails with WHAT. For states that the kernel reaches in its own time.
eventually() {
	what=$1
	shift
	uptime
	deadline=$((seconds + 60))
	until "$@" >/dev/null 2>&1; do
		uptime
		[ "$seconds" -lt "$deadline" ] || {
			dmesg | tail -n 5 >&2
			fail "after 60 s: $what"
		}
		sleep 0.05
	done
}

# uptime sets seconds.
uptime() {
	read -r seconds _ </proc/uptime
	seconds=${seconds%%.*}
}

# load_rdma MODULE...: loads the connection manager, user-space verbs, the
# transport, and the modules named.
load_rdma() {
	case $RAILBIND_TRANSPORT in
	rxe) crc=crc32_generic && set -- rdma_rxe "$@" ;;
	siw) crc=crc32c_generic && set -- siw "$@" ;;
	*) fail "unknown transport $RAILBIND_TRANSPORT" ;;
	esac
	# Older kernels have checksums as modules, which the transports look up by
	# name and do not depend on.
	for module in "/lib/modules/$RAILBIND_KERNEL/kernel/crypto/$crc".ko*; do
		[ -e "$module" ] && set -- "$crc" "$@"
	done
	modprobe -a ib_uverbs rdma_ucm "$@"
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
	eventually "$dev has no device node" has_node "$dev"
	eventually "$dev is not active" active "$dev"
	[ "$RAILBIND_TRANSPORT" = rxe ] || return 0
	for address; do
		gid "$address"
		eventually "$dev has no GID for $address" has_gid "$dev" "$gid"
	done
}

has_node() {
	for node in /sys/class/infiniband_verbs/uverbs*; do
		read -r name <"$node/ibdev"
		[ "$name" = "$1" ] && [ -c "/dev/infiniband/${node##*/}" ] && return 0
	done
	return 1
}

active() {
	read -r state <"/sys/class/infiniband/$1/ports/1/state"
	[ "${state##* }" = ACTIVE ]
}

# has_gid DEVICE GID: looks at the rows in use, which are the first ones.
has_gid() {
	row=0
	while read -r value <"/sys/class/infiniband/$1/ports/1/gids/$row"; do
		[ "$value" = "$2" ] && return 0
		[ "$value" = 0000:0000:0000:0000:0000:0000:0000:0000 ] && [ "$row" -gt 15 ] && return 1
		row=$((row + 1))
	done
	return 1
}

# gid ADDRESS: sets gid, written as in sysfs.
gid() {
	old=$IFS
	case $1 in
	*:*)
		gid=
		IFS=:
		# shellcheck disable=SC2086 # split at the colons
		set -- ${1%%::*} -- ${1##*::}
		zeros=$((9 - $#))
		for word; do
			if [ "$word" = -- ]; then
				while [ "$zeros" -gt 0 ]; do
					gid=${gid}0000:
					zeros=$((zeros - 1))
				done
				continue
			fi
			word=000$word
			while [ ${#word} -gt 4 ]; do word=${word#?}; done
			gid=$gid$word:
		done
		gid=${gid%:}
		;;
	*)
		IFS=.
		# shellcheck disable=SC2086 # split at the dots
		set -- $1
		gid=$(printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' "$@")
		;;
	esac
	IFS=$old
}

# warm ADDRESS[%NETDEV]...: waits for an answer of each, so that the neighbours
# are known and no test pays for a kernel's late wake-up.
warm() {
	pids=
	for address; do
		(eventually "$address does not answer" ping -n -q -c 1 -W 1 "$address") &
		pids="$pids $!"
	done
	for pid in $pids; do
		wait "$pid" || exit 1
	done
}

ip link set lo up
