package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/eventquota/eventquota/store"
)

// side is one of two stores that are compared, and what its notices are called.
type side struct {
	Subject
	notices map[store.Key][]string // names, by group, in the order of their first drops
	debts   int                    // handed out so far
}

func newSide(s Subject) *side {
	return &side{Subject: s, notices: map[store.Key][]string{}}
}

// answer is what a store handed out, in the order of what is said of it.
type answer struct {
	said  []string
	debts []store.Debt
	nth   []int // place among all that the store handed out
}

func (s *side) answer(debts []store.Debt) answer {
	byFirst := slices.Clone(debts)
	slices.SortStableFunc(byFirst, func(x, y store.Debt) int { return x.First.Compare(y.First) })
	for _, d := range byFirst {
		if d.Notice != nil && !slices.Contains(s.notices[d.Ref.Group], d.Name) {
			s.notices[d.Ref.Group] = append(s.notices[d.Ref.Group], d.Name)
		}
	}
	var a answer
	for _, d := range debts {
		a = a.and(answer{[]string{s.owed(d)}, []store.Debt{d}, []int{s.debts}})
		s.debts++
	}
	return a
}

// and joins two answers.
func (a answer) and(b answer) answer {
	all := answer{slices.Concat(a.said, b.said), slices.Concat(a.debts, b.debts), slices.Concat(a.nth, b.nth)}
	order := make([]int, len(all.said))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(all.said[i], all.said[j]) })
	var sorted answer
	for _, i := range order {
		sorted.said = append(sorted.said, all.said[i])
		sorted.debts = append(sorted.debts, all.debts[i])
		sorted.nth = append(sorted.nth, all.nth[i])
	}
	return sorted
}

// without is what is said in a and not in b.
func (a answer) without(b answer) []string {
	return slices.DeleteFunc(slices.Clone(a.said), func(said string) bool { return slices.Contains(b.said, said) })
}

func (a answer) String() string {
	if len(a.said) == 0 {
		return "nothing"
	}
	return strings.Join(a.said, "\n\t   ")
}

// owed says in words all that is in d, but for what is a store's own.
func (s *side) owed(d store.Debt) string {
	name := d.Name
	if d.Notice != nil {
		name = fmt.Sprint("notice ", 1+slices.Index(s.notices[d.Ref.Group], d.Name))
	}
	said := fmt.Sprintf("%.4v %s/%s %d (%d merged) series %t first %s last %s text %q messages (%s)", d.Ref.Group, d.Namespace, name,
		d.Total, d.Merged, d.Series, moment(d.First), moment(d.Last), d.Text, tallies(d.Messages))
	if d.Notice != nil {
		said += fmt.Sprintf(" reasons (%s) written %t about %+v", tallies(d.Notice.Reasons), d.Notice.Written, d.Notice.Subject)
	}
	return said
}

// decided says in words all that is in a decision.
func decided(d store.Decision, err error) string {
	if err != nil {
		return failed(err)
	}
	said := fmt.Sprintf("%v into %q %d", d.Verdict, d.Into, d.Total)
	if d.Empty != (store.Bucket{}) || !d.Next.IsZero() {
		said += fmt.Sprintf(" empty %+v next %s", d.Empty, moment(d.Next))
	}
	return said
}

// failed says whether something failed, and whether for lack of room.
func failed(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, store.ErrFull):
		return "full"
	}
	return "error"
}
