# Rules of our Kubernetes and of the CNIs that are still installed. Each change is one transaction
# of a table, which leaves rules that others add meanwhile as they are.

# The chains of kubelet and kube-proxy: ? is a letter of a hash.
KUBE_CHAINS='KUBE-SERVICES KUBE-EXTERNAL-SERVICES KUBE-NODEPORTS KUBE-POSTROUTING KUBE-MARK-MASQ KUBE-MARK-DROP
KUBE-FORWARD KUBE-FIREWALL KUBE-PROXY-FIREWALL KUBE-PROXY-CANARY KUBE-KUBELET-CANARY KUBE-IPTABLES-HINT
KUBE-SVC-???????????????? KUBE-SVL-???????????????? KUBE-SEP-???????????????? KUBE-EXT-???????????????? KUBE-FW-????????????????'

# own_chains TOOL: TABLE CHAIN of those that are ours, out of $D/now. One that was there before stays,
# also where only nft could list it. A node has tens of thousands: no process for each.
own_chains() {
  { echo "$KUBE_CHAINS" | tr ' ' '\n'; declared chain; } >"$D/patterns"
  awk -v tool="$1" '
    FILENAME == ARGV[1] { gsub(/[.+]/, "[&]"); gsub(/\?/, "."); gsub(/\*/, ".*"); pattern[++number] = "^" $0 "$"; next }
    FILENAME == ARGV[2] { had[$0]; next }
    FILENAME == ARGV[3] { if (match($0, /\tchain [^ ]+ \{/)) before[substr($0, RSTART + 7, RLENGTH - 9)]; next }
    $1 == tool && $3 ~ /^:/ {
      chain = substr($3, 2)
      if ($0 in had || chain in before) next
      for (i = 1; i <= number; i++) if (chain ~ pattern[i]) { print $2, chain; break }
    }' "$D/patterns" "$D/rules" "$D/before" "$D/now"
}

# removal TOOL: input of `restore --noflush` that takes these chains, the rules that jump to them and
# the rules with a text that a CNI of ours declares out of $D/now; nothing of $D/rules.
removal() {
  own_chains "$1" >"$D/chains"
  declared rule >"$D/texts"
  awk -v tool="$1" '
    FILENAME == ARGV[1] { had[$0]; next }
    FILENAME == ARGV[2] { own[$0]; next }
    FILENAME == ARGV[3] { texts[++number] = $0; next }
    $1 != tool { next }
    {
      table = $2; rule = substr($0, length($1 $2) + 3)
      if (rule ~ /^:/) {
        if ((table " " substr(rule, 2)) in own) {
          made[table] = made[table] rule " - [0:0]\n"; gone[table] = gone[table] "-X " substr(rule, 2) "\n"
        }
        next
      }
      if ((table " " $4) in own || ($0 in had)) next
      hit = 0; plain = rule; gsub(/"([^"\\]|\\.)*"/, "", plain)
      n = split(plain, word, " ")
      for (i = 1; i < n; i++) if ((word[i] == "-j" || word[i] == "-g") && ((table " " word[i + 1]) in own)) hit = 1
      for (i = 1; i <= number; i++) if (index(rule " ", texts[i])) hit = 1
      if (hit) rules[table] = rules[table] "-D" substr(rule, 3) "\n"
      if (hit && !(table in made)) made[table] = ""
    }
    END { for (table in made) printf "*%s\n%s%s%sCOMMIT\n", table, made[table], rules[table], gone[table] }
  ' "$D/rules" "$D/chains" "$D/texts" "$D/now"
}

remove_rules() {
  [ -e "$D/rules" ] || return 0 # nobody knows what was there before
  for tool in iptables-legacy iptables-nft ip6tables-legacy ip6tables-nft; do
    for _ in 1 2 3 4 5; do # somebody may remove one of these rules meanwhile
      iptables_rules >"$D/now"
      removal "$tool" >"$D/removal"
      [ -s "$D/removal" ] || break
      # Without a limit that of nftables starts again for as long as others change rules faster.
      timeout 20 "$tool-restore" --noflush --wait 20 <"$D/removal" 2>"$D/removal.log" && break
    done
    iptables_rules >"$D/now"
    [ -z "$(removal "$tool")" ] || problem "rules of $tool stay: $(head -n 1 "$D/removal.log")"
  done
  has nft && remove_tables
  has ipset && for name in $(ipset list -name 2>/dev/null); do
    like "$name" ipset && ! was ipset "$name" && ipset destroy "$name" 2>/dev/null
  done
}

# The tables of CNIs, and what iptables made to hold its rules: base chains that hold none and accept
# all (nft deletes no other), and their tables.
remove_tables() {
  nft -s list tables 2>/dev/null | while read -r _ family table; do
    like "$table" nft_table && ! was netfilter "nft $family $table" && nft delete table "$family" "$table"
  done
  nft -s list ruleset 2>/dev/null | awk '
    /^table / { family = $2; table = $3; next }
    family !~ /^ip6?$/ || table !~ /^(filter|nat|mangle|raw|security)$/ { next }
    /^\tchain / { chain = $2; base = 0; empty = 1; next }
    /^\t\ttype .* policy accept;$/ { base = 1; next }
    /^\t}/ { if (base && empty) print family, table, chain; next }
    { empty = 0 }' | while read -r family table chain; do
    grep -qxF "netfilter nft $family $table 	chain $chain {" "$D/before" || nft delete chain "$family" "$table" "$chain" 2>/dev/null
  done
  for family in ip ip6; do
    for table in filter nat mangle raw security; do
      was netfilter "nft $family $table" && continue
      [ "$(nft -s list table $family $table 2>/dev/null | grep -v '^#')" = "table $family $table {
}" ] && nft delete table $family $table
    done
  done
}
