"""``python -m cnibench.planning.plans``: writes schema.json."""

from cnibench.planning.plans import main

main()
