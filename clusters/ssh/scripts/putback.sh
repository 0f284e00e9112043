# Undoes what the journal says, then compares the machine with what it was. What cannot be shown to
# be ours stays. Prints "failed: ..." for what could not be undone, "- LINE" and "+ LINE" for what is
# gone and new, "restarted" if the machine was, and "compared SECTION NUMBER".
# $1: the run. Exit 1: it was not put back, and standard error says why.
[ -e "$D/journal" ] || { rm -rf --one-file-system -- "$D"; echo nothing; exit 0; }
[ "$(cat "$D/run" 2>/dev/null)" = "$1" ] || fail "the run $(cat "$D/run" 2>/dev/null) has changed it, and not $1"
whole
: >"$D/failed"
problem() { printf 'failed: %s\n' "$*" | tee -a "$D/failed"; }
was() { grep -q "^$1 $2\\( \\|\$\\)" "$D/before"; }

# To put it back needs room, and the disk may be full: what is ours and large goes first.
rm -rf --one-file-system -- "$D"/apt/cache/archives/*.deb "$D/cni"
end_kubernetes
unmount_below "$D/containerd"
rm -rf --one-file-system -- "$D/containerd"
cat "$D/before" "$D/before" 2>/dev/null >"$D/room" || { rm -f "$D/room"; fail "it has no room to be put back: $(room); free some space first"; }
rm "$D/room"
remove_programs
remove_devices
remove_routes
remove_rules
put_settings_back
remove_files
systemctl daemon-reload >/dev/null 2>&1
systemctl reset-failed kubelet cnibench-containerd >/dev/null 2>&1
unload

[ ! -s "$D/boot" ] || [ "$(booted)" = "$(cat "$D/boot")" ] || echo restarted
listing >"$D/after"
comm -23 "$D/before" "$D/after" | sed 's/^/- /'
comm -13 "$D/before" "$D/after" | sed 's/^/+ /'
awk '{n[$1]++} END {for (s in n) print "compared", s, n[s]}' "$D/before"
[ -s "$D/failed" ] && exit 4
rm -rf --one-file-system -- "$D"
