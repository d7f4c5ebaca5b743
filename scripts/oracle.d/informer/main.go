// An informer of client-go for the tests of the Kubernetes tier: it keeps the ConfigMaps of a namespace and says
// what it sees.
//
//	informer URL json|protobuf NAMESPACE [CA [CERT KEY]]
//
// CA is what an https URL is trusted by, CERT and KEY are what is shown to it, all of them PEM files.
// It prints `synced NAME…` once, then `add NAME`, `update NAME` or `delete NAME` for each change, and ends with
// its standard input. Whether it lists by a watch is client-go's own KUBE_FEATURE_WatchListClient.
package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

var mediaTypes = map[string]string{
	"json":     "application/json",
	"protobuf": "application/vnd.kubernetes.protobuf",
}

func main() {
	given := len(os.Args)
	if (given != 4 && given != 5 && given != 7) || mediaTypes[os.Args[2]] == "" {
		fmt.Fprintln(os.Stderr, "usage: informer URL json|protobuf NAMESPACE [CA [CERT KEY]]")
		os.Exit(2)
	}
	var files rest.TLSClientConfig
	if given > 4 {
		files.CAFile = os.Args[4]
	}
	if given > 5 {
		files.CertFile, files.KeyFile = os.Args[5], os.Args[6]
	}
	if err := run(os.Args[1], mediaTypes[os.Args[2]], os.Args[3], files); err != nil {
		fmt.Fprintln(os.Stderr, "informer:", err)
		os.Exit(1)
	}
}

func run(url, mediaType, namespace string, files rest.TLSClientConfig) error {
	content := rest.ContentConfig{
		ContentType:        mediaType,
		AcceptContentTypes: mediaType + ",application/json",
	}
	client, err := kubernetes.NewForConfig(&rest.Config{Host: url, ContentConfig: content, TLSClientConfig: files})
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	stop := make(chan struct{})
	factory.Start(stop)
	factory.WaitForCacheSync(stop)
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, initial bool) {
			if !initial {
				say("add", object)
			}
		},
		UpdateFunc: func(old, object any) {
			// A new list repeats what is known.
			if old.(*v1.ConfigMap).ResourceVersion != object.(*v1.ConfigMap).ResourceVersion {
				say("update", object)
			}
		},
		DeleteFunc: func(object any) { say("delete", object) },
	})
	if err != nil {
		return err
	}
	// Whoever reads `synced` makes changes: a handler that comes later would take them for the state.
	cache.WaitForCacheSync(stop, handler.HasSynced)
	names := informer.GetStore().ListKeys()
	slices.Sort(names)
	for i, key := range names {
		names[i] = strings.TrimPrefix(key, namespace+"/")
	}
	fmt.Println("synced", strings.Join(names, " "))
	_, err = io.Copy(io.Discard, os.Stdin)
	close(stop)
	factory.Shutdown()
	return err
}

func say(what string, object any) {
	if last, unknown := object.(cache.DeletedFinalStateUnknown); unknown {
		object = last.Obj
	}
	fmt.Println(what, object.(*v1.ConfigMap).Name)
}
