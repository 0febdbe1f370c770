package admission_test

import (
	"fmt"
	"testing"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
)

// TestWhichCreatesGetACreateID checks how a stored Event is distinguished from others of its name: by AnnotationCreateID in
// the mutating phase, and by its uid in the validating phase.
func TestWhichCreatesGetACreateID(t *testing.T) {
	t.Parallel()
	for name, noted := range map[string]bool{
		"system:node:node-1": false, "system:kube-scheduler": false, "system:kube-controller-manager": false,
		"system:serviceaccount:kube-system:job-controller": false,
		"system:serviceaccount:kube-system-2:default":      true, "system:serviceaccount:default:kube-system:x": true,
		"kubernetes-admin": true, "system:admin": true, "system:anonymous": true, "": true, "x:system:node:node-1": true, "System:node:a": true,
	} {
		r := newRig(t, defaults())
		for i, change := range []detail{withLabel("x"), withAnnotation("x", "y"), withAnnotation(admission.AnnotationCreateID, "mine")} {
			q := newRequest(r.now, fmt.Sprint(i), details{user(name), change, message(fmt.Sprint(i))})
			_, id := parsePatch(t, r.gate.Decide(t.Context(), r.gate.Mutate, q).Response.Patch)
			if (len(id) == 16 && id != "mine") != noted || !noted && id != "" {
				t.Errorf("CREATE %d of %q notes %q", i, name, id)
			}
		}
		q := newRequest(r.now, "v", details{user(name), message("v")})
		q.Object.UID = "given"
		if a := r.gate.Decide(t.Context(), r.gate.Validate, q); a.Response.Patch != nil || r.store.lastWrite.UID != "given" || r.store.lastWrite.CreateID != 0 {
			t.Errorf("a CREATE of %q in the validating phase: %+v, patch %s", name, r.store.lastWrite.Identity, a.Response.Patch)
		}
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
