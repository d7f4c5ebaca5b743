// Command etcd is the real etcd server, for the tests and comparisons of this
// repository. It accepts every flag, environment variable and configuration
// file that etcd accepts: the whole command line goes to etcd's own entry
// point, which starts the server through its embed package.
//
// It exists because a module with its go.mod and go.sum in this repository pins
// the server and everything below it, and builds wherever Go is.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
