"""Load kubeconfigs and the in-cluster configuration, and resolve them to one ClientConfig."""
