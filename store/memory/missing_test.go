package memory

import (
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

// TestWhatIsMissingIsInTheNotice has it of a drop of a quota and of a spam filter, and of nothing that is known.
func TestWhatIsMissingIsInTheNotice(t *testing.T) {
	h := newHostile(t, MinBytes)
	w, l := h.write(attack{group: true})
	quota := store.Bucket{Key: store.KeyOf("quota"), Name: "quota", About: w.About}
	drops := rules.Dropped(h.now, w, &l, &quota, 7)
	if err := h.ReportDrops(h.now, "production", rules.NoticeKey(&quota), &drops); err != nil {
		t.Fatal(err)
	}
	missing := rules.MissingOf(&w, &quota, 4)
	h.ReportMissing(h.now, "production", store.KeyOf("unknown"), missing)
	h.ReportMissing(h.now, "production", rules.NoticeKey(&quota), missing)
	h.ReportMissing(h.now, "production", rules.NoticeKey(&quota), rules.Missing{})
	if h.groups.Len() != 1 {
		t.Errorf("%d groups, want that of the quota", h.groups.Len())
	}
	if writes := h.claim(10, time.Hour); len(writes) != 1 || writes[0].Total != 7 || writes[0].Notice.Missing != 4 {
		t.Errorf("%+v, want a notice of 7, of which 4 are missing", writes)
	}
	h.check()
}
