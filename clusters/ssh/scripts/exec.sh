# A program and its arguments.
exec "$@"
