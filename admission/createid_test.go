package admission_test

import (
	"fmt"
	"testing"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
)

// patchers is a Rights that knows which users may patch Events, by namespace, group and name.
type patchers map[[3]string]bool

func (p patchers) MayPatchEvents(namespace, group string, u *policy.UserInfo) bool {
	return p[[3]string{namespace, group, u.Username}]
}

// TestWhichCreatesGetACreateID checks how a stored Event is distinguished from others of its name. In the mutating phase it is by
// AnnotationCreateID, unless its writer may patch Events there. In the validating phase it is by its uid. No name is a right.
func TestWhichCreatesGetACreateID(t *testing.T) {
	t.Parallel()
	mayPatch := patchers{{"default", "", "recorder"}: true, {"default", "events.k8s.io", "series"}: true, {"shop", "", "elsewhere"}: true}
	for name, noted := range map[string]bool{
		"recorder": false, "series": true, "elsewhere": true, "tenant": true, "": true,
		"system:node:node-1": true, "system:kube-scheduler": true, "system:serviceaccount:kube-system:coredns": true,
	} {
		r := newRig(t, defaults())
		r.gate.Rights = mayPatch
		for i, change := range []detail{withLabel("x"), withAnnotation("x", "y"), withAnnotation(admission.AnnotationCreateID, "mine")} {
			q := newRequest(r.now, fmt.Sprint(i), details{user(name), change, message(fmt.Sprint(i))})
			_, claimed := q.Object.Annotations[admission.AnnotationCreateID]
			_, id := parsePatch(t, r.gate.Decide(t.Context(), r.gate.Mutate, q).Response.Patch)
			if got := len(id) == 16 && id != "mine"; got != (noted || claimed) || !got && id != "" {
				t.Errorf("CREATE %d of %q notes %q", i, name, id)
			}
		}
		q := newRequest(r.now, "v", details{user(name), message("v")})
		q.Object.UID = "given"
		if a := r.gate.Decide(t.Context(), r.gate.Validate, q); a.Response.Patch != nil || r.store.lastWrite.UID != "given" || r.store.lastWrite.CreateID != 0 {
			t.Errorf("a CREATE of %q in the validating phase: %+v, patch %s", name, r.store.lastWrite.Identity, a.Response.Patch)
		}
	}
	series := newRig(t, defaults())
	series.gate.Rights = mayPatch
	if a := series.gate.Decide(t.Context(), series.gate.Mutate, newRequest(series.now, "s", details{user("series"), viaEventsRecorder})); a.Response.Patch != nil {
		t.Errorf("a user who may patch through events.k8s.io: patch %s", a.Response.Patch)
	}
	for says, change := range map[string]func(*appliedRules){
		"an exempt Event":         func(p *appliedRules) { p.Action = policy.Exempt },
		"where nothing is merged": func(p *appliedRules) { p.Merge.Enabled = false },
	} {
		r := newRig(t, namedPolicy("own", change))
		if a := r.gate.Decide(t.Context(), r.gate.Mutate, newRequest(r.now, "a", details{user("tenant")})); a.Response.Patch != nil {
			t.Errorf("%s: patch %s", says, a.Response.Patch)
		}
	}
}
