package storetest

import (
	"time"

	"github.com/eventquota/eventquota/store"
)

// How many bytes choose the terms of a run, and each of its moves. They are
// fixed, so that a byte that changes or a move that goes changes no other.
const (
	headBytes = 64
	moveBytes = 24
	mostMoves = 5000
)

// choices are bytes of which each makes one choice. Where they end, the first
// of all things is chosen.
type choices []byte

func (c *choices) below(n int) int {
	if len(*c) == 0 {
		return 0
	}
	b := int((*c)[0])
	*c = (*c)[1:]
	return b % n
}

// among chooses one of several.
func among[T any](c *choices, of ...T) T { return of[c.below(len(of))] }

// play is all that choices choose.
type play struct {
	terms []store.Terms
	moves []move
}

// act is what a move does.
type act int

const (
	createAct   act = iota // a CREATE through both phases
	mutateAct              // a CREATE through the mutating phase
	arriveAct              // the validating phase of one that was only mutated
	validateAct            // a CREATE that the mutating phase has not seen
	updateAct
	againAct // the last UPDATE once more
	dueAct
	settleAct
)

// move is one step of a comparison, all chosen beforehand but what follows
// from the answers.
type move struct {
	act                          act
	place                        int // among the moves that were chosen
	wait                         time.Duration
	group, name, reason, message string
	series, combined             bool
	count                        func(told int64) int64 // by the highest count that was sent under the name
	at                           time.Duration          // of the newest occurrence, before now
	update                       store.Update
	old                          int64 // how much less than the last count is stored
	terms                        int
	spam                         string // a spam bucket of its own
	ahead                        time.Duration
	some                         int // how many debts are claimed, or which claim is settled
	outcome                      store.Outcome
}

func choose(data []byte) play {
	head := choices(data[:min(len(data), headBytes)])
	end := min(len(data), headBytes+mostMoves*moveBytes)
	var p play
	width := wideness(head.below(14))
	for range 3 {
		p.terms = append(p.terms, chooseTerms(&head, width))
	}
	for i := headBytes; i < end; i += moveBytes {
		c := choices(data[i:min(i+moveBytes, end)])
		p.moves = append(p.moves, chooseMove(&c, len(p.moves), p.terms, width))
	}
	return p
}
