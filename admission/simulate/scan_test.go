package simulate

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// auditLines are lines as API servers and others write them.
func auditLines() []string {
	e := event("a", "said \"no\" \\ \t é \U0001f600", sec(0))
	e.EventTime = metav1.NewMicroTime(noon().Add(time.Microsecond))
	e.GenerateName, e.UID, e.ResourceVersion, e.CreationTimestamp = "a-", "uid", "7", metav1.NewTime(noon())
	e.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	e.Action, e.ReportingController, e.ReportingInstance = "Start", "kubelet", "node-1"
	e.InvolvedObject.UID, e.InvolvedObject.ResourceVersion, e.InvolvedObject.FieldPath = "uid", "8", "spec.containers{web}"
	full := request("create", "a", 409, sec(0), e)
	full["impersonatedUser"], full["responseObject"] = map[string]any{"username": "other"}, e
	full["responseStatus"] = map[string]any{"code": 409, "message": `admission webhook "x" denied`, "metadata": map[string]any{}}
	full["objectRef"] = map[string]any{"resource": "events", "namespace": "shop", "name": "a", "apiGroup": "events.k8s.io", "subresource": "status", "apiVersion": "v1"}
	plain := text(request("patch", "b", 200, sec(1), counted(2, sec(1))))
	return []string{
		annotated(full, micros(1), micros(2)+"+3"), plain, watched("ADDED", e), text(e),
		strings.ReplaceAll(plain, `":`, "\" :\t"), strings.Replace(plain, `"verb"`, `"ve\u0072b"`, 1),
		strings.Replace(plain, `{`, `{"verb": "get",`, 1), strings.Replace(plain, "000000Z", "000Z", 1),
		`{"kind": null}`, `{"kind": "a",}`, `{"kind": "a"} x`, `{"kind": "a" "verb": "b"}`, "{\"kind\": \"a\nb\"}", "{\"kind\": \"\xff\"}",
		`{"responseStatus": {"code": 2.0}}`, `{"responseStatus": {"code": 007}}`, `{"responseStatus": {"code": +7}}`, `{"responseStatus": {"code": 99999999999999999999}}`,
		`{"user": [{"a": "]"}, "\\"]}`, `{"user": "\\\""}`, `{"user": `, `{"user": "`, `{"user": [`, `{"user": }`, `{"user": tr}`, `{`, ``, `{}`,
	}
}

// FuzzScannedLinesAreDecodedAlike holds what is fast against what is right.
func FuzzScannedLinesAreDecodedAlike(f *testing.F) {
	for _, line := range auditLines() {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var scanned, decoded line
		if !scanned.scan(text) || decode([]byte(text), &decoded) != nil {
			return // nobody takes what was scanned then, or it is wrong in what nobody asks for
		}
		if diff := cmp.Diff(decoded, scanned, cmpopts.EquateApproxTime(0)); diff != "" {
			t.Errorf("line %q (-decoded +scanned):\n%s", text, diff)
		}
	})
}

// FuzzScannedEventsAreDecodedAlike does so with Events.
func FuzzScannedEventsAreDecodedAlike(f *testing.F) {
	for _, line := range auditLines() {
		f.Add(line)
		var l lineOfEvent
		if decode([]byte(line), &l) == nil {
			f.Add(string(l.RequestObject))
		}
	}
	for _, count := range []string{"0", "-0", "1e1", "2147483648", "-1", `"1"`} {
		f.Add(`{"kind": "Event", "apiVersion": "v1", "count": ` + count + `}`)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var scanned, decoded corev1.Event
		if !scanEvent(text, &scanned) || decode([]byte(text), &decoded) != nil {
			return
		}
		// What asSent would take away need not be scanned.
		decoded.UID, decoded.ResourceVersion, decoded.ManagedFields = "", "", nil
		if diff := cmp.Diff(decoded, scanned, cmpopts.EquateApproxTime(0)); diff != "" {
			t.Errorf("Event %q (-decoded +scanned):\n%s", text, diff)
		}
	})
}

// TestWhatIsNotJSONIsNotScanned is about what a line is asked for.
func TestWhatIsNotJSONIsNotScanned(t *testing.T) {
	for _, text := range []string{
		``, `{`, `[]`, `"a"`, `null`, `{} {}`, `{"kind"}`, `{"kind": "a",}`, `{"kind": "a" "verb": "b"}`, `{"kind": a}`, `{kind: "a"}`, `{"kind": "a"]`,
		`{"kind": "a`, `{"kind": "\x"}`, "{\"kind\": \"a\nb\"}", `{"kind": "a\"}`, `{"kind": null}`, `{"kind": 1}`,
		`{"responseStatus": {"code": 007}}`, `{"responseStatus": {"code": +7}}`, `{"responseStatus": {"code": 7.0}}`, `{"responseStatus": {"code": }}`,
		`{"responseStatus": []}`, `{"object": {"a": [1}`, `{"object": "a}`, `{"object": }`, `{"requestReceivedTimestamp": "2026-11-01T12:00:00Z"}`,
		`{"requestReceivedTimestamp": "2026-13-01T12:00:00.000000Z"}`,
	} {
		var l line
		if l.scan(text) {
			t.Errorf("%s is scanned", text)
		}
	}
}

type lineOfEvent struct {
	RequestObject raw `json:"requestObject"`
}

// TestWhatAPIServersWriteIsScanned holds that the usual is fast.
func TestWhatAPIServersWriteIsScanned(t *testing.T) {
	for _, text := range auditLines()[:5] {
		var l line
		if !l.scan(text) {
			t.Errorf("line is not scanned: %s", text)
		}
	}
	var e corev1.Event
	if whole := auditLines()[3]; !scanEvent(whole, &e) {
		t.Errorf("Event is not scanned: %s", whole)
	}
	text := auditLines()[1]
	if n := testing.AllocsPerRun(100, func() {
		var l line
		l.scan(text)
	}); n > 0 {
		t.Errorf("%v allocations for a line, want none", n)
	}
}
