package live

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// startPage runs eventquota ui with a kubeconfig. It returns the printed address, or "" and the output on stderr if
// the command failed. end stops it.
func startPage(t *testing.T, kubeconfig string, args ...string) (address, stderr string, end func() error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program(t), append([]string{"ui", "--kubeconfig", kubeconfig}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	address, _ = bufio.NewReader(out).ReadString('\n') // empty if the command fails
	end = func() error {
		_ = cmd.Process.Signal(os.Interrupt) // fails if the process has ended
		return cmd.Wait()
	}
	if address == "" {
		_ = end()
	}
	return strings.TrimSpace(address), errs.String(), end
}

// checkTenantPage checks that no request makes the page of a tenant of shop show other namespaces.
func checkTenantPage(t *testing.T, kubeconfig string) {
	t.Helper()
	for _, args := range [][]string{{}, {"-n", "secret-ops"}} {
		if address, stderr, end := startPage(t, kubeconfig, args...); address != "" || !strings.Contains(stderr, "forbidden") {
			t.Errorf("ui %v: address %q, stderr %q; want no address and the error forbidden", args, address, stderr)
			_ = end()
		}
	}
	address, stderr, end := startPage(t, kubeconfig, "-n", "shop")
	if address == "" {
		t.Fatalf("ui did not start: %s", stderr)
	}
	for query, want := range map[string]string{
		"live": `"name":"shop"`, "live?by=source": `"name":"shop-controller"`, "live?by=object": "Pod shop/shop-web-", "live?by=reason": "Normal Started",
		"live?by=policy": "ClusterEventQuota few", "live?by=quota": `"namespace":"shop"`, "live?by=source&namespace=secret-ops": `"rows":[]`, "live?by=object&namespace=secret-ops": `"rows":[]`,
	} {
		got := firstMessage(t, address+query)
		if !strings.Contains(got, want) || !strings.Contains(got, `"scope":"shop"`) || strings.Contains(got, "ops-") || strings.Contains(got, "secret") {
			t.Errorf("%s: got %.2000s, want %s and nothing about other namespaces", query, got, want)
		}
	}
	for namespace, want := range map[string]string{"shop": `"component": "shop-controller"`, "secret-ops": "forbidden"} {
		if got := firstMessage(t, address+"explain?kind=Pod&in="+namespace+"&name="+namespace+"-web-0"); !strings.Contains(got, want) || strings.Contains(got, "ops-controller") {
			t.Errorf("explain of an object in %s: got %s, want %s", namespace, got, want)
		}
	}
	if err := end(); err != nil {
		t.Errorf("ui ended with %v", err)
	}
}

// firstMessage returns the first message of a stream, or the whole answer if it is not a stream.
func firstMessage(t *testing.T, url string) (message string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	must(t, err)
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	for {
		line, err := lines.ReadString('\n')
		if message += line; strings.HasPrefix(line, "data: ") || err != nil {
			return message
		}
	}
}
