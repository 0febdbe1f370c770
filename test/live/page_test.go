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

// startPage runs the command that serves a page, as a user, and returns the address that it prints, or what it says instead.
func startPage(t *testing.T, kubeconfig string, args ...string) (address, said string, end func() error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program(), append([]string{"ui", "--kubeconfig", kubeconfig}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	var problem strings.Builder
	cmd.Stderr = &problem
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	address, _ = bufio.NewReader(out).ReadString('\n') // there is none where it fails
	end = func() error {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		return cmd.Wait()
	}
	if address == "" {
		_ = end()
	}
	return strings.TrimSpace(address), problem.String(), end
}

// checkTenantPage holds what the page of a tenant of shop is sent, whatever it asks for.
func checkTenantPage(t *testing.T, kubeconfig string) {
	t.Helper()
	for _, args := range [][]string{{}, {"-n", "secret-ops"}} {
		if address, said, end := startPage(t, kubeconfig, args...); address != "" || !strings.Contains(said, "forbidden") {
			t.Errorf("ui %v is at %q, and says %q", args, address, said)
			_ = end()
		}
	}
	address, said, end := startPage(t, kubeconfig, "-n", "shop")
	if address == "" {
		t.Fatalf("there is no page: %s", said)
	}
	for query, want := range map[string]string{
		"live": `"name":"shop"`, "live?by=source": `"name":"shop-controller"`, "live?by=object": "Pod shop/shop-web-", "live?by=reason": "Normal Started",
		"live?by=policy": "ClusterEventQuota few", "live?by=quota": `"namespace":"shop"`, "live?by=source&namespace=secret-ops": `"rows":[]`, "live?by=object&namespace=secret-ops": `"rows":[]`,
	} {
		got := firstMessage(t, address+query)
		if !strings.Contains(got, want) || !strings.Contains(got, `"scope":"shop"`) || strings.Contains(got, "ops-") || strings.Contains(got, "secret") {
			t.Errorf("%s is sent %.2000s, want %s and nothing of others", query, got, want)
		}
	}
	for _, namespace := range []string{"shop", "secret-ops"} { // as to explain takes the rights of an administrator
		if got := firstMessage(t, address+"explain?kind=Pod&in="+namespace+"&name="+namespace+"-web-0"); !strings.Contains(got, `"problem":`) || !strings.Contains(got, "forbidden") {
			t.Errorf("an object of %s is explained: %s", namespace, got)
		}
	}
	if err := end(); err != nil {
		t.Errorf("it ends with %v", err)
	}
}

// firstMessage is the first message of a stream, or all of an answer that is none.
func firstMessage(t *testing.T, url string) (said string) {
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
		if said += line; strings.HasPrefix(line, "data: ") || err != nil {
			return said
		}
	}
}
