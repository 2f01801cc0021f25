"""kubeconfig documents -> merged -> one resolved ClientConfig; in-cluster; proxy choice; kuberc."""
