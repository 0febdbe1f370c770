package main

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/eventquota/eventquota/test/cluster"
)

// auditPolicy logs who asks for what, of the webhook alone, and watches when they begin.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: ["` + cluster.ServiceAccount + `"]
- level: None
`

// request is what RBAC decides about.
type request struct{ verb, group, resource, namespace, name string }

// writeAuditPolicy writes auditPolicy into a file.
func writeAuditPolicy(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit-policy.yaml")
	if err := os.WriteFile(path, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// requests are those that the webhook has made, each once. One that was forbidden fails
// the test.
func requests(t *testing.T, auditLog string) (made []request) {
	t.Helper()
	file, err := os.Open(auditLog)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var entry struct {
			Verb       string `json:"verb"`
			RequestURI string `json:"requestURI"`
			ObjectRef  *struct {
				APIGroup    string `json:"apiGroup"`
				Resource    string `json:"resource"`
				Subresource string `json:"subresource"`
				Namespace   string `json:"namespace"`
				Name        string `json:"name"`
			} `json:"objectRef"`
			ResponseStatus struct {
				Code int `json:"code"`
			} `json:"responseStatus"`
		}
		if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
			t.Fatal(err)
		}
		if entry.ResponseStatus.Code == http.StatusForbidden {
			t.Errorf("%s %s was forbidden", entry.Verb, entry.RequestURI)
		}
		if entry.ObjectRef == nil { // discovery, which everybody may
			continue
		}
		q := request{
			verb: entry.Verb, group: entry.ObjectRef.APIGroup, resource: entry.ObjectRef.Resource,
			namespace: entry.ObjectRef.Namespace, name: entry.ObjectRef.Name,
		}
		if entry.ObjectRef.Subresource != "" {
			q.resource += "/" + entry.ObjectRef.Subresource
		}
		if !slices.Contains(made, q) {
			made = append(made, q)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return made
}
