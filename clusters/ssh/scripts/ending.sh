# Ends a kubeadm of ours that still waits for the other node after its run has ended: minutes, by its own limits.
read -r pid when 2>/dev/null <"$D/kubeadm.pid" && [ -n "$when" ] && [ "$(started "$pid")" = "$when" ] && kill "$pid" 2>/dev/null
