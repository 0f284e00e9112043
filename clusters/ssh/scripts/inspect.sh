# What a machine is and what would be in the way: lines of KEY=VALUE. Changes nothing.
# $1: the address of the NIC to measure, "" for the one that ssh arrives at. $2: ports.
say() { printf '%s=%s\n' "$1" "$(printf %s "$2" | tr '\n' ' ')"; }
first() { cat "$1" 2>/dev/null | head -n1; }

[ ! -e /etc/os-release ] || . /etc/os-release
say os "${ID:-unknown} ${VERSION_ID:-}"
say os_name "${PRETTY_NAME:-unknown}"
say kernel "$(uname -r)"
say architecture "$(uname -m)"
say hostname "$(uname -n)"
say uid "$(id -u)"
say systemd "$([ -d /run/systemd/system ] && echo yes || echo no)"
say cgroup "$(stat -f -c %T /sys/fs/cgroup 2>/dev/null)"
say cpus "$(getconf _NPROCESSORS_ONLN)"
say cpu_model "$(sed -n 's/^\(model name\|Model\)[^:]*: *//p' /proc/cpuinfo | head -n1)"
say memory "$(sed -n 's/^MemTotal: *\([0-9]*\).*/\1/p' /proc/meminfo)"
say swap "$(sed 1d /proc/swaps | awk '{print $1}')"
say time "$(date +%s)"
say boot "$(first /proc/sys/kernel/random/boot_id) $(readlink /proc/self/ns/mnt)"
mkdir_of=/var/lib/cnibench; [ -d $mkdir_of ] || mkdir_of=/var/lib
say free_kib "$(df -Pk $mkdir_of | awk 'NR==2 {print $4}')"
say governor "$(first /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor)"
say smt "$(case $(first /sys/devices/system/cpu/smt/active) in 1) echo on;; 0) echo off;; esac)"
say turbo "$(case $(first /sys/devices/system/cpu/intel_pstate/no_turbo)$(first /sys/devices/system/cpu/cpufreq/boost) in 1) [ -e /sys/devices/system/cpu/intel_pstate/no_turbo ] && echo off || echo on;; 0) [ -e /sys/devices/system/cpu/intel_pstate/no_turbo ] && echo on || echo off;; esac)"
say irqbalance "$(cat /proc/[0-9]*/comm 2>/dev/null | grep -qx irqbalance && echo running || echo 'not running')"
# timedatectl would start a service
say synchronised "$(if has chronyc; then chronyc -n tracking 2>/dev/null | grep -q '^Leap status *: Normal' && echo yes || echo no; elif [ -e /run/systemd/timesync ]; then [ -e /run/systemd/timesync/synchronized ] && echo yes || echo no; fi)"
say virtual "$(has systemd-detect-virt && { systemd-detect-virt --vm || true; } 2>/dev/null)"

# The measured NIC.
address=${1:-$(printf %s "${CNIBENCH_SSH:-}" | cut -d" " -f3)}
device=$(ip -o addr show 2>/dev/null | awk -v a="$address" '{split($4, p, "/"); if (p[1] == a) print $2}' | head -n1)
device=${device%%@*}
say address "$address"
say device "$device"
if [ -n "$device" ]; then
  say mtu "$(first "/sys/class/net/$device/mtu")"
  say speed "$(first "/sys/class/net/$device/speed")"
  say duplex "$(first "/sys/class/net/$device/duplex")"
  say rings "$(has ethtool && ethtool -g "$device" 2>/dev/null | awk '/^Current/ {now = 1} now && /^(RX|TX):/ {printf "%s %s ", tolower(substr($1, 1, 2)), $2}')"
  say interrupts "$(for irq in $(awk -F: -v d="$device" 'index($2, d) {print $1 + 0}' /proc/interrupts 2>/dev/null); do first "/proc/irq/$irq/smp_affinity_list"; done | sort | uniq -c | awk '{printf "%s%s of CPU %s", sep, $1, $2; sep = ", "}')"
  driver=$(readlink -f "/sys/class/net/$device/device/driver" 2>/dev/null)
  say driver "${driver##*/}"
fi

# All that it reaches by a route of its own, and where ssh comes from.
say networks "$(for family in -4 -6; do
  ip -o $family addr show scope global | awk '{print $4}'
  ip $family route show | awk '{print $1; for (i = 2; i < NF; i++) if ($i == "via") print $(i + 1)}' | grep '^[0-9a-f][0-9a-f.:/]*$'
done 2>/dev/null | sort -u) $(printf %s "${CNIBENCH_SSH:-}" | cut -d" " -f1)"

# What is somebody else's.
processes=$(cat /proc/[0-9]*/comm 2>/dev/null | sort -u)
running() { printf '%s\n' "$processes" | grep -qx "$1"; }
# kubeadm reset would delete them
node=$(find /etc/kubernetes /var/lib/kubelet -path /etc/kubernetes/tmp -prune -o -type f -print 2>/dev/null | head -n 3)
[ -d /etc/rancher ] && node="$node /etc/rancher"
[ -d /var/lib/etcd ] && node="$node /var/lib/etcd"
for one in kubelet k3s k3s-server k3s-agent kube-apiserver etcd; do running "$one" && node="$node process:$one"; done
say node "$node"
containers=
for one in containerd-shim containerd-shim- conmon crun runsc lxc-start systemd-nspawn; do
  printf '%s\n' "$processes" | grep -q "^$one" && containers="$containers $one"
done
say containers "$containers"
firewall=
running firewalld && firewall=firewalld
grep -qs '^ENABLED=yes' /etc/ufw/ufw.conf && firewall="$firewall ufw"
say firewall "$firewall"
say kubelet_unit "$(ls -d /etc/systemd/system/kubelet.service* /usr/local/lib/systemd/system/kubelet.service* \
  /usr/lib/systemd/system/kubelet.service* 2>/dev/null)"
say network "$(ls /etc/cni/net.d/*.conf /etc/cni/net.d/*.conflist 2>/dev/null)"
ports=
for port in $2; do
  hex=$(printf '%04X' "$port")
  awk -v p=":$hex\$" '$4 == "0A" && $2 ~ p {found = 1} END {exit !found}' /proc/net/tcp /proc/net/tcp6 2>/dev/null && ports="$ports $port"
done
say ports_used "$ports"

# What earlier runs of cnibench left.
say journal "$([ -e /var/lib/cnibench/journal ] && echo yes)"
say owner "$(first /var/lib/cnibench/owner)"
say run "$(first /var/lib/cnibench/run)"
if [ -e /var/lib/cnibench/use ] && has flock; then
  flock -n /var/lib/cnibench/use true && say used no || say used yes
fi
say lab "$(grep -q ' @cnibench-lab$' /proc/net/unix && echo yes)" # clusters/lab/remote/boot.py

# Programs and packages.
tools=
for one in apt-get dpkg-query rpm flock tar ip iptables nft modprobe systemctl containerd containerd-shim-runc-v2 ctr runc \
  kubeadm kubelet kubectl conntrack ethtool sysctl find awk sed sha256sum mount; do
  has "$one" && tools="$tools $one"
done
say tools "$tools"
if has apt-cache; then
  say apt_kubeadm "$(apt-cache -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= madison kubeadm 2>/dev/null | awk '{print $3}')"
fi
