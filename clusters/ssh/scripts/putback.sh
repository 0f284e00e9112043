# Undoes what the journal says, in the reverse order, then compares the machine with what it was.
# Prints "failed: ..." for what could not be undone, "- LINE" and "+ LINE" for what is gone and new,
# and "compared SECTION NUMBER".
[ -e "$D/journal" ] || { rm -rf "$D"; echo nothing; exit 0; }
failed=
problem() { failed=yes; printf 'failed: %s\n' "$*"; }
was() { grep -q "^$1 $2\\( \\|\$\\)" "$D/before"; }

# Kubernetes itself.
if has kubeadm && { [ -e /var/lib/kubelet/config.yaml ] || [ -d /etc/kubernetes ]; }; then
  timeout 120 kubeadm reset --force --cri-socket unix://$SOCKET >"$D/reset.log" 2>&1
fi
systemctl disable --now kubelet >/dev/null 2>&1
if [ -S $SOCKET ] && has ctr; then
  for task in $(ctr -a $SOCKET -n k8s.io tasks list -q 2>/dev/null); do
    ctr -a $SOCKET -n k8s.io tasks kill -s SIGKILL "$task" >/dev/null 2>&1
  done
fi
systemctl disable --now cnibench-containerd >/dev/null 2>&1
for file in /proc/[0-9]*/cmdline; do # shims outlive their daemon
  tr '\0' ' ' <"$file" 2>/dev/null | grep -q "containerd-shim.* $SOCKET" && pid=${file#/proc/} && kill -9 "${pid%/cmdline}" 2>/dev/null
done
for file in $(find /sys/fs/cgroup -path '*kubepods*' -name cgroup.procs 2>/dev/null); do
  for pid in $(cat "$file" 2>/dev/null); do kill -9 "$pid" 2>/dev/null; done
done
systemctl stop kubepods.slice >/dev/null 2>&1
find /sys/fs/cgroup -depth -type d \( -path '*/kubepods*' -o -path '*/k8s.io*' \) -exec rmdir {} + 2>/dev/null
for one in $(find /sys/fs/cgroup -maxdepth 3 -type d -name 'kube*' 2>/dev/null); do
  was cgroup "$one" || find "$one" -depth -type d -exec rmdir {} + 2>/dev/null
done

# Devices, rules and settings that Kubernetes or a CNI made; those of anybody else stay, and are named below.
for folder in /run/netns/cni-*; do
  [ -e "$folder" ] && ! was f "$folder" && { umount "$folder" 2>/dev/null; rm -f "$folder"; }
done
for folder in /sys/class/net/*; do
  device=${folder##*/}
  was device "$device" && continue
  [ -e "$folder/device" ] && continue
  case $device in
  dummy0) # comes with its module; with an address it is somebody's
    [ -z "$(ip -o address show dev dummy0 scope global 2>/dev/null)" ] && ip link delete dummy0 2>/dev/null ;;
  # Not veth*: those of Pods went with the Pods' namespaces, and others may be of containers that somebody started since.
  cni[0-9]* | flannel* | cilium* | lxc* | cali* | vxlan.calico | vxlan-v6.calico | wireguard.cali | wg-v6.cali | kube-* | tunl0 | antrea-* | weave | vxlan-6784 | br-cnibench*)
    ip link delete "$device" 2>/dev/null || [ ! -e "$folder" ] || [ "$device" = tunl0 ] || problem "device $device stays" ;;
  esac
done
ours='KUBE-|CNI-|FLANNEL-|CILIUM_|OLD_CILIUM_|cali-|felix-|cnibench'
for version in legacy nft; do
  for program in iptables ip6tables; do
    has "$program-$version-save" || continue
    family=${program%tables}
    [ $version = legacy ] && [ ! -s "/proc/net/${family}_tables_names" ] && continue
    rules=$("$program-$version-save" -c 2>/dev/null) || continue
    printf '%s\n' "$rules" | grep -Eq "(^:| -[AjgN] | -A )($ours)|^:($ours)" || continue
    # a chain that was there before keeps its name and its rules
    gone=$(printf '%s\n' "$rules" | sed -n 's/^:\([^ ]*\) .*/\1/p' | grep -E "^($ours)" | sort -u | while read -r chain; do
      grep "^netfilter" "$D/before" | grep -qF -- "$chain" || printf '%s\n' "$chain"; done)
    printf '%s\n' "$rules" | awk -v gone="$gone" '
      BEGIN { n = split(gone, list, "\n"); for (i = 1; i <= n; i++) drop[list[i]] = 1 }
      /^:/ { name = substr($1, 2); if (name in drop) next }
      { for (i = 1; i < NF; i++) if (($i == "-A" || $i == "-j" || $i == "-g") && ($(i + 1) in drop)) next; print }' |
      "$program-$version-restore" -c 2>/dev/null || problem "the rules of $program-$version stay"
  done
done
if has nft; then # tables of Kubernetes and CNIs, and those of iptables that were not there and have no rule any more
  nft -s list tables 2>/dev/null | while read -r _ family table; do
    was netfilter "nft $family $table" && continue
    case $table in
    kube-proxy | flannel-ipv4 | flannel-ipv6 | calico | cni_*) nft delete table "$family" "$table" ;;
    filter | nat | mangle | raw | security) nft -s list table "$family" "$table" | grep -Evq '^(table|	chain|		type|	}|}|$)' || nft delete table "$family" "$table" ;;
    esac
  done
fi
if has ipset; then
  for name in $(ipset list -name 2>/dev/null); do
    was ipset "$name" && continue
    case ${name#inet6:} in
    KUBE-* | cali[46]0* | kube-router-* | weave-* | cilium_* | cnibench*) ipset destroy "$name" 2>/dev/null ;;
    esac
  done
fi
for family in -4 -6; do # the rest of a CNI's rules of policy routing, by the tables and marks that only they use
  ip $family rule show | grep -E 'lookup (2004|2005)|fwmark 0x[0-9a-f]*00/0xf00|lookup 10 ' | while read -r line; do
    # shellcheck disable=SC2086 # its words: another rule of that preference stays
    grep -qxF "rule $family $line" "$D/before" || ip $family rule delete pref "${line%%:*}" ${line#*:} 2>/dev/null
  done
done
sysctl -a 2>/dev/null | sed 's/[[:space:]][[:space:]]*/ /g; s/^/sysctl /' | sort -u >"$D/sysctls"
comm -23 "$D/before" "$D/sysctls" | sed -n 's/^sysctl \([^ ]*\) = \(.*\)/\1=\2/p' |
  grep -E '^(net\.(ipv4|ipv6|core|bridge|netfilter)\.|vm\.(overcommit_memory|panic_on_oom)|kernel\.(panic|panic_on_oops|keys\.))' |
  while read -r setting; do sysctl -q -w "$setting" >/dev/null 2>&1; done

# Files and packages.
unmount_below() {
  awk -v p="$1" '$2 == p || index($2, p "/") == 1 {print $2}' /proc/self/mounts | sort -r | while read -r point; do
    umount "$point" 2>/dev/null || umount -l "$point" 2>/dev/null
  done
}
awk '{line[NR] = $0} END {for (i = NR; i; i--) print line[i]}' "$D/journal" >"$D/undo"
packages=$(sed -n 's/^package //p' "$D/undo" | while read -r name; do dpkg-query -W -f='${db:Status-Status}\n' "$name" 2>/dev/null | grep -qvx not-installed && printf '%s ' "$name"; done)
if [ -n "$packages" ]; then
  # shellcheck disable=SC2086
  apt -y purge $packages >"$D/apt.log" 2>&1 || problem "apt-get purge: $(tail -n 2 "$D/apt.log" | tr '\n' ' ')"
fi
while read -r kind path; do
  [ "$kind" = new ] || continue
  if [ "$path" = /run/netns ]; then unmount_below "$path"; rmdir "$path" 2>/dev/null; continue; fi
  unmount_below "$path"
  rm -rf --one-file-system -- "$path" || problem "$path stays"
done <"$D/undo"
unmount_below "$D"
if [ -n "$packages" ]; then # dpkg removes folders that it leaves empty, those that were empty before as well
  sed -n 's/^d \(\/.*\) \([0-7]*\) \([0-9]*:[0-9]*\)$/\2 \3 \1/p' "$D/before" | while read -r mode owner path; do
    [ -e "$path" ] || { mkdir "$path" && chown "$owner" "$path" && chmod "$mode" "$path"; } 2>/dev/null
  done
fi
systemctl daemon-reload >/dev/null 2>&1
systemctl reset-failed kubelet cnibench-containerd >/dev/null 2>&1
# Modules that came for devices and rules that are gone; one that is in use stays, and is named below.
if has modprobe && has modinfo; then
  for _ in 1 2 3 4 5; do
    awk '$3 == 0 {print $1}' /proc/modules 2>/dev/null | while read -r module; do
      was module "$module" && continue
      case $(modinfo -n "$module" 2>/dev/null) in */net/* | */overlayfs/* | */crypto/*) modprobe -r "$module" 2>/dev/null ;; esac
    done
  done
fi

listing >"$D/after"
comm -23 "$D/before" "$D/after" | sed 's/^/- /'
comm -13 "$D/before" "$D/after" | sed 's/^/+ /'
awk '{n[$1]++} END {for (s in n) print "compared", s, n[s]}' "$D/before"
[ -n "$failed" ] && exit 4
rm -rf --one-file-system -- "$D"
