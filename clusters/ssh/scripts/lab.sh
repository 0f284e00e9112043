# What the lab needs of a machine: lines of KEY=VALUE; of interpreters of Python: python=PATH VERSION
# ARCHITECTURE FOLDER, FOLDER where its libraries have cnibench's, - where they have not. Changes
# nothing. $1: the measured device. $2: modules.
export PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
own=$(command -v cnibench) && own=$(sed -n '1s/^#! *\([^ ]*\).*/\1/p' "$own")
for name in "$own" python3 python3.11 python3.12 python3.13 python3.14; do
  path=$(command -v "$name" 2>/dev/null) || continue
  # shellcheck disable=SC2086 # modules are words
  "$path" -I -c '
import importlib.util, os, platform, sys
found = [importlib.util.find_spec(name) for name in sys.argv[1:]]
folder = os.path.dirname(os.path.dirname(found[0].origin)) if all(found) else "-"
print("python=%s %d.%d %s %s" % (sys.executable, *sys.version_info[:2], platform.machine(), folder))
' $2 2>/dev/null
done
printf 'kind=%s\n' "$(ip -d link show dev "$1" 2>/dev/null | sed -n '3s/^ *\([a-z]*\).*/\1/p')"
printf 'bridged=%s\n' "$(readlink "/sys/class/net/$1/master" | sed 's,.*/,,')"
