# A CNI of ours, $2: `begin` before it is installed, with lines KIND NAME that it declares in $3;
# `ready` when it is, or could not be: what comes later is not its own; `end` when it was removed
# again. Exit 5: it would take over what is there.
O="$D/open/$2"
case $1 in
begin)
  [ -d "$O" ] && exit 0 # its removal failed, or this step is repeated
  mine=$(declared device)
  taken=$(printf '%s\n' "$3" | sed -n 's/^device //p' | while read -r name; do
    [ -e "/sys/class/net/$name" ] || continue
    fallback "$name" || printf '%s\n' "$mine" | grep -qxF "$name" || printf 'device %s\n' "$name"
  done)
  [ -z "$taken" ] || { printf '%s\n' "$taken" >&2; exit 5; }
  rm -rf "$D/opening" && mkdir -p "$D/opening" "$D/open" && printf '%s\n' "$3" >"$D/opening/declared" || fail "$O cannot be written"
  {
    programs | sed 's/^/program /'
    printf '%s\n' "$3" | sed -n 's/^file //p' | while read -r pattern; do
      for path in $pattern; do [ -e "$path" ] && ! like "$path" file && printf 'file %s\n' "$path"; done
    done
  } >"$D/opening/had"
  settings >"$D/opening/settings" && sync && mv "$D/opening" "$O" || fail "$O cannot be written"
  ;;
ready)
  [ -d "$O" ] || exit 0
  rm -f "$O/ready"
  see "$O"
  settings | comm -13 "$O/settings" - | sed 's/^/sysctl /' >>"$O/seen"
  : >"$O/ready"
  ;;
end) rm -rf "$O" ;;
esac
