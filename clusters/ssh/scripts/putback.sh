# Undoes what the journal says, then compares the machine with what it was. What cannot be shown to
# be ours stays. Prints "failed: ..." for what could not be undone, "- LINE" and "+ LINE" for what is
# gone and new, and "compared SECTION NUMBER".
[ -e "$D/journal" ] || { rm -rf "$D"; echo nothing; exit 0; }
: >"$D/failed"
problem() { printf 'failed: %s\n' "$*" | tee -a "$D/failed"; }
was() { grep -q "^$1 $2\\( \\|\$\\)" "$D/before"; }

end_kubernetes
remove_programs
remove_devices
remove_routes
remove_rules
put_settings_back
remove_files
systemctl daemon-reload >/dev/null 2>&1
systemctl reset-failed kubelet cnibench-containerd >/dev/null 2>&1
unload

listing >"$D/after"
comm -23 "$D/before" "$D/after" | sed 's/^/- /'
comm -13 "$D/before" "$D/after" | sed 's/^/+ /'
awk '{n[$1]++} END {for (s in n) print "compared", s, n[s]}' "$D/before"
[ -s "$D/failed" ] && exit 4
rm -rf --one-file-system -- "$D"
