module kubeauth.invalid/benchmarks/server

go 1.26.0
