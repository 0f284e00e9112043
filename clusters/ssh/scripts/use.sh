# Holds the machine for a run: as long as lines come on standard input, at most $1 s apart. A machine may not notice
# that its connection is lost, or that the run's machine is off. Exit 3: somebody else has it.
while :; do
  mkdir -p "$D" && exec 8>>"$D/use" || exit 1
  flock -w "$(($1 + 10))" 8 || exit 3
  [ "$D/use" -ef /proc/self/fd/8 ] && break # else it was removed by whoever had it
done
echo held
while [ -n "$(timeout "$1" head -n 1)" ]; do :; done
