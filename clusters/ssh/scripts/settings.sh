# Settings of the kernel, by the values that we, our kubelet or a CNI of ours gave them.

# ours: NAME=BEFORE of those that still have such a value, and had another one before.
ours() {
  { sed -n 's/^sysctl //p' "$D/journal"; cat "$D"/open/*/seen 2>/dev/null | sed -n 's/^sysctl //p'; } >"$D/set"
  awk '
    FILENAME == ARGV[1] { at = index($0, "="); set[substr($0, 1, at - 1), substr($0, at + 1)]; next }
    $1 != "sysctl" { next }
    { value = substr($0, index($0, " = ") + 3) }
    FILENAME == ARGV[2] { before[$2] = value; next }
    (($2, value) in set) && ($2 in before) && before[$2] != value { print $2 "=" before[$2] }
  ' "$D/set" "$D/before" "$D/sysctls"
}

# along WHICH: NAME=VALUE of the settings that the kernel changes along with forwarding of that
# family, when it goes off: those that had gone on with it get what they had before, others stay.
along() {
  awk -v family="$1" '
    $1 != "sysctl" { next }
    $2 !~ "^net\\." family "\\.conf\\..*\\.forwarding$" && $2 != "net.ipv4.conf.all.accept_redirects" { next }
    $2 ~ /\.accept_redirects$/ && family != "ipv4" || $2 ~ /\.all\.forwarding$/ { next }
    FILENAME == ARGV[1] { before[$2] = $4; next }
    { went = $2 ~ /forwarding$/ ? 1 : 0; print $2 "=" ($4 == went && ($2 in before) ? before[$2] : $4) }
  ' "$D/before" "$D/sysctls"
}

put_settings_back() {
  sysctl -a 2>/dev/null | sed 's/[[:space:]][[:space:]]*/ /g; s/^/sysctl /' | sort -u >"$D/sysctls"
  ours >"$D/back"
  for which in ipv4:net.ipv4.ip_forward ipv6:net.ipv6.conf.all.forwarding; do
    name=${which#*:}
    grep -qxF "$name=0" "$D/back" || continue
    sysctl -q -w "$name=0" >/dev/null 2>&1
    along "${which%%:*}" | while read -r setting; do sysctl -q -w "$setting" >/dev/null 2>&1; done
  done
  grep -vE '^net\.(ipv4\.ip_forward|ipv6\.conf\.all\.forwarding)=' "$D/back" | while read -r setting; do
    sysctl -q -w "$setting" >/dev/null 2>&1
  done
}

# Only what we loaded ourselves, and nothing uses. Of others nobody knows for whom they came; and
# one that makes devices would take those of others with it.
unload() {
  sed -n 's/^module //p' "$D/journal" | while read -r module; do
    grep -qE "^$module [0-9]+ 0 " /proc/modules 2>/dev/null && rmmod "$module" 2>/dev/null
  done
}
