// Command kube-apiserver is the real kube-apiserver, for the tests and comparisons of this repository. It takes every
// flag of kube-apiserver: the whole command line goes to its own command.
//
// It exists because kube-apiserver's module replaces its staging modules by folders of its repository, which only that
// repository has: here they are required from where they are published, with the same version.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}
