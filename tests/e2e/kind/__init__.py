"""A real kind cluster without a Docker engine, an image registry or systemd on the host: its parts,
built once and cached.

Everything comes from the registries of Debian, Python and Go through their ordinary clients.
`python tests/e2e/kind` builds all parts and prints the environment for using them; README.md says
what the parts are.
"""
