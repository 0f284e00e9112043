# The file $1.
cat "$1"
