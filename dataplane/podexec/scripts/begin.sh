# sh -c THIS MARK FD CHECKED COMMAND [ARG...] says on FD which process COMMAND becomes, and becomes it. It says
# "other" of a command, and "never" of a container, with which that would show: whose start the container
# runtime must judge, or whose environment would be another than without this script. CHECKED is yes if that
# was looked at before for COMMAND in this container: to look costs more than all the rest.
# Names begin with _sandbar_, since a variable that the environment has would change there.
set +aeuvx -f
# bash would write the terminal's size into LINES and COLUMNS.
[ -z "${BASH_VERSION-}" ] || shopt -u checkwinsize
_sandbar_say() { printf '%s%s;' "$_sandbar_mark" "$1" >&"$_sandbar_fd"; }
_sandbar_mark=$0 _sandbar_fd=$1 _sandbar_checked=$2
shift 2
_sandbar_file=
case $1 in
'' | -* | *=*) ;; # env would take it for its own
*/*) _sandbar_file=$1 ;;
*)
	IFS=:
	for _sandbar_dir in $PATH; do
		if [ -f "${_sandbar_dir:-.}/$1" ] && [ -x "${_sandbar_dir:-.}/$1" ]; then
			# The container runtime runs nothing from a relative entry.
			case $_sandbar_dir in /*) _sandbar_file=$_sandbar_dir/$1 ;; esac
			break
		fi
	done
	unset IFS
	;;
esac
if [ -z "$_sandbar_file" ] || [ ! -f "$_sandbar_file" ] || [ ! -x "$_sandbar_file" ]; then
	_sandbar_say other
	exit
fi
# A shell would run text without an interpreter.
if [ "$_sandbar_checked" != yes ]; then
	IFS= read -r _sandbar_head <"$_sandbar_file"
	case $_sandbar_head in
	'#!'* | ?ELF*) ;;
	*)
		_sandbar_say other
		exit
		;;
	esac
fi
# Shells add variables of their own, and some lose those whose names they could not have. bash adds SHLVL
# even with exec.
unset PWD OLDPWD SHLVL _
_sandbar_env=
[ -z "${BASH_VERSION-}" ] || _sandbar_env='env -u PWD -u OLDPWD -u SHLVL -u _'
if [ "$_sandbar_checked" != yes ]; then
	_sandbar_had=$(tr '\0' '\n' </proc/$$/environ)
	_sandbar_has=$(${_sandbar_env:-env})
	if [ -z "$_sandbar_had" ] || [ "${#_sandbar_had}" != "${#_sandbar_has}" ]; then
		_sandbar_say never
		exit
	fi
fi
if ! read -r _sandbar_stat </proc/$$/stat; then
	_sandbar_say never
	exit
fi
_sandbar_say "$$ ${_sandbar_stat##*[)] }"
exec $_sandbar_env "$@"
