package clients

import "testing"

// TestReportedSequencesAreCounted plays sequences in which a retry was once counted. kopf publishes an Event 3 times, Strimzi one twice, and
// KubeOps one 21 times. kube-rs publishes one 4 times, and once more after a restart.
func TestReportedSequencesAreCounted(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "", 1)
	s := &session{env: e, observed: &observations{}, sleeps: &sleeps{}}
	repeats := func(n int) (some []occurrence) {
		for i := range n {
			some = append(some, occurrence{"widget", "Synced", "synced", i})
		}
		return some
	}
	want := map[string]int64{}
	for _, sequence := range []struct {
		namespace string
		start     func(*session) (client, error)
		lives     []int // publications of each process, one after the other
	}{
		{"kopf", startKopf, []int{3}},
		{"rust", startKubeRS, []int{4, 1}},
		{"java", startStrimzi, []int{2}},
		{"dotnet", startKubeOps, []int{21}},
	} {
		e.namespace(sequence.namespace)
		for _, n := range sequence.lives {
			c, err := sequence.start(s)
			e.must(err)
			e.must(c.publish(t.Context(), sequence.namespace, repeats(n)))
			want[sequence.namespace] += int64(n)
		}
	}
	e.must(e.set.Replicas[0].Stop())
	stored := e.stored()
	for namespace, n := range want {
		if stored[namespace] != n {
			t.Errorf("%s: %d occurrences are stored, want %d\n%s", namespace, stored[namespace], n, e.describe(namespace))
		}
	}
	if n := s.sleeps.n.Load(); n != 0 {
		t.Errorf("plays waited %d times before they sent a request again, want 0", n)
	}
	t.Logf("stored: %v", stored)
}
