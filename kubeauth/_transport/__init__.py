"""TLS towards the API server; HTTP is known from here up."""
