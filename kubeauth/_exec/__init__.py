"""Exec plugins: configuration, policy, the ExecCredential protocol, and running the process."""
