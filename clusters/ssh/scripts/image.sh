# Standard input is an archive of images.
systemctl start cnibench-containerd </dev/null >/dev/null 2>&1 # waits for it: the machine may have just been restarted
ctr -a $SOCKET -n k8s.io images import --no-unpack - >/dev/null
