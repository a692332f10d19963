# sh -c THIS sandbar PID START SIGNAL TENTHS ends the session of the process PID, which began at START, with
# SIGNAL, and with KILL what is left of it after TENTHS of a second. It says what it found: "gone" if the
# process has ended, "kept" if all of it ignores a hang-up, "ended", or "killed".
# A container runtime starts each command as the leader of a session. What has left that, as setsid has it,
# or ignores SIGHUP, as nohup has it, was meant to stay.
set +aeuvx +f
unset IFS
pid=$1 start=$2 signal=$3 tenths=$4

# look reads the state, the session and the start of a process.
look() {
	{ read -r line </proc/"$1"/stat; } 2>/dev/null || return 1
	set -- ${line##*[)] }
	state=$1 session=$4 since=${20}
}

# stays reports whether a process ignores SIGHUP, whose bit is the lowest.
stays() {
	while read -r name value; do
		case $name in
		SigIgn:)
			case $value in *[13579bdf]) return 0 ;; esac
			return 1
			;;
		esac
	done 2>/dev/null </proc/"$1"/status
	return 1
}

# find lists what is left of the session. Its number belongs to nothing else until all of it has ended.
find() {
	found=
	if look "$pid" && [ "$since" != "$start" ]; then return; fi
	for dir in /proc/[0-9]*; do
		look "${dir#/proc/}" && [ "$session" = "$pid" ] || continue
		case $state in Z | X) continue ;; esac
		if [ "$respect" ] && stays "${dir#/proc/}"; then continue; fi
		found="$found ${dir#/proc/}"
	done
}

# Where the runtime itself was started to ignore it, every process does.
respect=yes
if stays $$; then respect=; fi
if ! look "$pid" || [ "$since" != "$start" ] || [ "$session" != "$pid" ] || [ "$state" = Z ]; then
	echo gone
	exit
fi
find
if [ -z "$found" ]; then
	echo kept
	exit
fi
kill -s "$signal" $found 2>/dev/null
kill -s CONT $found 2>/dev/null
while find && [ "$found" ] && [ "$tenths" -gt 0 ]; do
	if sleep 0.1 2>/dev/null; then
		tenths=$((tenths - 1))
	else
		sleep 1
		tenths=$((tenths - 10))
	fi
done
if [ -z "$found" ]; then
	echo ended
	exit
fi
for again in 1 2 3; do # a process may have begun another
	kill -s KILL $found 2>/dev/null
	find
	if [ -z "$found" ]; then break; fi
done
echo killed
