# programs_and_files: packages, units, and files: by content in /etc, by size and time elsewhere, by
# name in /var, which lives.
programs_and_files() {
  if has dpkg-query; then
    dpkg-query -W -f='${binary:Package} ${Version} ${db:Status-Abbrev}\n' | sed 's/^/package /'
  elif has rpm; then
    rpm -qa | sed 's/^/package /'
  fi
  find /etc -xdev \( -path /etc/ld.so.cache -o -path /etc/mtab \) -prune -o -type f -exec sha256sum {} + 2>/dev/null |
    sed 's/^/content /'
  find / /boot /etc /opt /root /srv /usr -xdev \
    \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /var -o -path /home \
    -o -path /root/.ssh -o -path /etc/ld.so.cache -o -path /etc/mtab -o -path /lost+found \) -prune \
    -o -type f ! -path '/etc/*' -printf 'file %p %m %U:%G %s %Ts\n' \
    -o -type l -printf 'link %p -> %l\n' -o -printf '%y %p %m %U:%G\n' 2>/dev/null
  find /var /var/lib -xdev \
    \( -path "$D" -o -path /var/log -o -path /var/cache -o -path /var/tmp -o -path /var/spool -o -path /var/backups \
    -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /var/lib/systemd -o -path /var/lib/private \) -prune \
    -o -printf '%y %p %m %U:%G\n' 2>/dev/null
  find /var/log -xdev -maxdepth 1 -type d -printf '%y %p %m %U:%G\n' 2>/dev/null
  systemctl list-unit-files --no-legend --no-pager 2>/dev/null | awk '{print "unit", $1, $2}'
  find /run -maxdepth 2 \
    \( -path /run/systemd -o -path /run/user -o -path /run/udev -o -path /run/log -o -path /run/sudo \
    -o -path /run/credentials -o -path /run/motd\* -o -path /run/utmp -o -path /run/sshd\* \) -prune \
    -o -printf '%y %p\n' 2>/dev/null
}

# listing: what a machine has, a line each: SECTION WORDS. Two listings of an unchanged machine are
# the same. Left out: what changes by itself (logs, caches, spools, counters, package lists); with
# "kernel" as $1 also programs_and_files.
listing() {
  {
    [ "${1:-}" = kernel ] || programs_and_files
    for folder in /sys/class/net/*; do
      printf 'device %s mtu %s %s %s\n' "${folder##*/}" "$(cat "$folder/mtu")" "$(cat "$folder/address")" \
        "$(readlink "$folder/master" | sed 's,.*/,master ,')"
    done
    ip -o addr show | awk '{print "address", $2, $4}'
    for family in -4 -6; do
      ip $family rule show | sed "s/^/rule $family /"
      ip $family route show table all | sed "s/ expires [0-9]*sec//; s/  *$//; s/^/route $family /"
    done
    rules | sed 's/^/netfilter /'
    has ipset && ipset list -name | sed 's/^/ipset /'
    # per-device settings go with their device; the rest of the pattern counts or is random
    sysctl -a 2>/dev/null | grep -Ev \
      '^(fs\.(dentry-state|file-nr|inode-nr|inode-state|quota|binfmt_misc|aio-nr)|kernel\.(random\.|ns_last_pid|pty\.nr|sched_domain|tainted|usermodehelper|firmware_config|core_pattern)|net\.netfilter\.nf_conntrack_(count|buckets)|net\.ipv6\.(route\.flush|conf\..*stable_secret)|vm\.(stat_refresh|compact))' |
      sed 's/[[:space:]][[:space:]]*/ /g; s/^/sysctl /'
    awk '{print "module", $1}' /proc/modules 2>/dev/null
    awk '$2 !~ "^/run/(user|credentials)" {print "mount", $2, $3}' /proc/self/mounts
    sed 1d /proc/swaps | awk '{print "swap", $1}'
    find /sys/fs/cgroup -maxdepth 3 -type d -name 'kube*' -printf 'cgroup %p\n' 2>/dev/null
  } | sort -u
}

# rules: those of iptables and nftables, without counters. Asking iptables-legacy creates its tables:
# only where they are.
rules() {
  for version in 4:ip 6:ip6; do
    program=${version#*:}tables-legacy-save
    grep -qs . "/proc/net/${version#*:}_tables_names" && has "$program" && # it has no size
      "$program" 2>/dev/null | sed '/^#/d; /^COMMIT/d; /^:[A-Z]* ACCEPT/d; s/ \[[0-9:]*\]//' |
      awk -v f="${version%:*}" '/^\*/ {table = $0; next} {print "legacy" f, table, $0}'
  done
  has nft && nft -s list ruleset 2>/dev/null | awk '/^table/ {table = $2 " " $3} {print "nft", table, $0}'
}

# iptables_rules: those of iptables as TOOL TABLE LINE, a chain's line :NAME.
iptables_rules() {
  for of in iptables-legacy iptables-nft ip6tables-legacy ip6tables-nft; do
    has "$of-save" || continue
    case $of in *-legacy) grep -qs . "/proc/net/${of%tables-legacy}_tables_names" || continue ;; esac
    "$of-save" 2>/dev/null | awk -v tool="$of" '
      /^\*/ {table = substr($1, 2)} /^:/ {print tool, table, $1} /^-A/ {print tool, table, $0}'
  done
}
