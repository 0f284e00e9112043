# Files and packages, by the journal.

unmount_below() {
  awk -v p="$1" '$2 == p || index($2, p "/") == 1 {print $2}' /proc/self/mounts | sort -r | while read -r point; do
    umount "$point" 2>/dev/null || umount -l "$point" 2>/dev/null
  done
}

remove() { unmount_below "$1"; rm -rf --one-file-system -- "$1" || problem "$1 stays"; }

# Those of $packages, unless others need them; the settings as well, unless they were there before.
remove_packages() {
  # shellcheck disable=SC2086
  theirs=$(apt -s purge $packages 2>/dev/null | awk '/^(Purg|Remv)/ {print $2}' | while read -r name; do
    case " $packages" in *" $name "*) ;; *) printf '%s ' "$name" ;; esac
  done)
  [ -z "$theirs" ] || { problem "${theirs}came meanwhile and needs packages of the run, which stay: ${packages% }"; return; }
  purged='' removed=''
  for name in $packages; do
    if grep -q "^package $name\(:[^ ]*\)\? [^ ]* rc" "$D/before"; then removed="$removed $name"; else purged="$purged $name"; fi
  done
  # shellcheck disable=SC2086
  { apt -y remove $removed && apt -y purge $purged; } >"$D/apt.log" 2>&1 ||
    problem "apt-get purge: $(tail -n 2 "$D/apt.log" | tr '\n' ' ')"
}

remove_files() {
  declared file | while read -r pattern; do
    for path in $pattern; do [ -e "$path" ] && ! had file "$path" && remove "$path"; done
  done
  undo=$(awk '{line[NR] = $0} END {for (i = NR; i; i--) print line[i]}' "$D/journal")
  packages=$(printf '%s\n' "$undo" | sed -n 's/^package //p' | while read -r name; do dpkg-query -W -f='${db:Status-Status}\n' "$name" 2>/dev/null | grep -qvx not-installed && printf '%s ' "$name"; done)
  [ -z "$packages" ] || remove_packages
  printf '%s\n' "$undo" | sed -n 's/^new //p' | while read -r path; do
    if [ "$path" != /run/netns ]; then
      remove "$path"
    elif [ -z "$(ls -A "$path" 2>/dev/null)" ]; then # else it has namespaces of others
      unmount_below "$path"
      rmdir "$path" 2>/dev/null
    fi
  done
  unmount_below "$D"
  if [ -n "$packages" ]; then # dpkg removes folders that it leaves empty, those that were empty before as well
    sed -n 's/^d \(\/.*\) \([0-7]*\) \([0-9]*:[0-9]*\)$/\2 \3 \1/p' "$D/before" | while read -r mode owner path; do
      [ -e "$path" ] || { mkdir "$path" && chown "$owner" "$path" && chmod "$mode" "$path"; } 2>/dev/null
    done
  fi
}
