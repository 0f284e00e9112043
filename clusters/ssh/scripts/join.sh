# How the other machine joins: a command of kubeadm with its token and the hash of the authority.
kubeadm token create --ttl 1h --print-join-command --kubeconfig /etc/kubernetes/admin.conf
