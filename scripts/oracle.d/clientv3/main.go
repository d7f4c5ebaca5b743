// etcd's own Go client as loadgen measures it: it lists everything below a prefix and keeps it, decoded.
//
//	clientv3 URL[,URL] PREFIX unary|stream|paged:N
//
// Package client has the dialogue. Nothing is set that clientv3 has a default for.
//
//   - unary: Get of the whole prefix
//   - stream: GetStream, its chunks kept as they come (GetStreamToGetResponse would copy each of them once more)
//   - paged:N: Get with a limit, each page from behind the last key, at the revision of the first, as kube-apiserver pages
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/version"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"
	"oracle.invalid/client"
)

const connectWithin = 20 * time.Second

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "clientv3:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("usage: clientv3 URL[,URL] PREFIX unary|stream|paged:N")
	}
	lister := &lister{prefix: args[1], way: args[2]}
	if size, paged := strings.CutPrefix(args[2], "paged:"); paged {
		var err error
		if lister.pageSize, err = strconv.ParseInt(size, 10, 64); err != nil || lister.pageSize < 1 {
			return fmt.Errorf("%q is no page size", size)
		}
		lister.way = "paged"
	}
	var err error
	if lister.etcd, err = clientv3.New(clientv3.Config{Endpoints: strings.Split(args[0], ",")}); err != nil {
		return err
	}
	defer lister.etcd.Close()
	// It connects with its first request.
	ctx, cancel := context.WithTimeout(context.Background(), connectWithin)
	defer cancel()
	if _, err := lister.etcd.Get(ctx, lister.prefix, clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly()); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return client.Run("clientv3 "+version.Version, lister)
}

type lister struct {
	etcd     *clientv3.Client
	prefix   string
	way      string
	pageSize int64
	// Of the latest list.
	responses []*pb.RangeResponse
}

func (l *lister) List() (client.Listed, error) {
	l.responses = nil
	begun := time.Now()
	var err error
	switch l.way {
	case "unary":
		err = l.unary()
	case "stream":
		err = l.stream()
	case "paged":
		err = l.pages()
	default:
		err = fmt.Errorf("there is no way %q to list", l.way)
	}
	took := client.Since(begun)
	if err != nil {
		return client.Listed{}, err
	}
	first, last := l.responses[0], l.responses[len(l.responses)-1]
	listed := client.Listed{Nanoseconds: took, More: last.More}
	for _, response := range l.responses {
		listed.Objects += int64(len(response.Kvs))
		if len(response.Kvs) > 0 {
			listed.Chunks++
		}
	}
	// A stream says it with its last chunk; of pages the first counts everything.
	says := first
	if l.way == "stream" {
		says = last
	}
	listed.Count = &says.Count
	listed.Revision = says.Header.GetRevision()
	return listed, nil
}

func (l *lister) unary() error {
	response, err := l.etcd.Get(context.Background(), l.prefix, clientv3.WithPrefix())
	if err != nil {
		return err
	}
	l.responses = append(l.responses, (*pb.RangeResponse)(response))
	return nil
}

func (l *lister) stream() error {
	// Without this the stream of a list that fails stays open.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	chunks, err := l.etcd.GetStream(ctx, l.prefix, clientv3.WithPrefix())
	if err != nil {
		return err
	}
	for chunk := range chunks {
		if err := chunk.Err(); err != nil {
			return err
		}
		l.responses = append(l.responses, chunk.RangeResponse)
	}
	if len(l.responses) == 0 {
		return fmt.Errorf("a stream without any chunk")
	}
	return nil
}

func (l *lister) pages() error {
	end := clientv3.GetPrefixRangeEnd(l.prefix)
	key, revision := l.prefix, int64(0)
	for {
		page, err := l.etcd.Get(context.Background(), key,
			clientv3.WithRange(end), clientv3.WithLimit(l.pageSize), clientv3.WithRev(revision))
		if err != nil {
			return err
		}
		l.responses = append(l.responses, (*pb.RangeResponse)(page))
		if !page.More {
			return nil
		}
		if len(page.Kvs) == 0 {
			return fmt.Errorf("a page without objects says that more follow")
		}
		if revision == 0 {
			revision = page.Header.Revision
		}
		key = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
}

func (l *lister) Bytes() int64 {
	var bytes int64
	for _, response := range l.responses {
		bytes += int64(proto.Size(response))
	}
	return bytes
}

func (l *lister) Objects() (int, func(func(client.Object) error) error) {
	objects := 0
	for _, response := range l.responses {
		objects += len(response.Kvs)
	}
	return objects, func(yield func(client.Object) error) error {
		for _, response := range l.responses {
			for _, kv := range response.Kvs {
				if err := yield(client.Object{Key: kv.Key, Value: kv.Value, Revision: kv.ModRevision}); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

func (l *lister) Forget() { l.responses = nil }
