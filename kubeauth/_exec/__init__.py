"""The exec plugin protocol: what a plugin is configured with, told, allowed and asked for."""
