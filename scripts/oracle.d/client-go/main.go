// Kubernetes' own Go client as loadgen measures it: it lists the pods of all namespaces and keeps them, decoded as v1.Pod.
//
//	client-go URL list|informer json|protobuf [gzip]
//
// Package client has the dialogue. Nothing is set that client-go has a default for, but the encoding and compression:
// client-go takes gzip unless told not to, and the control plane's own programs tell it so. Here the last argument allows it.
//
//   - list: CoreV1().Pods("").List without options, as one answer
//   - informer: a new SharedInformerFactory, from its start until the informer of pods has synced; whether that lists by a
//     watch is client-go's own KUBE_FEATURE_WatchListClient (on by default)
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"oracle.invalid/client"
)

const (
	version       = "0.37.2"
	connectWithin = 20 * time.Second
	// A list that takes longer has failed, and an informer would try for ever.
	listWithin = 10 * time.Minute
)

var mediaTypes = map[string]string{
	"json":     "application/json",
	"protobuf": "application/vnd.kubernetes.protobuf",
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "client-go:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 3 || len(args) > 4 || mediaTypes[args[2]] == "" {
		return fmt.Errorf("usage: client-go URL list|informer json|protobuf [gzip]")
	}
	lister := &lister{way: args[1], gzip: len(args) == 4}
	media := mediaTypes[args[2]]
	config := &rest.Config{
		Host: args[0],
		ContentConfig: rest.ContentConfig{
			ContentType:        media,
			AcceptContentTypes: media + ",application/json",
		},
		DisableCompression: !lister.gzip,
		// client-go's own dialer. Without any of its own settings a configuration for plain HTTP gets http.DefaultTransport,
		// which takes gzip whatever DisableCompression says.
		Dial: (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		WrapTransport: func(transport http.RoundTripper) http.RoundTripper {
			return counting{transport, lister}
		},
	}
	var err error
	if lister.kube, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), connectWithin)
	defer cancel()
	if _, err := lister.kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return client.Run("client-go "+version, lister)
}

type lister struct {
	kube *kubernetes.Clientset
	way  string
	gzip bool
	// Of the latest list: its pods, the bytes of its bodies, and whether it was a watch.
	pods     []*v1.Pod
	bytes    atomic.Int64
	wasWatch atomic.Bool
}

func (l *lister) List() (client.Listed, error) {
	l.pods = nil
	l.bytes.Store(0)
	l.wasWatch.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), listWithin)
	defer cancel()
	switch l.way {
	case "list":
		return l.list(ctx)
	case "informer":
		return l.sync(ctx)
	default:
		return client.Listed{}, fmt.Errorf("there is no way %q to list", l.way)
	}
}

func (l *lister) list(ctx context.Context) (client.Listed, error) {
	begun := time.Now()
	list, err := l.kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	took := client.Since(begun)
	if err != nil {
		return client.Listed{}, err
	}
	l.pods = make([]*v1.Pod, len(list.Items))
	for i := range list.Items {
		l.pods[i] = &list.Items[i]
	}
	listed := client.Listed{Nanoseconds: took, Objects: int64(len(l.pods)), Chunks: 1, More: list.Continue != ""}
	listed.Revision, err = strconv.ParseInt(list.ResourceVersion, 10, 64)
	return listed, err
}

func (l *lister) sync(ctx context.Context) (client.Listed, error) {
	ctx, stop := context.WithCancel(ctx)
	begun := time.Now()
	factory := informers.NewSharedInformerFactory(l.kube, 0)
	informer := factory.Core().V1().Pods().Informer()
	synced := informer.HasSyncedChecker()
	factory.StartWithContext(ctx)
	// WaitForCacheSync would look every 100 ms.
	var err error
	select {
	case <-synced.Done():
	case <-ctx.Done():
		err = fmt.Errorf("the informer has not synced: %w", ctx.Err())
	}
	took := client.Since(begun)
	revision := informer.LastSyncResourceVersion()
	stop()
	factory.Shutdown()
	if err != nil {
		return client.Listed{}, err
	}
	stored := informer.GetStore().List()
	l.pods = make([]*v1.Pod, len(stored))
	for i, object := range stored {
		l.pods[i] = object.(*v1.Pod)
	}
	listed := client.Listed{Nanoseconds: took, Objects: int64(len(l.pods)), Chunks: 1}
	if l.wasWatch.Load() {
		// Each object is an event.
		listed.Chunks = listed.Objects
	}
	listed.Revision, err = strconv.ParseInt(revision, 10, 64)
	return listed, err
}

func (l *lister) Bytes() int64 { return l.bytes.Load() }

// Objects are written as an apiserver stores them: without resourceVersion, in protobuf, in its envelope. A store has no
// order, so what an informer holds is sorted.
func (l *lister) Objects() (int, func(func(client.Object) error) error) {
	serializer := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	if l.way == "informer" {
		slices.SortFunc(l.pods, func(a, b *v1.Pod) int { return strings.Compare(key(a), key(b)) })
	}
	return len(l.pods), func(yield func(client.Object) error) error {
		var value sliceWriter
		for _, pod := range l.pods {
			revision, err := strconv.ParseInt(pod.ResourceVersion, 10, 64)
			if err != nil {
				return err
			}
			pod.ResourceVersion = ""
			pod.SetGroupVersionKind(v1.SchemeGroupVersion.WithKind("Pod"))
			value = value[:0]
			if err := serializer.Encode(pod, &value); err != nil {
				return err
			}
			if err := yield(client.Object{Key: []byte(key(pod)), Value: value, Revision: revision}); err != nil {
				return err
			}
		}
		return nil
	}
}

func (l *lister) Forget() { l.pods = nil }

func key(pod *v1.Pod) string { return "/registry/pods/" + pod.Namespace + "/" + pod.Name }

// sliceWriter keeps what is written to it.
type sliceWriter []byte

func (w *sliceWriter) Write(bytes []byte) (int, error) {
	*w = append(*w, bytes...)
	return len(bytes), nil
}

// counting counts the bytes of bodies as the program gets them: gzip is undone below it.
type counting struct {
	http.RoundTripper
	lister *lister
}

func (c counting) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.RoundTripper.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if request.URL.Query().Get("sendInitialEvents") == "true" {
		c.lister.wasWatch.Store(true)
	}
	if response.Uncompressed && !c.lister.gzip {
		response.Body.Close()
		return nil, fmt.Errorf("%s was answered in gzip, which nobody asked for", request.URL)
	}
	response.Body = body{response.Body, &c.lister.bytes}
	return response, nil
}

type body struct {
	io.ReadCloser
	bytes *atomic.Int64
}

func (b body) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	b.bytes.Add(int64(n))
	return n, err
}
