# Holds the machine for a run: until standard input ends, which it does with the run. Exit 3: somebody has it.
while :; do
  mkdir -p "$D" && exec 8>>"$D/use" || exit 1
  flock -w 20 8 || exit 3
  [ "$D/use" -ef /proc/self/fd/8 ] && break # else it was removed by whoever had it
done
echo held
exec cat >/dev/null
