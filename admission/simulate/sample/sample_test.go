package sample

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission/simulate"
)

// entry is a decoded line of a recording.
type entry struct {
	Verb      string
	User      struct{ Username string }
	ObjectRef struct{ Namespace, Name string }
	// RequestObject is an Event, or a patch of its count.
	RequestObject            corev1.Event
	RequestReceivedTimestamp time.Time
}

// after returns the time since the beginning of the recording.
func (r *entry) after() time.Duration { return r.RequestReceivedTimestamp.Sub(start()) }

// lines yields the decoded lines of a recording.
func lines(t *testing.T, recording io.ReadCloser) iter.Seq[*entry] {
	t.Helper()
	return func(yield func(*entry) bool) {
		for decoder := json.NewDecoder(recording); ; {
			var one entry
			err := decoder.Decode(&one)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !yield(&one) {
				return
			}
		}
	}
}

// reasons counts the lines of a recording by reason and returns its duration.
func reasons(t *testing.T, recording io.ReadCloser) (counts map[string]int, took time.Duration) {
	t.Helper()
	counts = map[string]int{}
	for line := range lines(t, recording) {
		counts[line.RequestObject.Type+" "+line.RequestObject.Reason]++
		took = max(took, line.after())
	}
	return counts, took
}

// skipIfShort skips tests that read a whole storm.
func skipIfShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("whole storms are not read with -short") //nolint:forbidigo // -short asks for it
	}
}

func TestChurnMatchesReportedStorm(t *testing.T) {
	skipIfShort(t)
	got, took := reasons(t, Churn())
	want := map[string]int{"Normal Killing": 49_504, "Normal Pulled": 27_561, "Normal Created": 27_561, "Normal Started": 27_560, "Normal Scheduled": 13_073}
	if diff := cmp.Diff(want, got); diff != "" || took.Round(time.Second) != 5*time.Minute {
		t.Errorf("in %s, want five minutes; by reason (-want +got):\n%s", took, diff)
	}
}

func TestQuietScalesWithNodes(t *testing.T) {
	for nodes, rollouts := range map[int]int{1: 2, 100: 2, 1000: 2, 1001: 4} {
		got, took := reasons(t, Quiet(nodes))
		pods := nodes + 50*rollouts
		failed := got["Warning Unhealthy"]
		if got["Normal SuccessfulCreate"] != pods || got["Normal Killing"] < pods/4 || failed < pods/40 || failed > pods/10 || took > 10*time.Minute {
			t.Errorf("%d nodes: %v in %s, want %d pods in ten minutes, one in twenty of which is unhealthy", nodes, got, took, pods)
		}
	}
}

func TestNarrowStorm(t *testing.T) {
	skipIfShort(t)
	objects, messages, users, seconds := map[string]int{}, map[string]bool{}, map[string]bool{}, map[time.Duration]int{}
	for line := range lines(t, Narrow()) {
		e := &line.RequestObject
		if line.Verb != "create" || e.Reason != "SyncFailed" || e.Type != corev1.EventTypeWarning || e.Count != 1 {
			t.Fatalf("%s %+v, want Warnings that are created", line.Verb, e)
		}
		objects[e.InvolvedObject.Kind+" "+e.InvolvedObject.Name]++
		messages[e.InvolvedObject.Name+" "+e.Message] = true
		users[line.User.Username] = true
		seconds[line.after().Truncate(time.Second)]++
	}
	want := map[string]int{}
	for i := range 5 {
		want[fmt.Sprint("Database db-", i)] = 12_000
	}
	if diff := cmp.Diff(want, objects); diff != "" || len(messages) != 60_000 || len(users) != 1 {
		t.Errorf("%d messages of %d users, want 60,000 of one; by object (-want +got):\n%s", len(messages), len(users), diff)
	}
	for second, n := range seconds {
		if n < 190 || n > 210 || second >= 5*time.Minute {
			t.Errorf("%d in the second %s, want about 200 in five minutes", n, second)
		}
	}
}

// TestProbesMatchKubeletRecorder checks that each Event is created before its count is patched, and that counts increase. The
// spam filter must have client-go's limits: 25 writes per pod, and one more every five minutes.
func TestProbesMatchKubeletRecorder(t *testing.T) {
	counts, pods, known := map[string]int{}, map[string]int{}, map[string]int32{}
	last := map[string]time.Duration{}
	for line := range lines(t, Probes()) {
		e, name := &line.RequestObject, line.ObjectRef.Name
		switch {
		case line.Verb == "create":
			if known[name] > 0 {
				t.Fatalf("%s is created twice", name)
			}
			counts[e.Type+" "+e.Reason]++
			if e.Source.Component == "kubelet" {
				pods[e.InvolvedObject.Name]++
			}
		case line.Verb != "patch", e.Count <= known[name], line.after() <= last[name]:
			t.Fatalf("%s of %s to %d at %s, after %d at %s", line.Verb, name, e.Count, line.after(), known[name], last[name])
		default:
			counts["patches"]++
			pods[name[:strings.LastIndex(name, ".")]]++
		}
		known[name], last[name] = e.Count, line.after()
		if line.after() >= 10*time.Minute {
			t.Fatalf("%s is at %s, want nothing after ten minutes", name, line.after())
		}
	}
	want := map[string]int{
		"Normal SuccessfulCreate": 200, "Normal Scheduled": 200, "Normal Pulled": 200, "Normal Created": 200, "Normal Started": 200,
		"Warning Unhealthy": 400, "Normal Killing": 200, "Warning BackOff": 200, "patches": 3800,
	}
	if diff := cmp.Diff(want, counts); diff != "" || len(pods) != 200 {
		t.Errorf("%d pods, want 200; created by reason, and patches (-want +got):\n%s", len(pods), diff)
	}
	for pod, n := range pods {
		if n != 26 {
			t.Errorf("%d writes about %s, want the 26 that a recorder's spam filter lets through in less than ten minutes", n, pod)
		}
	}
}

// all returns a recording of each kind.
func all() map[string]func() io.ReadCloser {
	return map[string]func() io.ReadCloser{
		"churn": Churn, "narrow": Narrow, "probes": Probes, "quiet": func() io.ReadCloser { return Quiet(20) },
	}
}

// TestSamplesAreReadable checks that a simulation reads each line as one complete write. Tests of the command cover the largest
// samples.
func TestSamplesAreReadable(t *testing.T) {
	for _, kind := range []string{"probes", "quiet"} {
		recording := all()[kind]
		trace, err := simulate.Read(t.Context(), []simulate.Source{simulate.NewSource(kind, recording())}, simulate.Exempt{})
		if err != nil {
			t.Fatal(err)
		}
		defer trace.Close()
		if in := trace.Input; in.Broken > 0 || len(in.Skipped) > 0 || in.Entries != in.Most || in.Fewest != in.Most {
			t.Errorf("%s: read %+v", kind, in)
		}
		r, err := trace.Run(t.Context(), simulate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if w := r.EtcdWrites; w.Before != trace.Input.Most || w.After >= w.Before || r.Outcomes[simulate.Unknown] > 0 || r.Outcomes[simulate.Failed] > 0 {
			t.Errorf("%s: %+v of %d, %v under the built-in default, want fewer, of which all are known", kind, w, trace.Input.Most, r.Outcomes)
		}
	}
}

// TestSampleIsGeneratedLazily also checks that generation stops when the reader is closed.
func TestSampleIsGeneratedLazily(t *testing.T) {
	for range 2 {
		recording := Churn()
		first := make([]byte, 1000)
		if _, err := io.ReadFull(recording, first); err != nil {
			t.Fatal(err)
		}
		if err := recording.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestSampleIsDeterministic(t *testing.T) {
	for kind, recording := range all() {
		var sums [2][sha256.Size]byte
		for i := range sums {
			in := recording()
			content, err := io.ReadAll(io.LimitReader(in, 4<<20)) // more is as the beginning
			if err := errors.Join(err, in.Close()); err != nil {
				t.Fatal(err)
			}
			sums[i] = sha256.Sum256(content)
		}
		if sums[0] != sums[1] {
			t.Errorf("two recordings of %s differ", kind)
		}
	}
}
