# sh -c THIS sandbar MARK WAIT GRACE ends the processes that have MARK in their environment: with SIGHUP, and after
# GRACE tenths of a second with SIGKILL. Until one is found it looks for WAIT tenths. It exits with 0 if none is left.
# It has MARK among its arguments and not in its environment, so that it does not find itself. Beside the shell it
# needs nothing but sleep.
set +aefuvx
unset IFS
mark=$1 patience=$2 grace=$3

# look lists the processes. The environment has NULs in it, which read drops. One that cannot be read belongs to
# another user, or its process has ended.
look() {
	found=
	for dir in /proc/[0-9]*; do
		{
			while IFS= read -r line || [ -n "$line" ]; do
				case $line in
				*"$mark"*)
					found="$found ${dir#/proc/}"
					break
					;;
				esac
			done <"$dir/environ"
		} 2>/dev/null
	done
}

# find looks twice before it believes that there is none: a process can begin another one behind a look and end
# before it.
find() {
	look
	[ -n "$found" ] || look
}

# pause takes a tenth of a second off what is left, a whole one where sleep knows nothing less, and all without sleep.
pause() {
	if sleep 0.1; then
		left=$((left - 1))
	elif sleep 1; then
		left=$((left - 10))
	else
		left=0
	fi
} 2>/dev/null

find
left=$patience
while [ -z "$found" ] && [ "$left" -gt 0 ]; do
	pause
	find
done
[ -n "$found" ] || exit 0
{
	kill -s HUP $found
	kill -s CONT $found
} 2>/dev/null
left=$grace
while find; [ -n "$found" ] && [ "$left" -gt 0 ]; do pause; done
# A process may have begun another one meanwhile, and takes a moment to go.
left=20
while [ -n "$found" ] && [ "$left" -gt 0 ]; do
	kill -s KILL $found 2>/dev/null
	pause
	find
done
[ -z "$found" ]
