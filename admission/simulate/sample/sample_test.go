package sample

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventquota/eventquota/admission/simulate"
)

// reasons counts the lines of a recording by their reasons, and says how long it took.
func reasons(t *testing.T, recording io.ReadCloser) (counts map[string]int, took time.Duration) {
	t.Helper()
	counts, last := map[string]int{}, time.Time{}
	for lines := json.NewDecoder(recording); ; {
		var line struct {
			RequestObject            struct{ Type, Reason string }
			RequestReceivedTimestamp time.Time
		}
		err := lines.Decode(&line)
		if errors.Is(err, io.EOF) {
			return counts, last.Sub(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		}
		if err != nil {
			t.Fatal(err)
		}
		counts[line.RequestObject.Type+" "+line.RequestObject.Reason]++
		if line.RequestReceivedTimestamp.After(last) {
			last = line.RequestReceivedTimestamp
		}
	}
}

func TestTheChurnHasTheSizeAndShapeOfTheOneThatWasCounted(t *testing.T) {
	got, took := reasons(t, Churn())
	want := map[string]int{"Normal Killing": 49_504, "Normal Pulled": 27_561, "Normal Created": 27_561, "Normal Started": 27_560, "Normal Scheduled": 13_073}
	if diff := cmp.Diff(want, got); diff != "" || took.Round(time.Second) != 5*time.Minute {
		t.Errorf("in %s, want five minutes; by reason (-want +got):\n%s", took, diff)
	}
}

func TestAQuietClusterHasAsManyEventsAsItsNodesMake(t *testing.T) {
	for nodes, rollouts := range map[int]int{1: 2, 100: 2, 1000: 2, 1001: 4} {
		got, took := reasons(t, Quiet(nodes))
		pods := nodes + 50*rollouts
		failed := got["Warning Unhealthy"]
		if got["Normal SuccessfulCreate"] != pods || got["Normal Killing"] < pods/4 || failed < pods/40 || failed > pods/10 || took > 10*time.Minute {
			t.Errorf("%d nodes: %v in %s, want %d pods in ten minutes, one in twenty of which is unhealthy", nodes, got, took, pods)
		}
	}
}

// TestARecordingIsRead holds that simulations take each line for one write.
func TestARecordingIsRead(t *testing.T) {
	trace, err := simulate.Read(t.Context(), []simulate.Source{simulate.From("sample", Quiet(20))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	if in := trace.Input; in.Broken > 0 || len(in.Skipped) > 0 || in.Entries != in.Most || in.Fewest != in.Most {
		t.Errorf("read %+v", in)
	}
}

// TestARecordingIsMadeWhileItIsRead also holds that nothing goes on where nobody reads any more.
func TestARecordingIsMadeWhileItIsRead(t *testing.T) {
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

func TestARecordingIsTheSameEachTime(t *testing.T) {
	var all [2][]byte
	for i := range all {
		var err error
		if all[i], err = io.ReadAll(Quiet(10)); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(all[0], all[1]) {
		t.Error("two recordings of the same differ")
	}
}
