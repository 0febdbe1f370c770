package chart

import (
	"strings"
	"testing"
)

// That it is there unless it is left out is shown by TestEachOverlayIsASetOfValues.
func TestThePolicyOfSizesCanBeLeftOut(t *testing.T) {
	for _, o := range mustRender(t, "validatingAdmissionPolicy: {enabled: false}").Objects {
		if strings.HasPrefix(o.GetKind(), "ValidatingAdmissionPolicy") {
			t.Errorf("%s is there", identity(o))
		}
	}
}
