package live

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// everyone is a quota whose bucket all namespaces use. It refuses nothing here.
const everyone = `apiVersion: eventquota.io/v1alpha1
kind: ClusterEventQuota
metadata: {name: everyone}
spec:
  limits: [{name: everyone, burst: 1000, tokens: 1, interval: 1m}]
`

// checkTenantExplains checks what explain shows to a tenant of shop.
func checkTenantExplains(t *testing.T, run func(...string) (string, error)) {
	t.Helper()
	out, err := run("explain", "pod/shop-web-0", "-n", "shop", "--writer", "eventquota-admin", "-o", "json")
	must(t, err)
	t.Logf("explain shows the tenant:\n%s", out)
	var report struct {
		Sources []struct {
			Component string
			Known     bool
			Policies  []struct{ Name string }
			Buckets   []struct {
				Policy string
				Tokens int
			}
		}
		Dropped []struct {
			Policy, About string
			Count         int
		}
		Notes []string
	}
	must(t, json.Unmarshal([]byte(out), &report))
	if len(report.Sources) != 1 || !report.Sources[0].Known || report.Sources[0].Component != "shop-controller" || report.Sources[0].Policies[0].Name != "default" {
		t.Fatalf("sources %+v, want shop-controller, as the replica knows it, governed by the default", report.Sources)
	}
	buckets := report.Sources[0].Buckets
	if len(buckets) != 2 || buckets[0].Policy != "default" || buckets[1].Policy != "ClusterEventQuota few" || buckets[1].Tokens != 1 {
		t.Errorf("buckets %+v, want the spam filter, and the quota with a token for Warnings", buckets)
	}
	if len(report.Dropped) != 1 || report.Dropped[0].About != "shop/Namespace/shop" || report.Dropped[0].Count != 4 {
		t.Errorf("drops %+v, want the 4 of namespace shop", report.Dropped)
	}
	if strings.Contains(out, "ops") || strings.Contains(out, "everyone") || !strings.Contains(out, "quotas that other namespaces use too") {
		t.Error("explain shows other namespaces, or a quota that they use too, or has no note about it")
	}
	for _, args := range [][]string{{"pod/secret-ops-web-0", "-n", "secret-ops"}, {"node/node-0", "-n", "default"}} {
		if out, err := run(append([]string{"explain"}, args...)...); err == nil || !strings.Contains(out, "forbidden") || strings.Contains(out, "ops-controller") {
			t.Errorf("explain %v: got %q, want the error forbidden", args, out)
		}
	}
}

// checkTenantScreen checks that the screen of top leads a tenant of shop to the report on an object.
func checkTenantScreen(t *testing.T, kubeconfig string) {
	t.Helper()
	term := newTerminal(t, 200, 50, fmt.Sprintf("HOME=%s %s top -n shop --by object --kubeconfig %s", t.TempDir(), program(t), kubeconfig))
	term.waitForText("namespace shop", "1 replica ", "> ", "Pod shop/shop-web-0")
	term.press("Enter")
	screen := term.waitForText(", by store memory at", "SOURCE shop-controller", "ClusterEventQuota few")
	term.press("q")
	if strings.Contains(screen, "ops") {
		t.Errorf("the screen shows other namespaces:\n%s", screen)
	}
}
