"""Credentials: static, from files, and from plugins and issuers that refresh them."""
