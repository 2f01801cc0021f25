"""A reverse proxy on loopback that signs requests, for tools in any language: `kubeauth proxy`."""
