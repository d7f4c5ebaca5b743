// Package apiserver names what the suites need, so that `go mod tidy` keeps it.
package apiserver

import (
	_ "k8s.io/apiserver/pkg/storage/cacher"
	_ "k8s.io/apiserver/pkg/storage/etcd3/testserver"
)
