# kubeadm $1 (init or join) with the configuration $D/kubeadm.yaml; once.
[ -e "$D/$1.done" ] && exit 0
[ -e "$D/$1.begun" ] && kubeadm reset --force --cri-socket unix://$SOCKET >/dev/null 2>&1
: >"$D/$1.begun"
kubeadm "$1" --config "$D/kubeadm.yaml" >"$D/$1.log" 2>&1 ||
  fail "kubeadm $1 failed: $(grep -E 'error|ERROR|FATAL' "$D/$1.log" | tail -n 3 | tr '\n' ' ')"
: >"$D/$1.done"
