# Devices, routes, policy routing and eBPF programs of the CNIs that are still installed.

remove_devices() {
  for folder in "$D"/open/*/; do [ -d "$folder" ] && see "${folder%/}"; done
  cat "$D"/open/*/seen 2>/dev/null | sed -n 's/^device //p' | sort -u | while read -r index name; do
    [ "$(cat "/sys/class/net/$name/ifindex" 2>/dev/null)" = "$index" ] || continue
    if ! fallback "$name"; then
      # its pair may have taken it along
      ip link delete "$name" 2>/dev/null || [ ! -e "/sys/class/net/$name" ] || problem "device $name stays"
      continue
    fi
    ip -o address show dev "$name" | awk '{print $4}' | while read -r address; do
      of_pods "$address" && ip address delete "$address" dev "$name"
    done
    was device "$name" || [ -n "$(ip -o address show dev "$name" scope global)" ] || ip link set "$name" down
  done
}

# of_pods ADDRESS: is it one of the Pods' networks of a CNI of ours?
of_pods() {
  for subnet in $(declared subnet); do
    case $1 in "$subnet"*) return 0 ;; esac
  done
  return 1
}

remove_routes() {
  for family in -4 -6; do
    ip $family route show table all | sed 's/ expires [0-9]*sec//; s/  *$//' | while read -r line; do
      case $line in local* | broadcast* | multicast* | anycast*) continue ;; esac
      words=${line#blackhole } words=${words#unreachable } words=${words#prohibit } words=${words#throw }
      of_pods "${words%% *}" && ! grep -qxF "route $family $line" "$D/before" || continue
      # shellcheck disable=SC2046 # its words
      ip $family route delete $(printf '%s' "$line" | sed -E 's/ (proto|pref|error) [^ ]*//g; s/ (linkdown|dead|offload|trap|rt_offload|rt_trap)\b//g') 2>/dev/null
    done
    tables=$(declared table | tr '\n' ' ')
    [ -n "$tables" ] || continue
    ip $family rule show | while read -r line; do
      grep -qxF "rule $family $line" "$D/before" && continue
      case " $tables " in
      # shellcheck disable=SC2086 # its words: another rule of that preference stays
      *" ${line##*lookup } "*) ip $family rule delete pref "${line%%:*}" ${line#*:} 2>/dev/null ;;
      esac
    done
    # Cilium moves the kernel's first rule, to have rules before it.
    moved=$(ip $family rule show | sed -n 's/^\([1-9][0-9]*\):[[:space:]]*from all lookup local *$/\1/p' | head -n1)
    if [ -n "$moved" ] && [ -z "$(ip $family rule show pref 0)" ] && grep -q "^rule $family 0:" "$D/before"; then
      ip $family rule add pref 0 lookup local && ip $family rule delete pref "$moved" lookup local
    fi
  done
}

remove_programs() {
  programs | while read -r device way pref handle name; do
    like "$name" program && ! had program "$device $way $pref $handle $name" || continue
    tc filter delete dev "$device" "$way" pref "$pref" handle "$handle" bpf 2>/dev/null
    [ -n "$(tc filter show dev "$device" ingress 2>/dev/null; tc filter show dev "$device" egress 2>/dev/null)" ] ||
      tc qdisc delete dev "$device" clsact 2>/dev/null
  done
}
