package memory

import (
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// TestNoticeReportsSinkLoss has it of a drop of a quota and of a spam filter, and of nothing that is known.
func TestNoticeReportsSinkLoss(t *testing.T) {
	h := newAttacker(t, MinBytes)
	w, l := h.write(attack{group: true})
	quota := store.Bucket{Key: store.KeyOf("quota"), Name: "quota", NoticeObject: w.InvolvedObject}
	drops := engine.NewDrops(h.now, w, &l, &quota, 7)
	if err := h.ReportDrops(h.now, "production", engine.NoticeKey(&quota), &drops); err != nil {
		t.Fatal(err)
	}
	missing := engine.NewSinkLoss(&w, &quota, 4)
	h.ReportSinkLoss(h.now, "production", store.KeyOf("unknown"), missing)
	h.ReportSinkLoss(h.now, "production", engine.NoticeKey(&quota), missing)
	h.ReportSinkLoss(h.now, "production", engine.NoticeKey(&quota), engine.SinkLoss{})
	if h.groups.Len() != 1 {
		t.Errorf("%d groups, want that of the quota", h.groups.Len())
	}
	if writes := h.claim(10, time.Hour); len(writes) != 1 || writes[0].Total != 7 || writes[0].Notice.NotInSink != 4 {
		t.Errorf("%+v, want a notice of 7, of which 4 are missing", writes)
	}
	h.checkAccounting()
}
