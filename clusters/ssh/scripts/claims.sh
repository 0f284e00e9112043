# What a CNI of ours makes here: in a folder $D/open/NAME from before it is installed until it is
# removed. `declared` has lines KIND NAME, from its profile; `had` what of it was there before, and
# `settings` the sysctls; `seen` what of its devices was seen, by index, and the sysctls that it set.

# declared KIND: names of that kind that CNIs of ours declare.
declared() { cat "$D"/open/*/declared 2>/dev/null | sed -n "s/^$1 //p" | sort -u; }

# had KIND NAME: was it there before a CNI came that declares it, or before the run?
had() { cat "$D"/open/*/had 2>/dev/null | grep -qxF "$1 $2"; }

# like NAME KIND: has a CNI of ours declared that name, or a pattern of it?
like() {
  for pattern in $(declared "$2"); do
    # shellcheck disable=SC2254 # it is a pattern
    case $1 in $pattern) return 0 ;; esac
  done
  return 1
}

# The settings that CNIs change, as NAME=VALUE.
settings() {
  sysctl -a 2>/dev/null | grep -E '^net\.(ipv[46]\.conf\.(all|default)\.|ipv4\.(ip_forward|fib_multipath_use_neigh) |core\.bpf_jit_enable |bridge\.)' |
    grep -v stable_secret | sed 's/[[:space:]][[:space:]]*/ /g; s/ = /=/' | sort
}

# programs: those of eBPF at tc, as DEVICE WAY PREF HANDLE NAME.
programs() {
  has tc && for device in $(ls /sys/class/net); do
    for way in ingress egress; do
      tc filter show dev "$device" "$way" 2>/dev/null |
        sed -n "s/.* pref \([0-9]*\) bpf .*handle \(0x[0-9a-f]*\) \([^ ]*\).*/$device $way \1 \2 \3/p"
    done
  done
}

# fallback NAME: is it a device that the kernel makes with a module, and nobody can delete?
fallback() { case $1 in tunl0 | ip6tnl0 | sit0 | gre0) true ;; *) false ;; esac; }

# see FOLDER: the devices that it declares and that are there when it is ready, or now if it never
# was, by their first index since the machine's start. One that comes later, or in place of another,
# is somebody else's.
see() {
  boot=$(booted)
  if [ "$(sed -n 's/^boot //p' "$1/seen" 2>/dev/null)" != "$boot" ]; then
    printf 'boot %s\n' "$boot" >"$1/seen"
  elif [ -e "$1/ready" ]; then
    return
  fi
  sed -n 's/^device //p' "$1/declared" | while read -r name; do
    [ -e "/sys/class/net/$name" ] && ! grep -q "^device [0-9]* $name\$" "$1/seen" || continue
    printf 'device %s %s\n' "$(cat "/sys/class/net/$name/ifindex")" "$name" >>"$1/seen"
  done
}
