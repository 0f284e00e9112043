# Processes, cgroups and network namespaces of our kubelet and containerd.

# end_all CGROUP: ends whatever runs in it and below it, and removes it.
end_all() {
  [ -d "$1" ] || return 0
  for _ in $(seq 50); do
    echo 1 2>/dev/null >"$1/cgroup.kill" || find "$1" -name cgroup.procs -exec cat {} + 2>/dev/null | xargs -r kill -9 2>/dev/null
    find "$1" -depth -type d -exec rmdir {} + 2>/dev/null
    [ -d "$1" ] || return 0
    sleep 0.1
  done
  problem "the cgroup $1 stays"
}

# note_namespaces: notes those of our Pods, by the processes that are in them, else by what our
# containerd says; a name says nothing.
note_namespaces() {
  [ -n "$(ls /run/netns 2>/dev/null)" ] || return 0
  own=$(sed -n 's/^cgroup //p' "$D/journal" | while read -r root; do find "$root" -name cgroup.procs -exec cat {} + 2>/dev/null; done |
    sort -u | while read -r pid; do stat -L -c %i "/proc/$pid/ns/net" 2>/dev/null; done | sort -u)
  said=
  [ -S $SOCKET ] && has ctr && said=$(for one in $(ctr -a $SOCKET -n k8s.io containers list -q 2>/dev/null); do
    ctr -a $SOCKET -n k8s.io containers info "$one" 2>/dev/null
  done | grep -o '/run/netns/[^"]*' | sort -u)
  host=$(stat -L -c %i /proc/1/ns/net)
  for file in /run/netns/*; do
    inode=$(stat -L -c %i "$file")
    [ "$inode" = "$host" ] && continue
    { printf '%s\n' "$own" | grep -qxF "$inode" || printf '%s\n' "$said" | grep -qxF "$file"; } && note "netns $inode $file"
  done
}

remove_namespaces() {
  sed -n 's/^netns //p' "$D/journal" | while read -r inode file; do
    [ "$(stat -L -c %i "$file" 2>/dev/null)" = "$inode" ] && umount "$file" && rm -f "$file"
  done
}

# Ends Kubernetes, if it was begun.
end_kubernetes() {
  note_namespaces
  if [ -e "$D/init.begun" ] || [ -e "$D/join.begun" ]; then
    timeout 120 kubeadm reset --force --cri-socket unix://$SOCKET >"$D/reset.log" 2>&1
  fi
  grep -qx "new /etc/systemd/system/kubelet.service" "$D/journal" || grep -q '^package kubelet' "$D/journal" &&
    systemctl disable --now kubelet >/dev/null 2>&1
  if [ -S $SOCKET ] && has ctr; then
    for task in $(ctr -a $SOCKET -n k8s.io tasks list -q 2>/dev/null); do
      ctr -a $SOCKET -n k8s.io tasks kill -s SIGKILL "$task" >/dev/null 2>&1
    done
  fi
  systemctl disable --now cnibench-containerd >/dev/null 2>&1
  for root in /sys/fs/cgroup /sys/fs/cgroup/*; do # shims outlive their daemon
    end_all "$root/system.slice/cnibench-containerd.service"
  done
  sed -n 's/^cgroup //p' "$D/journal" | while read -r group; do
    [ -d "$group" ] || continue
    end_all "$group"
    systemctl stop kubepods.slice >/dev/null 2>&1
  done
  remove_namespaces
}
