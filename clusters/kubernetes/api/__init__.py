"""The connection to an API server: credentials, requests, outages, and the objects that we make."""
