# Waits for a step that is still being carried out, whatever became of whoever began it.
if [ -d "$D" ]; then
  exec 7>>"$D/step"
  flock -w 600 7 || fail "another step of cnibench does not end there"
fi
