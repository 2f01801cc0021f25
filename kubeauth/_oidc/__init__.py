"""`auth-provider: oidc`: what an issuer is asked, and what is made of its answers."""
