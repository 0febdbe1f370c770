package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// request is one line of an audit log.
type request struct {
	verb, name, user, body string
	uri                    string
	code                   int
}

func (r request) line() string {
	object := ""
	if r.body != "" {
		object = `,"requestObject":` + r.body
	}
	return fmt.Sprintf(`{"stage":"ResponseComplete","auditID":%q,"requestURI":%q,"verb":%q,"user":{"username":%q},`+
		`"userAgent":"agent","objectRef":{"namespace":"ns","name":%q},"responseStatus":{"code":%d}%s}`+"\n",
		r.body, r.uri, r.verb, r.user, r.name, r.code, object)
}

func TestReadAuditCountsOccurrences(t *testing.T) {
	const coreBody = `{"involvedObject":{"kind":"Pod","name":"p"},"count":%d}`
	pod := Object{Kind: "Pod", Name: "p"}
	core := func(count int) string { return fmt.Sprintf(coreBody, count) }
	for name, test := range map[string]struct {
		requests []request
		want     map[Object]int64
	}{
		"absolute counts under one name, refused or not": {
			requests: []request{
				{verb: "create", name: "a", body: core(1), code: 201},
				{verb: "patch", name: "a", body: `{"count":2}`, code: 409},
				{verb: "patch", name: "a", body: `{"count":2}`, code: 404},
				{verb: "create", name: "a", body: core(2), code: 409},
			},
			want: map[Object]int64{pod: 2},
		},
		"two names about one object": {
			requests: []request{
				{verb: "create", name: "a", body: core(3), code: 201},
				{verb: "create", name: "b", body: core(4), code: 400},
			},
			want: map[Object]int64{pod: 7},
		},
		"a patch before the CREATE that names the object": {
			requests: []request{
				{verb: "patch", name: "a", body: `{"count":5}`, code: 404},
				{verb: "create", name: "a", body: core(5), code: 201},
			},
			want: map[Object]int64{pod: 5},
		},
		"events.k8s.io: one without a series, otherwise the count of the series": {
			requests: []request{
				{verb: "create", name: "a", body: `{"regarding":{"kind":"Pod","name":"p"}}`, code: 201},
				{verb: "create", name: "b", body: `{"regarding":{"kind":"Pod","name":"p"}}`, code: 201},
				{verb: "patch", name: "b", body: `{"series":{"count":9}}`, code: 400},
			},
			want: map[Object]int64{pod: 10},
		},
		"the same name from two sources and about two objects": {
			requests: []request{
				{verb: "create", name: "a", body: `{"involvedObject":{"kind":"Pod","name":"p"},"source":{"component":"kubelet"},"count":1}`, code: 201},
				{verb: "create", name: "a", body: `{"involvedObject":{"kind":"Pod","name":"p"},"source":{"component":"endpoints"},"count":1}`, code: 409},
				{verb: "create", name: "a", body: `{"regarding":{"kind":"Pod","name":"p"},"reportingController":"queue"}`, code: 400},
				{verb: "create", name: "a", body: `{"involvedObject":{"kind":"Pod","name":"q"},"source":{"component":"kubelet"},"count":1}`, code: 409},
				{verb: "patch", name: "a", body: `{"count":4}`, code: 200},
			},
			want: map[Object]int64{pod: 6, {Kind: "Pod", Name: "q"}: 1},
		},
		"the same name from two sources, neither stored: the CREATE after a patch decides": {
			requests: []request{
				{verb: "create", name: "a", body: `{"involvedObject":{"kind":"Pod","name":"p"},"count":1}`, code: 400},
				{verb: "create", name: "a", body: `{"involvedObject":{"kind":"Pod","name":"q"},"count":1}`, code: 400},
				{verb: "patch", name: "a", body: `{"count":2}`, code: 404},
				{verb: "create", name: "a", body: `{"involvedObject":{"kind":"Pod","name":"q"},"count":2}`, code: 400},
			},
			want: map[Object]int64{pod: 1, {Kind: "Pod", Name: "q"}: 2},
		},
		"a whole object by PUT": {
			requests: []request{{verb: "update", name: "a", body: core(6), code: 200}},
			want:     map[Object]int64{pod: 6},
		},
		"a patch of another field": {
			requests: []request{{verb: "patch", name: "a", body: `{"metadata":{"labels":{"a":"b"}}}`, code: 200}},
			want:     map[Object]int64{},
		},
		"each generated name is different": {
			requests: []request{
				{verb: "create", body: `{"metadata":{"generateName":"x-"},"count":1}`, code: 201},
				{verb: "create", body: `{"metadata":{"generateName":"x-"},"count":2}`, code: 201},
			},
			want: map[Object]int64{{}: 3},
		},
		"dry runs, deletions, requests without a body and the settler report none": {
			requests: []request{
				{verb: "create", name: "a", body: core(1), code: 201, uri: "/api/v1/namespaces/ns/events?dryRun=All"},
				{verb: "delete", name: "a", body: `{"count":1}`, code: 200},
				{verb: "create", name: "a", code: 403},
				{verb: "patch", name: "a", body: `{"count":100}`, code: 200, user: "settler"},
			},
			want: map[Object]int64{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			audit, err := ReadAudit(writeLog(t, test.requests...), AuditOptions{IgnoreUsers: []string{"settler"}})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, audit.PerObject()); diff != "" {
				t.Errorf("occurrences by object (-want +got):\n%s", diff)
			}
			var sum int64
			for _, n := range test.want {
				sum += n
			}
			if all, in := audit.Occurrences(), audit.PerNamespace()["ns"]; all != sum || in != sum {
				t.Errorf("got %d occurrences in total and %d in the namespace, want %d of each", all, in, sum)
			}
		})
	}
}

func TestReadAuditCountsRequestsAndWrites(t *testing.T) {
	audit, err := ReadAudit(writeLog(t,
		request{verb: "create", name: "a", user: "kubelet", body: `{}`, code: 201},
		request{verb: "patch", name: "a", user: "settler", body: `{"count":2}`, code: 200},
		request{verb: "patch", name: "a", user: "settler", body: `{"count":3}`, code: 409},
		request{verb: "create", name: "b", user: "kubelet", body: `{}`, code: 201},
		request{verb: "create", name: "c", user: "kubelet", code: 403},
		request{verb: "create", name: "a", user: "kubelet", code: 201, uri: "/?dryRun=All"},
	), AuditOptions{IgnoreUsers: []string{"settler"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[Request]int64{
		{Verb: "create", Code: 201, User: "kubelet", UserAgent: "agent"}: 2,
		{Verb: "create", Code: 403, User: "kubelet", UserAgent: "agent"}: 1,
		{Verb: "patch", Code: 200, User: "settler", UserAgent: "agent"}:  1,
		{Verb: "patch", Code: 409, User: "settler", UserAgent: "agent"}:  1,
	}, audit.Requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if got := audit.MostWrites(); got != 2 {
		t.Errorf("got %d writes, want the 2 stored writes of a", got)
	}
}

func TestReadNewFinishesPartialLine(t *testing.T) {
	path := writeLog(t, request{verb: "create", name: "a", body: `{"count":1}`, code: 201})
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	second := request{uri: "/api/v1/namespaces/ns/events", verb: "create", name: "b", body: `{"count":4}`, code: 409}.line()
	audit := &Audit{}
	for i, step := range []struct {
		more string
		want int64
	}{{second[:20], 1}, {second, 5}} {
		if err := os.WriteFile(path, append(content, step.more...), 0o600); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			audit, err = ReadAudit(path, AuditOptions{})
		} else {
			err = audit.ReadNew()
		}
		if got := audit.Occurrences(); got != step.want || err != nil {
			t.Errorf("got %d occurrences (%v), want %d", got, err, step.want)
		}
	}
	if got := audit.Requests[Request{Verb: "create", Code: 201, UserAgent: "agent"}]; got != 1 {
		t.Errorf("the first line was counted %d times, want once", got)
	}
}

func writeLog(t *testing.T, requests ...request) string {
	t.Helper()
	var lines strings.Builder
	for _, r := range requests {
		if r.uri == "" {
			r.uri = "/api/v1/namespaces/ns/events"
		}
		lines.WriteString(r.line())
	}
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
