# Files and packages, by the journal.

unmount_below() {
  awk -v p="$1" '$2 == p || index($2, p "/") == 1 {print $2}' /proc/self/mounts | sort -r | while read -r point; do
    umount "$point" 2>/dev/null || umount -l "$point" 2>/dev/null
  done
}

remove() { unmount_below "$1"; rm -rf --one-file-system -- "$1" || problem "$1 stays"; }

remove_files() {
  declared file | while read -r pattern; do
    for path in $pattern; do [ -e "$path" ] && ! had file "$path" && remove "$path"; done
  done
  awk '{line[NR] = $0} END {for (i = NR; i; i--) print line[i]}' "$D/journal" >"$D/undo"
  packages=$(sed -n 's/^package //p' "$D/undo" | while read -r name; do dpkg-query -W -f='${db:Status-Status}\n' "$name" 2>/dev/null | grep -qvx not-installed && printf '%s ' "$name"; done)
  if [ -n "$packages" ]; then
    # shellcheck disable=SC2086
    apt -y purge $packages >"$D/apt.log" 2>&1 || problem "apt-get purge: $(tail -n 2 "$D/apt.log" | tr '\n' ' ')"
  fi
  while read -r kind path; do
    [ "$kind" = new ] || continue
    if [ "$path" != /run/netns ]; then
      remove "$path"
    elif [ -z "$(ls -A "$path" 2>/dev/null)" ]; then # else it has namespaces of others
      unmount_below "$path"
      rmdir "$path" 2>/dev/null
    fi
  done <"$D/undo"
  unmount_below "$D"
  if [ -n "$packages" ]; then # dpkg removes folders that it leaves empty, those that were empty before as well
    sed -n 's/^d \(\/.*\) \([0-7]*\) \([0-9]*:[0-9]*\)$/\2 \3 \1/p' "$D/before" | while read -r mode owner path; do
      [ -e "$path" ] || { mkdir "$path" && chown "$owner" "$path" && chmod "$mode" "$path"; } 2>/dev/null
    done
  fi
}
