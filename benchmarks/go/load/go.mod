module kubeauth.invalid/benchmarks/load

go 1.26.0
