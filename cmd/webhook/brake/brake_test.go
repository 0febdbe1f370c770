package brake_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/cmd/webhook/brake"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/test/cli"
)

func TestBrakeIsPulledAndReleased(t *testing.T) {
	s := newServer(t)
	if st := s.status(); st.On || st.Mode != "Disabled" {
		t.Errorf("as it is installed, its status is %+v", st)
	}
	wantContains(t, s.run("status"), "The emergency brake is off.")
	wantContains(t, s.run("off"), "was off before, and nothing has changed")

	before := time.Now().UTC().Truncate(time.Second)
	wantContains(t, s.run("on", "--reason", "rollout storm", "--for", "30m"), "The emergency brake is on. It refuses all Events except Warnings in all namespaces.",
		"SET BY    alice", "REASON    rollout storm", " ago)", "UNTIL     20", "(in ", "To release it: kubectl eventquota brake off")
	st := s.status()
	since, err := time.Parse(time.RFC3339, st.Since)
	until, err2 := time.Parse(time.RFC3339, st.Until)
	if err != nil || err2 != nil || since.Before(before) || until.Sub(since) != 30*time.Minute || !strings.HasSuffix(st.Until, "Z") {
		t.Errorf("it is on since %q (%v) until %q (%v)", st.Since, err, st.Until, err2)
	}
	if !st.On || st.By != "alice" || st.Reason != "rollout storm" || st.Mode != "Enforce" || st.Dropped != nil || st.Policy != "ClusterEventPolicy emergency-brake" {
		t.Errorf("status %+v", st)
	}

	writes := len(s.writes)
	wantContains(t, s.run("on"), "It was on before, and nothing has changed.", "rollout storm")
	if len(s.writes) != writes {
		t.Errorf("a second on has written %q", s.writes[writes:])
	}
	s.user, st.Since = "bob", "2026-01-02T15:04:05Z"
	s.change(`{"metadata":{"annotations":{"eventquota.io/brake-since":"2026-01-02T15:04:05Z"}}}`)
	s.run("on", "--for", "2h")
	if again := s.status(); again.Since != st.Since || again.Reason != st.Reason || again.By != "bob" || again.Until <= st.Until {
		t.Errorf("with a later end its status is %+v, before %+v", again, st)
	}
	s.run("on", "--for", "0", "--reason", "")
	if again := s.status(); again.Until != "" || again.Reason != "" || again.Since != st.Since {
		t.Errorf("without an end its status is %+v", again)
	}
	wantContains(t, s.run("status"), "UNTIL     it is released by hand", "REASON    none given")

	s.change(`{"metadata":{"generation":2},"status":{"observedGeneration":2,"total":{"dropped":12345},
		"conditions":[{"type":"Ready","status":"False","reason":"Invalid","message":"no \u001b[2Jway"}]}}`)
	wantContains(t, s.run("status"), "DROPPED        12,345 Events", "NOT IN FORCE   Invalid: no \ufffd[2Jway")
	if st := s.status(); st.Dropped == nil || *st.Dropped != 12345 {
		t.Errorf("status %+v", st)
	}
	s.change(`{"metadata":{"generation":3}}`)
	if st := s.status(); st.Dropped != nil {
		t.Errorf("%d dropped by another generation", *st.Dropped)
	}

	wantContains(t, s.run("off"), "The emergency brake is off.\n")
	if a, mode := s.annotations(brakePath); mode != "Disabled" || len(a) != 1 || a["mine"] != "kept" {
		t.Errorf("after off, mode is %v and the annotations are %v", mode, a)
	}
	for _, write := range s.writes {
		if write != "PATCH "+brakePath+"?fieldManager=eventquota-brake" {
			t.Errorf("write %s", write)
		}
	}
}

// Annotations that an earlier brake left do not come back.
func TestStaleAnnotationsAreReplaced(t *testing.T) {
	s := newServer(t)
	s.change(`{"metadata":{"annotations":{"eventquota.io/brake-since":"2020-01-01T00:00:00Z","eventquota.io/brake-until":"2020-01-01T00:30:00Z","eventquota.io/brake-reason":"old","eventquota.io/brake-by":"old"}}}`)
	if st := s.status(); st.On || st.Since != "" || st.Until != "" {
		t.Errorf("off, its status is %+v", st)
	}
	s.run("on")
	if st := s.status(); !st.On || st.Until != "" || st.Reason != "" || st.By != "alice" || strings.HasPrefix(st.Since, "2020") {
		t.Errorf("on, its status is %+v", st)
	}
	s.run("off")
	s.change(`{"metadata":{"annotations":{"eventquota.io/brake-until":"2020-01-01T00:30:00Z"}}}`)
	if wantContains(t, s.run("off"), "is off.\n"); len(nested(s.objects[brakePath], "metadata", "annotations")) != 1 {
		t.Error("off leaves the annotations of a brake that is off")
	}
}

// A namespace has its own brake, which is created when it is first pulled, as is that of the cluster if it was deleted.
func TestMissingBrakesAreCreated(t *testing.T) {
	s := newServer(t)
	for path, flags := range map[string][]string{shopPath: {"-n", "shop"}, clusterPath: nil} {
		delete(s.objects, path+"/emergency-brake")
		s.writes = nil
		if st := s.status(flags...); st.On || st.Mode != "" {
			t.Errorf("without a policy, the status is %+v", st)
		}
		wantContains(t, s.run(append([]string{"off"}, flags...)...), "was off before")
		s.run(append([]string{"on", "--reason", "here"}, flags...)...)
		if st := s.status(flags...); !st.On || st.Reason != "here" {
			t.Errorf("the status is %+v", st)
		}
		if got := strings.Join(s.writes, " "); got != "POST "+path+"/emergency-brake?fieldManager=eventquota-brake" {
			t.Errorf("writes %s", got)
		}
		spec := nested(s.objects[path+"/emergency-brake"], "spec")
		if _, tier := spec["tier"]; tier != (flags == nil) || spec["action"] != "Drop" || spec["mode"] != "Enforce" {
			t.Errorf("%s: spec %v", path, spec)
		}
		s.run(append([]string{"off"}, flags...)...)
		if _, mode := s.annotations(path + "/emergency-brake"); mode != "Disabled" {
			t.Errorf("%s: mode %v after off", path, mode)
		}
	}
}

// One of two users who change the brake at the same time gets an error that says what it is now; an update of the status is none.
func TestConcurrentChanges(t *testing.T) {
	s := newServer(t)
	pulled := `{"metadata":{"annotations":{"eventquota.io/brake-since":"2026-01-02T15:04:05Z","eventquota.io/brake-by":"bob"}},"spec":{"mode":"Enforce"}}`
	s.before = func() { s.change(pulled) }
	s.wantError("brake on: pull the emergency brake: another user has changed the emergency brake at the same time, and this command has changed nothing: "+
		"it is on since 2026-01-02T15:04:05Z, set by bob", "on", "--for", "1h")
	if a, _ := s.annotations(brakePath); a[v1alpha1.AnnotationBrakeUntil] != nil {
		t.Errorf("it has got an end: %v", a)
	}
	s.before = func() { s.change(`{"metadata":{"annotations":{"eventquota.io/brake-until":"2026-01-02T16:04:05Z"}}}`) }
	s.wantError("brake off: release the emergency brake: another user has changed", "off")
	s.before = func() { s.change(`{"status":{"observedGeneration":1}}`) }
	wantContains(t, s.run("off"), "is off.\n")
	s.before = func() { delete(s.objects, brakePath) }
	s.wantError("brake on: pull the emergency brake: another user has changed the emergency brake at the same time, and this command has changed nothing: it is off", "on")
	s.before = func() {
		s.objects[brakePath] = map[string]any{"apiVersion": "eventquota.io/v1alpha1", "kind": "ClusterEventPolicy", "metadata": map[string]any{"name": "emergency-brake"}, "spec": map[string]any{"mode": "Enforce"}}
	}
	s.wantError("brake on: pull the emergency brake: another user has changed the emergency brake at the same time, and this command has changed nothing: it is on", "on")
}

func TestFailuresReturnOneError(t *testing.T) {
	s := newServer(t)
	s.refuses[http.MethodPatch] = http.StatusForbidden
	s.wantError("brake on: pull the emergency brake: it takes the verbs get and patch on clustereventpolicies.eventquota.io named emergency-brake, and create where there is none: Forbidden", "on")
	s.refuses[http.MethodGet] = http.StatusForbidden
	s.wantError("brake status: it takes the verbs get and patch on eventpolicies.eventquota.io named emergency-brake", "status", "-n", "shop")
	clear(s.refuses)
	s.notServed = true
	for _, command := range []string{"on", "off", "status"} {
		_, _, err := cli.Run(t, cli.WithRoot(brake.Command()), cli.EndlessReader{}, "brake", command)
		if err == nil || !strings.HasSuffix(err.Error(), "the API server does not serve clustereventpolicies of eventquota.io/v1alpha1: apply manifests/crds, or name the cluster by --context") {
			t.Errorf("%s without the definitions: %v", command, err)
		}
	}
	s.notServed = false
	s.change(`{"spec":{"action":"Exempt"}}`)
	s.wantError("brake on: pull the emergency brake: spec.action of ClusterEventPolicy emergency-brake must be Drop, not Exempt: delete it", "on")

	s.wantError(`unknown command "of" for "eventquota brake"`, "of")
	s.wantError("--for 1ms: must be 0, or from 1s to 168h0m0s", "on", "--for", "1ms")
	s.wantError("--for -1h0m0s: must be 0", "on", "--for", "-1h")
	s.wantError("--for 169h0m0s: must be 0", "on", "--for", "169h")
	s.wantError("--reason: must be one line of at most 256 bytes", "on", "--reason", strings.Repeat("x", 257))
	s.wantError("--reason: must be one line", "on", "--reason", "two\nlines")
	s.wantError("--reason: must be one line", "on", "--reason", "\x1b[2J")
	s.wantError(`--namespace "A_B": `, "on", "-n", "A_B")
	// A shell variable that is not set must not select the brake of all namespaces, or of another cluster.
	for _, command := range []string{"on", "off", "status"} {
		s.wantError(`invalid argument "" for "-n, --namespace" flag: must not be empty`, command, "-n", "")
		for _, flag := range []string{"kubeconfig", "context", "cluster", "server"} {
			s.wantError(fmt.Sprintf(`invalid argument "" for "--%s" flag: must not be empty`, flag), command, "--"+flag, "")
		}
	}
	if len(s.writes) != 0 {
		t.Errorf("writes %q", s.writes)
	}
}

// A user name may have any characters and length, and a user may have no right to ask for it.
func TestUserNamesAreBounded(t *testing.T) {
	s := newServer(t)
	s.user = "a\x1b[2J\n" + strings.Repeat("€", 1000)
	s.run("on")
	a, _ := s.annotations(brakePath)
	if by := fmt.Sprint(a[v1alpha1.AnnotationBrakeBy]); len(by) > 256 || len(by) < 250 || !strings.HasPrefix(by, "a\ufffd[2J €€") || strings.TrimLeft(by, "a\ufffd[2J €") != "" {
		t.Errorf("by is %q", by)
	}
	s.run("off")
	s.refuses["review"] = http.StatusForbidden
	s.run("on")
	if a, _ := s.annotations(brakePath); a[v1alpha1.AnnotationBrakeBy] != "unknown" {
		t.Errorf("by is %q", a[v1alpha1.AnnotationBrakeBy])
	}
}

// Anyone may have written the annotations.
func TestStatusShowsOddPolicies(t *testing.T) {
	s := newServer(t)
	s.change(`{"metadata":{"annotations":{"eventquota.io/brake-since":"yester\u001b[2Jday","eventquota.io/brake-until":"` + strings.Repeat("9", 1000) + `"}},"spec":{"mode":"Enforce"}}`)
	got := s.run("status")
	wantContains(t, got, "yester\ufffd[2Jday (not a time in RFC 3339", "SET BY    unknown")
	if len(got) > 2000 || strings.Contains(got, "\x1b") {
		t.Errorf("it prints %q", got)
	}
	s.change(`{"spec":{"match":{"reasons":["Pulled"]}}}`)
	wantContains(t, s.run("status"), "It refuses the Events that spec.match of its policy selects.")
	s.change(`{"spec":{"mode":"Audit"}}`)
	wantContains(t, s.run("status"), "The emergency brake is off: its policy has mode Audit")
}

func TestHelpMatchesGolden(t *testing.T) {
	for _, command := range []string{"on", "off", "status"} {
		out, _, err := cli.Run(t, cli.WithRoot(brake.Command()), cli.EndlessReader{}, "brake", command, "--help")
		if err != nil {
			t.Fatal(err)
		}
		out, _, _ = strings.Cut(out, "\nGlobal Flags:") // those of brake
		cli.CompareGolden(t, filepath.Join("testdata", "help-"+command+".txt"), out)
	}
}
