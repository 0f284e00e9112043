# What a node needs, from what was copied to $D (bin, cni, etc) and else from packages.
# $1: names of packages to install, '' for none.
umask 022
for path in /etc/kubernetes /var/lib/kubelet /var/lib/etcd /opt/cni /etc/cni /var/lib/cni /var/lib/calico \
  /var/log/pods /var/log/containers /var/log/calico /run/flannel /run/cilium /run/calico /run/cni /run/xtables.lock /run/netns \
  /run/cnibench-containerd /usr/libexec/kubernetes /run/containerd /var/lib/containerd /etc/containerd /opt/containerd \
  /run/runc /run/nri /etc/nri /opt/nri; do
  will_make "$path"
done
if [ -n "$1" ]; then
  mkdir -p "$D/apt/lists/partial" "$D/apt/cache/archives/partial"
  apt update >/dev/null || fail "apt-get update failed"
  # shellcheck disable=SC2086
  plan=$(apt -s install --no-install-recommends $1) || fail "apt-get cannot install $1"
  for name in $(printf '%s\n' "$plan" | awk '/^Inst/ {print $2}'); do
    grep -qxF "package $name" "$D/journal" && continue # this step is repeated
    dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null | grep -qx installed && fail "apt-get would upgrade $name"
    for path in "/usr/bin/$name" "/usr/sbin/$name" /opt/cni/bin/*; do
      case $path in /opt/*) [ "$name" = kubernetes-cni ] || continue ;; esac
      [ -f "$path" ] && [ ! -L "$path" ] && ! dpkg-query -S "$path" >/dev/null 2>&1 &&
        fail "apt-get would overwrite $path, which is of no package: move it away"
    done
    note "package $name"
  done
  printf '%s\n' "$plan" | grep '^Remv' && fail "apt-get would remove packages"
  # shellcheck disable=SC2086
  apt -y install --no-install-recommends $1 >"$D/apt.log" 2>&1 || fail "apt-get install failed: $(tail -n 3 "$D/apt.log")"
  # its package starts it; one that was there before goes on
  grep -qxF "package containerd" "$D/journal" && systemctl disable --now containerd >/dev/null 2>&1
fi
chmod 755 "$D"/bin/* 2>/dev/null
[ -e /opt/cni/bin/loopback ] || debian="/usr/lib/cni/*" # where its package has them
for plugin in "$D"/cni/* ${debian:-}; do
  [ -e "$plugin" ] || continue
  to=/opt/cni/bin/${plugin##*/}
  [ -e "$to" ] && continue
  will_make "$to"
  mkdir -p /opt/cni/bin && cp "$plugin" "$to" && chmod 755 "$to" || fail "$to cannot be written"
done
[ -e /opt/cni/bin/loopback ] || fail "there are no CNI plugins (loopback) in /opt/cni/bin"

# A machine that is a container itself may not lower the OOM score of others.
(echo -998 >/proc/self/oom_score_adj) 2>/dev/null && lower=false || lower=true
sed -i "s/@RESTRICT@/$lower/" "$D/containerd.toml"
U=/etc/systemd/system
for unit in cnibench-containerd kubelet; do
  # packages bring a unit of kubelet of their own
  [ $unit = kubelet ] && [ ! -x "$D/bin/kubelet" ] && continue
  program=$(command -v ${unit#cnibench-}) || fail "${unit#cnibench-} is not installed"
  [ ! -e "$U/$unit.service" ] || grep -qxF "new $U/$unit.service" "$D/journal" || fail "there is a $U/$unit.service: move it away"
  will_make "$U/$unit.service"
  sed "s,@PROGRAM@,$program," "$D/$unit.service" >"$U/$unit.service" || fail "$U/$unit.service cannot be written"
done
# The unit loads and sets these.
for module in overlay br_netfilter; do
  has modprobe && ! grep -q "^$module " /proc/modules 2>/dev/null && note "module $module"
done
for setting in net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 \
  net.bridge.bridge-nf-call-iptables=1 net.bridge.bridge-nf-call-ip6tables=1; do
  note "sysctl $setting"
done
for unit in cnibench-containerd kubelet; do
  will_make "$U/multi-user.target.wants/$unit.service"
done
systemctl daemon-reload && systemctl enable cnibench-containerd kubelet >/dev/null 2>&1 &&
  systemctl start cnibench-containerd || fail "containerd does not start: $(journalctl -u cnibench-containerd -n 3 -o cat --no-pager | tr '\n' ' ')"
for _ in $(seq 100); do ctr -a $SOCKET version >/dev/null 2>&1 && exit 0; sleep 0.2; done
fail "containerd does not answer: $(journalctl -u cnibench-containerd -n 3 -o cat --no-pager | tr '\n' ' ')"
