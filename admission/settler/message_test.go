package settler_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/store"
)

func TestNoticeMessageIsShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := written(t, newNotice(func(p *store.PendingWrite) {
			p.Notice.Reasons, p.Notice.Sources, p.Notice.Objects = nil, nil, nil
			for i := range 16 {
				p.Notice.Reasons = append(p.Notice.Reasons, store.Tally{Name: fmt.Sprint(i, strings.Repeat("€", 42)), Count: 100})
				p.Notice.Sources = append(p.Notice.Sources, store.Tally{Name: fmt.Sprint(i, strings.Repeat("\u202e", 80)), Count: 100})
			}
			for i := range 10 {
				p.Notice.Objects = append(p.Notice.Objects, fmt.Sprint(i, strings.Repeat("o", 759)))
			}
		}))
		if len(e.Message) > 256 || !strings.Contains(e.Message, "12 dropped: 0€€€€€€€€€€€€..., 1€") || strings.Contains(e.Message, "\u202e") || !strings.Contains(e.Message, "spam filter of team-a") {
			t.Errorf("%d bytes: %q", len(e.Message), e.Message)
		}
		var all struct {
			Reasons, Sources map[string]int64
			Objects          []string
		}
		if err := json.Unmarshal([]byte(e.Annotations[settler.AnnotationDropped]), &all); err != nil {
			t.Fatal(err)
		}
		if len(all.Reasons) != 16 || len(all.Sources) != 16 || len(all.Objects) != 10 || len(all.Objects[9]) != 760 ||
			all.Sources["15"+strings.Repeat("\ufffd", 80)] != 100 || all.Reasons["15"+strings.Repeat("€", 42)] != 100 {
			t.Errorf("annotation has %+v", all)
		}
	})
}
