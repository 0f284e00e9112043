# What all scripts share. D has everything of ours on a machine: programs, images, and the journal,
# to which each change is written before it is made.
set -u
export LC_ALL=C PATH="/var/lib/cnibench/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
D=/var/lib/cnibench
SOCKET=/run/cnibench-containerd/containerd.sock
has() { command -v "$1" >/dev/null 2>&1; }
fail() { printf '%s\n' "$*" >&2; exit 1; }

# room: how much there is, in words.
room() { df -Ph "$D" | awk 'NR==2 {print $4 " are free on its disk"}'; }

# whole: takes off what a full disk has left of a line of the journal, "new /var/lib" say: it was never acted on.
whole() { [ -z "$(tail -c 1 "$D/journal" 2>/dev/null)" ] || truncate -s "$(sed '$d' "$D/journal" | wc -c)" "$D/journal"; }

# note WORDS: a line of the journal, on the disk when this returns.
note() {
  whole
  grep -qxF "$*" "$D/journal" 2>/dev/null && return
  printf '%s\n' "$*" >>"$D/journal" && sync "$D/journal" || fail "the journal $D/journal cannot be written: $(room)"
}

# will_make PATH: notes what of it is not there yet, its topmost missing folder or itself.
will_make() {
  [ -e "$1" ] || [ -L "$1" ] && return
  path=$1
  while parent=${path%/*}; [ -n "$parent" ] && [ ! -e "$parent" ]; do path=$parent; done
  note "new $path"
}

apt() { DEBIAN_FRONTEND=noninteractive apt-get -q -o Dir::State::lists="$D/apt/lists" -o Dir::Cache="$D/apt/cache" \
  -o APT::Sandbox::User=root -o DPkg::Lock::Timeout=60 "$@"; }

# started PID: when it began, in ticks since the machine's start.
started() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

# booted: which start of the machine this is. One that is a container keeps the boot ID of its host.
booted() { printf '%s %s\n' "$(cat /proc/sys/kernel/random/boot_id)" "$(started 1)"; }
