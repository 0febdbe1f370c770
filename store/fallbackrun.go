package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sony/gobreaker/v2"
)

// Groups are handed over one after the other, with a pause after some, so that
// decisions come first.
const (
	handOverBatch = 64
	handOverPause = 10 * time.Millisecond
	handOverTries = 2 // of the same Legacy, whose first answer may have been lost
)

// Run hands over what the Memory decided, whenever the shared store answers,
// until ctx ends. What is left then is for the settler of the Memory.
func (f *Fallback) Run(ctx context.Context) {
	ticker := time.NewTicker(f.options.HandOverEvery)
	defer ticker.Stop()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.takeBack(f.options.Now())
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.back:
		case <-ticker.C:
		}
		if f.pending.Load() && f.breaker.State() != gobreaker.StateOpen {
			f.handOverAll(ctx)
		}
	}
}

// handOverAll hands over each group once, as long as that succeeds.
func (f *Fallback) handOverAll(ctx context.Context) {
	f.pending.Store(false)                  // whoever decides from now on says so anew
	groups := append(f.local.Held(), Key{}) // the last holds nothing: what is on its way goes
	for i, group := range groups {
		if i%handOverBatch == handOverBatch-1 {
			pause := time.NewTimer(handOverPause)
			select {
			case <-ctx.Done():
			case <-pause.C:
			}
		}
		if err := f.HandOver(ctx, f.options.Now(), group); err != nil {
			return
		}
	}
	if len(f.local.Held()) > 0 {
		f.pending.Store(true) // somebody was about to write
	}
}

// HandOver hands one group over to the shared store: what the Memory counted of
// it is then known there, and here no more. It does nothing while one of the
// group's Events is about to be written. What was on its way when a call failed
// may have arrived, so it goes first the next time, as it is.
func (f *Fallback) HandOver(ctx context.Context, now time.Time, group Key) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.onItsWay != nil {
		if err := f.deliver(ctx, now); err != nil {
			return err
		}
	}
	l, ok := f.local.Release(now, group)
	if !ok {
		return nil
	}
	f.onItsWay = &l
	return f.deliver(ctx, now)
}

// deliver hands over what is on its way.
func (f *Fallback) deliver(ctx context.Context, now time.Time) error {
	l := *f.onItsWay // for a call that runs on past its deadline
	var err error
	for range handOverTries {
		_, err = f.ask(ctx, f.options.HandOverDeadline, func(ctx context.Context) (Decision, error) {
			return Decision{}, f.shared.Inherit(ctx, now, l)
		})
		if err == nil || errors.Is(err, ErrFull) {
			break
		}
	}
	switch {
	case err == nil:
		f.onItsWay = nil
	case errors.Is(err, ErrFull): // it did not arrive
		f.takeBack(now)
	}
	if err != nil {
		f.pending.Store(true)
		err = fmt.Errorf("hand over to the shared store: %w", err)
	}
	f.options.HandedOver(err)
	return err
}

// takeBack gives the Memory what is on its way.
func (f *Fallback) takeBack(now time.Time) {
	if f.onItsWay != nil {
		f.local.restore(now, *f.onItsWay)
		f.onItsWay = nil
	}
}
