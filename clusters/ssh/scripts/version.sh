# The version of kubeadm, as v1.34.4.
kubeadm version -o short
