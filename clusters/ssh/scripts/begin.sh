# The folder of ours, whose it is, and what the machine has. $1: owner, $2: run, $3: its words. Exit 3: it has the
# journal of another run.
umask 022
[ -e "$D/journal" ] && { [ "$(cat "$D/run")" = "$2" ] && [ -s "$D/before" ] && exit 0; [ "$(cat "$D/run")" = "$2" ] || exit 3; }
mkdir -p "$D" && printf '%s\n' "$1" >"$D/owner" && printf '%s\n' "$2" >"$D/run" && printf '%s\n' "$3" >"$D/machines" || exit 1
: >"$D/step"
booted >"$D/boot" || exit 1
iptables_rules >"$D/rules" && listing >"$D/before.part" && sync && mv "$D/before.part" "$D/before" || exit 1
note "begun"
