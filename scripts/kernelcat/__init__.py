"""kernelcat: reproducible GPU-kernel benchmarks, kept as digest-addressed evidence."""
