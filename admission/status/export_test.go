package status

import (
	"time"

	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/policy/watch"
)

// What tests look into.
var (
	Same   = same
	SlotAt = slotAt
)

type (
	Sum  = sum
	Slot = slot
)

// Render is the next status of a rule.
func Render(r *watch.Report, s *Sum, before *v1alpha1.Status, now time.Time, shadowed ...string) *v1alpha1.Status {
	return render(&record{report: *r, sum: s, stored: *before, shadowed: shadowed}, now)
}
