package facts

import (
	"encoding/base64"
	"io"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// must ends the test if there is an error.
func (f *fullEtcd) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// fails requires the error of a full etcd.
func (f *fullEtcd) fails(err error, what string) {
	f.Helper()
	if err == nil || !strings.Contains(err.Error(), noSpace) {
		f.Errorf("%s: %v; want the error %q", what, err, noSpace)
	}
}

func (f *fullEtcd) kubectl(stdin string, args ...string) (stdout string) {
	f.Helper()
	stdout, _, err := f.Kubectl(f.Context(), stdin, args...)
	f.must(err)
	return stdout
}

func (f *fullEtcd) kubectlFails(stdin string, args ...string) {
	f.Helper()
	_, _, err := f.Kubectl(f.Context(), stdin, args...)
	f.fails(err, strings.Join(args, " "))
}

// none requires that no Event is in the namespace.
func (f *fullEtcd) none(namespace string) {
	f.Helper()
	events, err := f.client.CoreV1().Events(namespace).List(f.Context(), metav1.ListOptions{})
	f.must(err)
	if len(events.Items) != 0 {
		f.Errorf("namespace %s still has %d Events", namespace, len(events.Items))
	}
}

func (f *fullEtcd) get(url string) (status int, body string) {
	f.Helper()
	request, err := http.NewRequestWithContext(f.Context(), http.MethodGet, url, http.NoBody)
	f.must(err)
	response, err := http.DefaultClient.Do(request)
	f.must(err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	f.must(err)
	return response.StatusCode, string(content)
}

func (f *fullEtcd) etcd(path string, request, response any) {
	f.Helper()
	f.must(f.Etcd(f.Context(), path, request, response))
}

// etcdAlarm is an alarm of a member.
type etcdAlarm struct {
	MemberID string `json:"memberID"`
	Alarm    string `json:"alarm"`
}

func (f *fullEtcd) alarms() []etcdAlarm {
	f.Helper()
	var answer struct {
		Alarms []etcdAlarm `json:"alarms"`
	}
	f.etcd("v3/maintenance/alarm", map[string]string{"action": "GET"}, &answer)
	return answer.Alarms
}

// disarm deactivates all alarms, as etcdctl alarm disarm does.
func (f *fullEtcd) disarm() {
	f.Helper()
	for _, alarm := range f.alarms() {
		f.etcd("v3/maintenance/alarm", map[string]string{"action": "DEACTIVATE", "memberID": alarm.MemberID, "alarm": alarm.Alarm}, nil)
	}
}

// etcdStatus is the status of a member. The numbers are decimal.
type etcdStatus struct {
	Header struct {
		Revision string `json:"revision"`
	} `json:"header"`
	DBSize      string `json:"dbSize"`
	DBSizeInUse string `json:"dbSizeInUse"`
}

func (s etcdStatus) total() int { n, _ := strconv.Atoi(s.DBSize); return n }
func (s etcdStatus) inUse() int { n, _ := strconv.Atoi(s.DBSizeInUse); return n }

func (f *fullEtcd) status() (status etcdStatus) {
	f.Helper()
	f.etcd("v3/maintenance/status", struct{}{}, &status)
	return status
}

// compact removes all old revisions and waits until their space is free, as etcdctl compact --physical does.
func (f *fullEtcd) compact() {
	f.Helper()
	f.etcd("v3/kv/compaction", map[string]any{"revision": f.status().Header.Revision, "physical": true}, nil)
}

// compacted returns the revision that the API server compacted last.
func (f *fullEtcd) compacted() string {
	f.Helper()
	return strings.Join(f.values("compact_rev_key"), "")
}

// values returns the values of a key: none or one.
func (f *fullEtcd) values(key string) (values []string) {
	f.Helper()
	var answer struct {
		KVs []struct {
			Value string `json:"value"`
		} `json:"kvs"`
	}
	f.etcd("v3/kv/range", map[string]string{"key": encode(key)}, &answer)
	for _, kv := range answer.KVs {
		values = append(values, kv.Value)
	}
	return values
}

func encode(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
