# Holds the machine for a run: until standard input ends, which it does with the run. Exit 3: somebody has it.
exec 8>>"$D/use"
flock -w 20 8 || exit 3
echo held
exec cat >/dev/null
