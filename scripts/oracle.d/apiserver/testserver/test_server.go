// Package testserver takes the place of the package of that name in k8s.io/apiserver, whose suites ask it for an etcd:
// what they get is a process of the program that $ETCD_UNDER_TEST names.
package testserver

import (
	"bufio"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
)

// NewTestConfig holds what a test may change before it starts a server.
func NewTestConfig(t testing.TB) *embed.Config {
	cfg := embed.NewConfig()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	u := url.URL{Scheme: "http", Host: l.Addr().String()}
	cfg.ListenClientUrls = []url.URL{u}
	cfg.AdvertiseClientUrls = []url.URL{u}
	return cfg
}

// RunEtcd starts a server and returns a client of it; both end with the test. Calls are recorded as apiserver's package
// does, since suites count them.
func RunEtcd(t testing.TB, cfg *embed.Config) *kubernetes.Client {
	t.Helper()
	if cfg == nil {
		cfg = NewTestConfig(t)
	}
	args := []string{
		"--listen-client-urls=" + cfg.ListenClientUrls[0].String(),
		fmt.Sprintf("--quota-backend-bytes=%d", cfg.QuotaBackendBytes),
		fmt.Sprintf("--watch-progress-notify-interval=%s", cfg.WatchProgressNotifyInterval),
	}
	if cfg.ClientTLSInfo.CertFile != "" {
		args = append(args, "--cert-file="+cfg.ClientTLSInfo.CertFile, "--key-file="+cfg.ClientTLSInfo.KeyFile, "--trusted-ca-file="+cfg.ClientTLSInfo.TrustedCAFile)
	}
	server := exec.Command(os.Getenv("ETCD_UNDER_TEST"), args...)
	server.Stderr = os.Stderr
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server said %q: %v", line, err)
	}
	endpoint := strings.TrimSpace(strings.TrimPrefix(line, "ready etcd="))
	tlsConfig, err := cfg.ClientTLSInfo.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.New(clientv3.Config{
		TLS:         tlsConfig,
		Endpoints:   []string{endpoint},
		DialTimeout: 10 * time.Second,
		Logger:      zaptest.NewLogger(t, zaptest.Level(zapcore.ErrorLevel)).Named("etcd-client"),
	})
	if err != nil {
		t.Fatal(err)
	}
	recorder := storagetesting.NewKubernetesRecorder(client.Kubernetes)
	client.KV = storagetesting.NewKVRecorder(client.KV, recorder)
	client.Kubernetes = recorder
	return client
}
