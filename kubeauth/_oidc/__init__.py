"""`auth-provider: oidc`: the protocol of an OIDC issuer, and the provider that refreshes tokens."""
