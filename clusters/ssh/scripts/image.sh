# Standard input is an archive of images.
ctr -a $SOCKET -n k8s.io images import --no-unpack - >/dev/null
