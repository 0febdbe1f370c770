package chart

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/eventquota/eventquota/test/ports"
)

// TestTryOutRedisNeedsPassword runs the command of the Redis for evaluation, and sends it the password that a replica would.
func TestTryOutRedisNeedsPassword(t *testing.T) {
	for says, objects := range map[string][]*unstructured.Unstructured{
		"chart":   mustRender(t, valueSets()["redis"]).Objects,
		"overlay": renderOverlay(t, "../../manifests/overlays/redis"),
	} {
		t.Run(says, func(t *testing.T) {
			pod := typed[appsv1.Deployment](t, objects, "Deployment", "redis").Spec.Template.Spec
			webhook := typed[appsv1.Deployment](t, objects, "Deployment", name).Spec.Template.Spec
			if got, want := secretOf(t, pod, "password"), secretOf(t, webhook, "redis"); got != want {
				t.Errorf("Redis reads the Secret %q, and the replicas %q", got, want)
			}
			const password = `a"b $c\d`
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "password"), []byte(password+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			ask := runRedis(t, pod.Containers[0], dir)
			if got := ask("PING"); !strings.HasPrefix(got, "-NOAUTH") {
				t.Errorf("without the password, Redis answers %q, want NOAUTH", got)
			}
			if got := ask("AUTH", password); got != "+OK" {
				t.Errorf("with the password, Redis answers %q, want OK", got)
			}
			// The chart refuses higher databases.
			if last, next := ask("SELECT", "15"), ask("SELECT", "16"); last != "+OK" || !strings.HasPrefix(next, "-ERR") {
				t.Errorf("of the databases 15 and 16, Redis says %q and %q, want OK and an error", last, next)
			}
		})
	}
}

// secretOf returns the Secret of a volume that a pod has.
func secretOf(t *testing.T, pod corev1.PodSpec, volume string) string {
	t.Helper()
	for _, v := range pod.Volumes {
		if v.Name == volume && v.Secret != nil {
			return v.Secret.SecretName
		}
	}
	t.Fatalf("%v have no Secret %s", pod.Volumes, volume)
	return ""
}

// runRedis runs the command of a container, whose volume is a directory, until the test ends. It returns a function that sends a
// command and returns the first line of the answer.
func runRedis(t *testing.T, c corev1.Container, dir string) (ask func(words ...string) string) {
	t.Helper()
	var command []string
	for _, word := range append(c.Command, c.Args...) {
		command = append(command, strings.Replace(word, c.VolumeMounts[0].MountPath, dir, 1))
	}
	port, err := ports.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ports.Release(port) })
	redis := exec.CommandContext(t.Context(), command[0], append(command[1:], "--port", fmt.Sprint(port))...)
	redis.Dir, redis.Stdout, redis.Stderr = dir, t.Output(), t.Output()
	if err := redis.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = redis.Process.Kill()
		_ = redis.Wait()
	})
	var connection net.Conn
	err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
		var refused error
		connection, refused = new(net.Dialer).DialContext(ctx, "tcp", ports.Address(port))
		return refused == nil, nil
	})
	if err != nil {
		t.Fatalf("wait for Redis: %v", err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	answers := bufio.NewReader(connection)
	return func(words ...string) string {
		t.Helper()
		var request strings.Builder
		fmt.Fprintf(&request, "*%d\r\n", len(words))
		for _, word := range words {
			fmt.Fprintf(&request, "$%d\r\n%s\r\n", len(word), word)
		}
		if _, err := connection.Write([]byte(request.String())); err != nil {
			t.Fatal(err)
		}
		line, err := answers.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(line)
	}
}
