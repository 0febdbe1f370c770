package main

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/eventquota/eventquota/test/cluster"
)

// auditPolicy logs the metadata of the requests of the webhook only, and logs watches when they begin.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: ["` + cluster.ServiceAccount + `"]
- level: None
`

// request is a request with the attributes that RBAC uses.
type request struct{ verb, group, resource, namespace, name string }

// writeAuditPolicy writes auditPolicy to a file and returns its path.
func writeAuditPolicy(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit-policy.yaml")
	if err := os.WriteFile(path, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// requests returns the distinct requests of the webhook in an audit log. A forbidden request fails the test.
func requests(t *testing.T, auditLog string) (made []request) {
	t.Helper()
	file, err := os.Open(auditLog)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var entry auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
			t.Fatal(err)
		}
		if entry.ResponseStatus != nil && entry.ResponseStatus.Code == http.StatusForbidden {
			t.Errorf("%s %s was forbidden", entry.Verb, entry.RequestURI)
		}
		of := entry.ObjectRef
		if of == nil { // discovery, which RBAC allows to everyone
			continue
		}
		q := request{verb: entry.Verb, group: of.APIGroup, resource: of.Resource, namespace: of.Namespace, name: of.Name}
		if of.Subresource != "" {
			q.resource += "/" + of.Subresource
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
