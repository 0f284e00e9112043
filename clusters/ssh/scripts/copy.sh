# Standard input becomes the file $D/$1 of $2 bytes.
mkdir -p "$D/$(dirname "$1")" && cat >"$D/$1.part" || fail "$D/$1 cannot be written: $(room)"
[ "$(stat -c %s "$D/$1.part")" = "$2" ] || fail "$D/$1 did not arrive whole"
mv "$D/$1.part" "$D/$1"
