//! Kubernetes list and watch vocabulary, shared by server and generator.
