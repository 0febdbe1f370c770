package store

import "time"

// verdict is the answer of merge.lua and take.lua.
type verdict struct {
	Decision
	// left is for how long CREATEs like the one that was dropped are refused; when
	// the spam bucket is shared, for how long as far as their reserve goes.
	left time.Duration
	// charged tells that tokens were used up.
	charged bool
	// quota tells that it was dropped because a quota was empty.
	quota bool
}

// readVerdict reads the answer to a call whose trip went as sent says.
func readVerdict(c *call, sent error) (verdict, error) {
	if c.Cmd == nil {
		return verdict{}, sent
	}
	answer, err := c.Text()
	if err != nil {
		return verdict{}, err
	}
	in := unpacker{rest: []byte(answer)}
	var v verdict
	switch in.text() {
	case "admit":
		v.Verdict = Admit
	case "aggregate":
		v.Verdict = Aggregate
	case "merge":
		v.Verdict = Merge
	case "drop":
		v.Verdict = Drop
	}
	v.Into, v.Total, v.Next = in.text(), in.number(), in.time()
	v.left = in.duration()
	v.quota, v.charged = in.text() == "quota", in.boolean()
	return v, in.err
}
