"""From here up there is HTTP and TLS: contexts now; the auth flow, leases and faces with the client."""
