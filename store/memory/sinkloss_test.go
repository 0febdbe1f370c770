package memory

import (
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// TestNoticeReportsSinkLoss reports losses of the sink for a quota with a notice, and for an unknown register, which gets none.
func TestNoticeReportsSinkLoss(t *testing.T) {
	a := newAttacker(t, MinBytes)
	w, l := a.write(attack{group: true})
	quota := store.Bucket{Key: store.KeyOf("quota"), Name: "quota", NoticeObject: w.InvolvedObject}
	drops := engine.NewDrops(a.now, w, &l, &quota, 7)
	if err := a.ReportDrops(a.now, "production", engine.NoticeKey(&quota), &drops); err != nil {
		t.Fatal(err)
	}
	loss := engine.NewSinkLoss(&w, &quota, 4)
	a.ReportSinkLoss(a.now, "production", store.KeyOf("unknown"), loss)
	a.ReportSinkLoss(a.now, "production", engine.NoticeKey(&quota), loss)
	a.ReportSinkLoss(a.now, "production", engine.NoticeKey(&quota), engine.SinkLoss{})
	if a.groups.Len() != 1 {
		t.Errorf("%d groups, want only the quota's", a.groups.Len())
	}
	if writes := a.claim(10, time.Hour); len(writes) != 1 || writes[0].Total != 7 || writes[0].Notice.NotInSink != 4 {
		t.Errorf("%+v, want a notice of 7, of which 4 are not in the sink", writes)
	}
	a.checkAccounting()
}
