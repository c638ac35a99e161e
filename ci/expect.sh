# shellcheck shell=sh
# For scripts that try programs, sourced by them.

fail() {
	echo "ci/${0##*/}: $*" >&2
	exit 1
}

ok() {
	echo "ok   $*"
}

# expect WHAT STATUS PATTERN COMMAND... wants COMMAND to exit with STATUS, and to
# print a line that matches PATTERN.
expect() {
	what=$1 want=$2 pattern=$3 status=0
	shift 3
	out=$("$@" 2>&1 </dev/null) || status=$?
	if [ "$status" != "$want" ] || ! printf '%s\n' "$out" | grep -Eq -- "$pattern"; then
		printf '%s\n' "$out" >&2
		fail "$what: expected status $want and /$pattern/, got status $status and the output above"
	fi
	ok "$what"
}
