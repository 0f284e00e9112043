# kubeadm $1 (init or join) with the configuration $D/kubeadm.yaml; once.
[ -e "$D/$1.done" ] && exit 0
systemctl start cnibench-containerd >/dev/null 2>&1 # waits for it: the machine may have just been restarted
[ -e "$D/$1.begun" ] && kubeadm reset --force --cri-socket unix://$SOCKET >/dev/null 2>&1
: >"$D/$1.begun"
for root in /sys/fs/cgroup /sys/fs/cgroup/*; do # all hierarchies of version 1, the one of version 2
  for name in kubepods.slice kubepods; do
    [ -e "$root/cgroup.procs" ] && [ ! -e "$root/$name" ] && note "cgroup $root/$name"
  done
done
# what a kubelet and kube-proxy set
for setting in vm.overcommit_memory=1 vm.panic_on_oom=0 kernel.panic=10 kernel.panic_on_oops=1 \
  kernel.keys.root_maxkeys=1000000 kernel.keys.root_maxbytes=25000000 net.ipv4.conf.all.route_localnet=1; do
  note "sysctl $setting"
done
kubeadm "$1" --config "$D/kubeadm.yaml" >"$D/$1.log" 2>&1 &
printf '%s %s\n' $! "$(started $!)" >"$D/kubeadm.pid"
wait $! ||
  fail "kubeadm $1 failed: $(grep -E 'error|ERROR|FATAL' "$D/$1.log" | tail -n 3 | tr '\n' ' ')"
rm -f "$D/kubeadm.pid"
: >"$D/$1.done"
