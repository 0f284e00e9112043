"""``python -m cnibench.plans``: writes schema.json."""

from cnibench.plans import main

main()
