"""A CNI on a cluster: installed, awaited, recognised, attested."""
